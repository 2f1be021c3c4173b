/*
 * faults.c - bad input, and processes that die at the wrong moment: the program runs on as if cutin
 * were absent.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

TestSuite(faults, .init = sandbox_enter, .fini = sandbox_leave);

enum { STEPS = 40 };

static int lines(const char *text)
{
    int n = 0;

    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- the driver ---------------------------------------------------------------------------- */

static void same_with_and_without(const char *const env_bare[], const char *const env_cutin[],
                                  int status)
{
    const char *const argv[] = {BIN_DIR "/tests/program_lookup", NULL};
    struct process *bare = process_run(argv, env_bare, 20), *with;

    if (bare->status != status) {
        process_free(bare);
        cr_skip_test("this machine has a driver of its own");
    }
    with = process_run(argv, env_cutin, 20);
    cr_expect_eq(with->status, status, "status %d: %s", with->status, process_err(with));
    cr_expect_str_eq(process_out(with), process_out(bare));
    cr_expect_leq(lines(process_err(with)), 1, "%s", process_err(with));
    process_free(bare);
    process_free(with);
}

Test(faults, missing_driver_fails_as_without_cutin)
{
    same_with_and_without(NULL, (const char *[]){PRELOAD, NULL}, 3);
}

Test(faults, unloadable_driver_fails_as_without_cutin)
{
    FILE *f = fopen(sandbox_path("libcuda.so.1"), "w");
    char path[300];

    fputs("this is not a library\n", f);
    fclose(f);
    snprintf(path, sizeof(path), "LD_LIBRARY_PATH=%s", sandbox_folder());
    same_with_and_without((const char *[]){path, NULL}, (const char *[]){path, PRELOAD, NULL}, 3);
}

Test(faults, driver_is_found_as_without_cutin)
{
    same_with_and_without((const char *[]){SIMULATOR, NULL},
                          (const char *[]){SIMULATOR, PRELOAD, NULL}, 0);
}

/* ---- settings ------------------------------------------------------------------------------ */

/* Preloads be_training by hand with one bad setting: one line names it, and the result is right. */
static void warned_once(const char *setting, const char *named)
{
    char expected[32];
    struct process *p;

    undisturbed_checksum(STEPS, expected);
    p = process_start((const char *[]){EXAMPLE("be_training"), "--steps", "40", "--json", NULL},
                      (const char *[]){SIMULATOR, PRELOAD, setting, NULL});
    training_check(p, expected, 60);
    cr_expect_eq(lines(process_err(p)), 1, "stderr: %s", process_err(p));
    cr_expect_not_null(strstr(process_err(p), named), "stderr: %s", process_err(p));
    process_free(p);
}

static const char *long_path(void)
{
    static char path[300];

    memset(path, 'x', 250);
    path[0] = '/';
    return path;
}

Test(faults, too_long_socket_path_warns_once)
{
    char setting[400];

    struct process *daemon = daemon_start(); /* its socket is the default, which is used instead */

    snprintf(setting, sizeof(setting), "CUTIN_SOCKET=%s", long_path());
    warned_once(setting, "CUTIN_SOCKET");
    process_free(daemon);
}

Test(faults, too_long_socket_path_warns_once_under_run)
{
    struct process *p = process_run(
        (const char *[]){CUTIN, "run", "--socket", long_path(), "--", "echo", "runs", NULL}, NULL,
        20);

    cr_expect_eq(p->status, 0);
    cr_expect_str_eq(process_out(p), "runs\n");
    cr_expect_eq(lines(process_err(p)), 1, "stderr: %s", process_err(p));
    process_free(p);
}

static bool any_client(const struct message_row *row)
{
    return client_submitted(row) > 0;
}

Test(faults, unknown_priority_word_runs_as_best_effort)
{
    struct process *daemon = daemon_start();
    struct message_row row;
    struct process *p;

    warned_once("CUTIN_PRIORITY=urgent", "CUTIN_PRIORITY=urgent");
    p = training_start(100000, (const char *[]){"CUTIN_PRIORITY=urgent", NULL});
    cr_assert(client_wait("be_training", any_client, 20, &row));
    cr_expect_eq(row.asked, 0);
    cr_expect_eq(row.level, 0);
    process_free(p);
    process_free(daemon);
}

