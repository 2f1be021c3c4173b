/*
 * thunk.c - drain thunks: arguments, results, stack and errno pass through untouched, and the drain
 * happens first.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(thunk, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_thunk"

static struct process *run(const char *preload)
{
    const char *const argv[] = {PROGRAM, NULL};
    const char *const env[] = {FAKE_DRIVER, preload, NULL};
    struct process *p = process_run(argv, env, 30);

    cr_assert_eq(p->status, 0, "status %d: %s", p->status, process_err(p));
    return p;
}

Test(thunk, calls_return_what_the_driver_returns)
{
    struct process *bare = run("LD_PRELOAD"), *with = run(PRELOAD_PROBE);

    cr_expect(strstr(process_out(bare), "many 650 "), "the program itself is wrong: %s",
              process_out(bare));
    cr_expect_str_eq(process_out(with), process_out(bare));
    process_free(bare);
    process_free(with);
}

Test(thunk, each_call_drains_once_with_the_scope_of_its_row)
{
    struct process *p = run(PRELOAD_PROBE);
    const char *err = process_err(p);

    cr_expect(strstr(err, "many: drains 1 scope 0"), "%s", err); /* DRAIN_CONTEXT */
    cr_expect(strstr(err, "double: drains 2 scope 0"), "%s", err);
    cr_expect(strstr(err, "large: drains 3 scope 0"), "%s", err); /* its wrapper is missing */
    cr_expect(strstr(err, "context: drains 4 scope 0"), "%s", err);
    cr_expect(strstr(err, "all: drains 5 scope 2"), "%s", err);
    cr_expect(strstr(err, "legacy: drains 6 scope 1"), "%s", err);
    process_free(p);
}

Test(thunk, backtrace_in_drain_reaches_main)
{
    struct process *p = run(PRELOAD_PROBE);

    cr_expect(strstr(process_err(p), "unwound to main: 1"), "%s", process_err(p));
    process_free(p);
}

Test(thunk, nothing_is_drained_when_cutin_is_disabled)
{
    const char *const argv[] = {PROGRAM, NULL};
    const char *const env[] = {FAKE_DRIVER, PRELOAD_PROBE, "CUTIN_DISABLE=1", NULL};
    struct process *bare = run("LD_PRELOAD"), *p = process_run(argv, env, 30);

    cr_expect_eq(p->status, 0);
    cr_expect(strstr(process_err(p), "legacy: drains 0"), "%s", process_err(p));
    cr_expect_str_eq(process_out(p), process_out(bare));
    process_free(bare);
    process_free(p);
}
