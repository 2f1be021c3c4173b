/*
 * process.c - cutin inside a process: it does nothing without CUDA, passes through after fork and
 * at exit, and is silent unless asked.
 */
#include "tests/integration/process.h"

#include <criterion/criterion.h>
#include <string.h>

TestSuite(shim_process, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM   BIN_DIR "/tests/program_process"
#define PRELOAD   PRELOAD_FIRST CUTIN
#define NO_DRIVER "LD_LIBRARY_PATH=/nonexistent"

static struct process *run(const char *what, const char *driver, const char *preload,
                           const char *more)
{
    const char *const argv[] = {PROGRAM, what, NULL};
    const char *const env[] = {driver, preload, "CUTIN_SOCKET=", "CUTIN_PATH=" CUTIN, more, NULL};
    struct process *p = process_run(argv, env, 60);

    cr_assert_eq(p->status, 0, "status %d: %s%s", p->status, process_out(p), process_err(p));
    return p;
}

static void same(const char *what)
{
    struct process *bare = run(what, FAKE_DRIVER, "LD_PRELOAD", NULL);
    struct process *with = run(what, FAKE_DRIVER, PRELOAD, NULL);

    cr_expect_str_eq(process_out(with), process_out(bare));
    cr_expect_str_empty(process_err(with));
    process_free(bare);
    process_free(with);
}

Test(shim_process, no_thread_handler_or_umask_change_without_cuda)
{
    same("quiet");
}

/* Bad settings do not matter to such a program, either. */
Test(shim_process, no_message_without_cuda)
{
    struct process *p = run("quiet", NO_DRIVER, PRELOAD, "CUTIN_DEPTH=abc");

    cr_expect_str_empty(process_err(p));
    process_free(p);
}

static int count(const char *text, const char *what)
{
    int n = 0;

    while ((text = strstr(text, what))) {
        text += strlen(what);
        n++;
    }
    return n;
}

Test(shim_process, bad_setting_is_reported_once)
{
    struct process *p = run("exit", FAKE_DRIVER, PRELOAD, "CUTIN_DEPTH=abc");

    cr_expect_eq(count(process_err(p), "CUTIN_DEPTH=abc"), 1, "%s", process_err(p));
    process_free(p);
}

Test(shim_process, missing_driver_gives_error_code_and_one_message)
{
    struct process *p = run("absent", NO_DRIVER, PRELOAD, "CUTIN_LOG=error");

    cr_expect_str_eq(process_out(p), "absent 3 3\n"); /* CUDA_ERROR_NOT_INITIALIZED */
    cr_expect_eq(count(process_err(p), "\n"), 1, "%s", process_err(p));
    cr_expect(strstr(process_err(p), "cutin: the loader finds no libcuda.so.1: "), "%s",
              process_err(p));
    process_free(p);
}

/* Other libraries keep our addresses. The sanitizers' run time cannot come by dlopen, so it is
 * preloaded; other builds preload nothing. */
Test(shim_process, functions_survive_dlclose)
{
    struct process *p = run("dlclose", FAKE_DRIVER, PRELOAD_FIRST, NULL);

    cr_expect(strncmp(process_out(p), "closed ", 7) == 0, "%s", process_out(p));
    process_free(p);
}

Test(shim_process, child_forked_after_init_bypasses_cutin)
{
    struct process *p = run("fork", FAKE_DRIVER, PRELOAD, NULL);
    struct process *bare = run("fork", FAKE_DRIVER, "LD_PRELOAD", NULL);

    cr_expect_str_eq(process_out(p), process_out(bare));
    cr_expect(strstr(process_out(p), "child cuTexRefDestroy: libcuda.so.1"), "%s", process_out(p));
    process_free(p);
    process_free(bare);
}

Test(shim_process, child_forked_before_cuda_use_is_intercepted)
{
    struct process *p = run("forkfirst", FAKE_DRIVER, PRELOAD, NULL);

    cr_expect(strstr(process_out(p), "child cuTexRefDestroy: libcutin.so"), "%s", process_out(p));
    process_free(p);
}

/* Importing a framework looks up the driver; after that vLLM forks its engine. */
Test(shim_process, child_forked_before_init_is_intercepted)
{
    struct process *p = run("forklooked", FAKE_DRIVER, PRELOAD, NULL);

    cr_expect(strstr(process_out(p), "child cuTexRefDestroy: libcutin.so"), "%s", process_out(p));
    process_free(p);
}

Test(shim_process, exit_handlers_can_still_call_the_driver)
{
    same("exit");
}

Test(shim_process, forked_child_drains_nothing_and_exit_drains_once)
{
    struct process *p = run("fork", FAKE_DRIVER, PRELOAD_PROBE, NULL);

    /* the parent: two uses; the child: none, and no drain at its exit */
    cr_expect(strstr(process_err(p), "exit: drains 2"), "%s", process_err(p));
    cr_expect_eq(count(process_err(p), "exit: drains"), 1, "%s", process_err(p));
    process_free(p);
}

Test(shim_process, debug_log_shows_each_resolved_entry_once)
{
    struct process *p = run("fork", FAKE_DRIVER, PRELOAD, "CUTIN_LOG=debug");

    cr_expect_eq(count(process_err(p), "cutin: cuTexRefDestroy -> cutin (dlsym)\n"), 1, "%s",
                 process_err(p));
    process_free(p);
}

Test(shim_process, debug_log_shows_direct_link)
{
    const char *const argv[] = {BIN_DIR "/tests/program_thunk", NULL};
    const char *const env[] = {FAKE_DRIVER, PRELOAD_PROBE, "CUTIN_LOG=debug", NULL};
    struct process *p = process_run(argv, env, 60);

    cr_expect(strstr(process_err(p), "cutin: cuCtxSetCacheConfig -> cutin (direct link)\n"), "%s",
              process_err(p));
    cr_expect(strstr(process_err(p), "cutin: version "), "%s", process_err(p));
    process_free(p);
}

Test(shim_process, disabled_cutin_changes_no_answer)
{
    const char *const argv[] = {BIN_DIR "/tests/program_dlsym",
                                "open",
                                "libcuda.so.1",
                                "sym",
                                "cuLaunchKernel",
                                "sym",
                                "cuInit",
                                NULL};
    const char *const bare_env[] = {FAKE_DRIVER, NULL};
    const char *const env[] = {FAKE_DRIVER, PRELOAD, "CUTIN_DISABLE=1", NULL};
    struct process *bare = process_run(argv, bare_env, 30), *p = process_run(argv, env, 30);

    cr_expect_eq(bare->status, 0, "%s", process_err(bare));
    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_not_empty(process_out(bare));
    cr_expect_str_eq(process_out(p), process_out(bare));
    cr_expect_str_empty(process_err(p));
    process_free(bare);
    process_free(p);
}