Test(faults, unusable_socket_leaves_result_right)
{
    char setting[300];

    snprintf(setting, sizeof(setting), "CUTIN_SOCKET=%s/no/such/folder/socket", sandbox_folder());
    char expected[32];
    struct process *p;

    undisturbed_checksum(STEPS, expected);
    p = process_start((const char *[]){EXAMPLE("be_training"), "--steps", "40", "--json", NULL},
                      (const char *[]){SIMULATOR, PRELOAD, setting, NULL});
    training_check(p, expected, 60);
    cr_expect_leq(lines(process_err(p)), 1, "stderr: %s", process_err(p));
    process_free(p);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static void forks_alike(const char *when)
{
    const char *const argv[] = {BIN_DIR "/tests/program_fork", when, NULL};
    struct process *bare = process_run(argv, (const char *[]){SIMULATOR, NULL}, 30);
    struct process *with =
        process_run(argv, (const char *[]){SIMULATOR, PRELOAD, "CUTIN_SOCKET=", NULL}, 30);

    cr_expect_eq(bare->status, 0, "bare: status %d, %s", bare->status, process_err(bare));
    cr_expect_eq(with->status, 0, "cutin: status %d, %s", with->status, process_err(with));
    cr_expect_str_eq(process_out(with), process_out(bare));
    cr_expect_str_empty(process_err(with));
    process_free(bare);
    process_free(with);
}

Test(faults, fork_before_first_cuda_call_works_as_without_cutin)
{
    forks_alike("before");
}

Test(faults, fork_after_first_cuda_call_works_as_without_cutin)
{
    forks_alike("after");
}

/* ---- sudden deaths ------------------------------------------------------------------------- */

static bool held(const struct message_row *row)
{
    return client_holds(row) >= 1;
}

Test(faults, killed_daemon_leaves_results_right)
{
    struct process *daemon, *be, *rt;

    daemon = daemon_start();
    rt = inference_start(rate_with_gaps(), "70");
    be = training_start(0, NULL);
    cr_expect(client_wait("be_training", held, 20, NULL));
    process_signal(daemon, SIGKILL);
    process_wait(daemon, 10);
    training_stop(be);
    inference_stop(rt);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

static bool is_held_now(const struct message_row *row)
{
    return row_held(row);
}

static bool is_active(const struct message_row *row)
{
    return row_active(row);
}

/* The real-time process has more work than fits into the time, so it is active until it dies. */
Test(faults, killed_active_real_time_releases_best_effort)
{
    struct process *daemon, *be, *rt;

    daemon = daemon_start();
    rt = inference_start("2000", "300");
    cr_assert(client_wait("rt_inference", is_active, 20, NULL));
    be = training_start(0, NULL);
    cr_expect(client_wait("be_training", is_held_now, 20, NULL));
    process_signal(rt, SIGKILL);
    process_wait(rt, 10);
    training_stop(be);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

/* Killed at any instant, even inside the simulator's locks: processes that share the device go
 * on. */
Test(faults, killed_best_effort_leaves_other_results_right)
{
    char expected[32];
    struct process *daemon, *be, *rt;

    undisturbed_checksum(200, expected);
    daemon = daemon_start();
    rt = inference_start(rate_with_gaps(), "70");
    be = training_start(200, NULL);
    for (int i = 0; i < 8; i++) {
        struct process *victim = training_start(100000, NULL);
        struct timespec moment = {.tv_nsec = 60000000 + i * 13370001};

        nanosleep(&moment, NULL); /* any moment will do; the order of events is not tested */
        process_signal(victim, SIGKILL);
        process_wait(victim, 10);
        process_free(victim);
    }
    training_check(be, expected, 80);
    inference_stop(rt);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}
