/*
 * unknown.c - driver functions that are not in the table are found as drain thunks of a pool.
 * Variables are left alone.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "shim/lookup/unknown.h"

TestSuite(unknown, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_unknown"

static struct process *run(const char *preload, const char *setting, const char *mode,
                           const char *count)
{
    const char *const argv[] = {PROGRAM, mode, count, NULL};
    const char *const env[] = {FAKE_DRIVER, preload, setting, NULL};
    struct process *p = process_run(argv, env, 30);

    cr_assert_eq(p->status, 0, "status %d: %s", p->status, process_err(p));
    return p;
}

static int occurrences(const char *text, const char *what)
{
    int count = 0;

    for (; (text = strstr(text, what)); text++)
        count++;
    return count;
}

Test(unknown, calls_return_what_the_driver_returns)
{
    struct process *bare = run("LD_PRELOAD", NULL, "calls", NULL),
                   *with = run(PRELOAD_PROBE, NULL, "calls", NULL);

    cr_expect(strstr(process_out(bare), "five: 650 "), "the program itself is wrong: %s",
              process_out(bare));
    cr_expect_str_eq(process_out(with), process_out(bare));
    process_free(bare);
    process_free(with);
}

Test(unknown, every_lookup_path_drains_all_contexts)
{
    struct process *p = run(PRELOAD_PROBE, NULL, "calls", NULL);
    static const char *const ways[] = {"dlsym", "four", "five"};

    for (int i = 0; i < 3; i++) {
        char line[64];
        snprintf(line, sizeof(line), "%s: drains %d scope %d\n", ways[i], i + 1, DRAIN_UNKNOWN);
        cr_expect(strstr(process_err(p), line), "no %s in %s", line, process_err(p));
    }
    process_free(p);
}

Test(unknown, each_name_is_logged_once)
{
    struct process *p = run(PRELOAD_PROBE, "CUTIN_LOG=info", "calls", NULL);

    cr_expect_eq(occurrences(process_err(p), "cutin: cuFakeMany is unknown"), 1, "%s",
                 process_err(p));
    cr_expect_eq(occurrences(process_err(p), "is unknown"), 1, "%s", process_err(p));
    process_free(p);
}

/* There are more functions than thunks: all work, those with thunks drain, and one line says so. */
Test(unknown, functions_beyond_pool_pass_undrained)
{
    enum { ASKED = UNKNOWN_THUNKS + 50 };
    char count[16], drains[32];
    snprintf(count, sizeof(count), "%d", ASKED);
    snprintf(drains, sizeof(drains), "many: drains %d ", UNKNOWN_THUNKS);
    struct process *bare = run("LD_PRELOAD", NULL, "many", count),
                   *with = run(PRELOAD_PROBE, NULL, "many", count);

    cr_expect_str_eq(process_out(with), process_out(bare));
    cr_expect(strstr(process_err(with), drains), "%s", process_err(with));
    cr_expect_eq(occurrences(process_err(with), "buffering off"), 1, "%s", process_err(with));
    process_free(bare);
    process_free(with);
}

Test(unknown, nothing_is_drained_when_cutin_is_disabled)
{
    struct process *p = run(PRELOAD_PROBE, "CUTIN_DISABLE=1", "calls", NULL);

    cr_expect(strstr(process_err(p), "five: drains 0 "), "%s", process_err(p));
    process_free(p);
}
