/*
 * gates.c - work that the driver has stops at a gate, goes on when the hold ends, however it ends,
 * and stops no other process.
 */
#include "tests/integration/sharing/device_log.h"
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/wire/query.h"

TestSuite(gates, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM "program_gates"
enum { STEPS = 120, QUIET_NS = 400000000 };

static const char *const on[] = {"CUTIN_GATES=on", PRELOAD, SIMULATOR, NULL};
static const char *const mirrored[] = {"CUTIN_GATES=on", "SIMGPU_HOST_REGISTER=0", PRELOAD,
                                       SIMULATOR, NULL};
static const char *const off[] = {"CUTIN_GATES=off", PRELOAD, SIMULATOR, NULL};

static char expected[32];
static uint64_t gates_before;
static const char *contexts; /* an argument of the program, or none */

/* So many gates that its kernels have been measured: until then one command goes at a time. */
static bool has_gates(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gates > gates_before + 64;
}

static bool has_device(const struct message_row *row)
{
    return row->devices > 0;
}

static bool has_run(const struct message_row *row)
{
    return client_submitted(row) > 50;
}

static struct control_target target(const struct message_row *row)
{
    return (struct control_target){.client = row->client};
}

/* ---- the device's log ----------------------------------------------------------------------- */

static int is_host(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "host") == 0;
}

/* A kernel that the driver had at `ns` and that ran later. */
static int waits(const struct device_work *w, const void *at_ns)
{
    uint64_t ns = *(const uint64_t *)at_ns;

    return strcmp(w->kind, "kernel") == 0 && w->submit_ns < ns && w->end_ns > ns;
}

static int kernels_standing(uint64_t ns)
{
    return device_log_count(waits, &ns);
}

/* By the clock of a busy host kernels seem so long that the few which the driver has may have no
 * gate among them. */
static void expect_standing(int kernels)
{
    if (clock_steps())
        cr_expect_gt(kernels, 0, "none stayed where it was");
}

/* ---- tests ---------------------------------------------------------------------------------- */

static struct process *program_start(const char *const env[],
                                     bool (*ready)(const struct message_row *),
                                     struct message_row *row)
{
    struct process *p;

    setenv("CUTIN_ALONE", "capped", 1); /* no client above holds it here */
    device_log_open();
    p = process_start((const char *[]){BIN_DIR "/tests/" PROGRAM, sandbox_path("queue"),
                                       sandbox_path("begin"), contexts, NULL},
                      env);
    cr_assert(client_wait(PROGRAM, ready, 60, row), "not ready: %s", process_err(p));
    return p;
}

/* The driver has the program's kernels when the hold comes, and can begin them only then. Returns
 * when they have gone as far as they can. */
static void stop(struct process *p, const struct message_row *row)
{
    sandbox_tell("queue");
    cr_assert(process_says(p, "queued", 60), "stderr: %s", process_err(p));
    cr_assert_eq(control_order(daemon_path(), target(row), CONTROL_PAUSE, 0), 0);
    cr_assert(client_wait(PROGRAM, client_paused, 60, NULL));
    device_log_settle(QUIET_NS); /* until then the thread that mirrors the page has seen the hold */
    sandbox_tell("begin");
    device_log_wait(is_host);
    device_log_settle(QUIET_NS);
}

static void program_check(struct process *p)
{
    cr_expect_eq(process_wait(p, 60), 0, "stderr: %s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "right"), "stdout: %s", process_out(p));
    process_free(p);
}

/* The number of kernels that the driver had and that waited for the end of a hold. */
static int stops(const char *const env[], bool (*ready)(const struct message_row *))
{
    struct process *daemon = daemon_start(), *be;
    struct message_row row;
    uint64_t at_ns;

    be = program_start(env, ready, &row);
    stop(be, &row);
    at_ns = device_now_ns();
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_RESUME, 0), 0);
    program_check(be);
    process_free(daemon);
    return kernels_standing(at_ns);
}

Test(gates, hold_stops_submitted_kernels)
{
    expect_standing(stops(on, has_gates));
}

/* What the program writes later is not in registered memory, which ended with its contexts, so no
 * other process can wait for that. */
Test(gates, survive_destroyed_contexts_with_registered_memory)
{
    contexts = "70";
    expect_standing(stops(on, has_gates));
}

Test(gates, mirrored_hold_stops_submitted_kernels)
{
    expect_standing(stops(mirrored, has_gates));
}

Test(gates, off_lets_submitted_kernels_finish)
{
    cr_expect_eq(stops(off, has_run), 0);
}

static void opens_when_the_daemon_dies(const char *const env[])
{
    struct process *daemon = daemon_start(), *be;
    struct message_row row;

    uint64_t at_ns;

    be = program_start(env, has_gates, &row);
    stop(be, &row);
    at_ns = device_now_ns();
    process_signal(daemon, SIGKILL);
    process_wait(daemon, 10);
    program_check(be);
    expect_standing(kernels_standing(at_ns));
    process_free(daemon);
}

Test(gates, open_when_the_daemon_dies)
{
    opens_when_the_daemon_dies(on);
}

Test(gates, mirrors_open_when_the_daemon_dies)
{
    opens_when_the_daemon_dies(mirrored);
}

/* Another daemon gives another page, and so new gates. */
Test(gates, return_with_next_daemon)
{
    struct process *daemon = daemon_start(), *again, *be;
    struct message_row row;
    uint64_t at_ns;

    be = program_start(on, has_gates, &row);
    process_signal(daemon, SIGKILL);
    process_wait(daemon, 10);
    again = daemon_start();
    cr_assert(client_wait(PROGRAM, has_device, 60, &row));
    gates_before = row.device[0].gates;
    cr_assert(client_wait(PROGRAM, has_gates, 60, &row), "no gates with the next daemon");
    stop(be, &row);
    at_ns = device_now_ns();
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_RESUME, 0), 0);
    program_check(be);
    expect_standing(kernels_standing(at_ns));
    process_free(again);
    process_free(daemon);
}

Test(gates, closed_gate_stops_no_other_process)
{
    struct process *daemon = daemon_start(), *be, *other;
    struct message_row row;
    uint64_t at_ns;

    undisturbed_checksum(STEPS, expected);
    be = program_start(on, has_gates, &row);
    stop(be, &row);
    other = training_start(STEPS, (const char *[]){"CUTIN_GATES=on", "SIMGPU_LOG", NULL});
    training_check(other, expected, 60);
    at_ns = device_now_ns();
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_RESUME, 0), 0);
    program_check(be);
    expect_standing(kernels_standing(at_ns));
    process_free(other);
    process_free(daemon);
}

Test(gates, process_killed_at_gate_frees_device)
{
    struct process *daemon = daemon_start(), *be, *other;
    struct message_row row;

    undisturbed_checksum(STEPS, expected);
    be = program_start(on, has_gates, &row);
    stop(be, &row);
    process_signal(be, SIGKILL);
    process_wait(be, 10);
    other = training_start(STEPS, (const char *[]){"CUTIN_GATES=on", NULL});
    training_check(other, expected, 60);
    process_free(other);
    process_free(be);
    process_free(daemon);
}

/* ---- waits that a driver ends, with their context ------------------------------------------- */

static int is_kernel(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "kernel") == 0;
}

/* The program is held for longer than the limit, and goes on only when the hold ends. The GPU looks
 * at its word each 0.45 s, less often than a gate is open for a let-out that sees nothing pass.
 * Returns whether the results are right. */
static bool outlasts_the_limit(const char *preload, const char *mutant)
{
    const char *const env[] = {"CUTIN_GATES=on",
                               "SIMGPU_ACQUIRE_LIMIT_MS=18000",
                               "SIMGPU_POLL_US=450000",
                               mutant,
                               preload,
                               SIMULATOR,
                               NULL};
    enum { HELD_MS = 22000 }; /* it is let out each ten seconds */
    struct process *daemon = daemon_start(), *be;
    struct message_row row;
    int kernels;
    bool right;

    be = program_start(env, has_gates, &row);
    stop(be, &row);
    nap_ms(HELD_MS);
    kernels = device_log_count(is_kernel, NULL);
    cr_expect(client_wait(PROGRAM, client_paused, 60, NULL));
    device_log_settle(QUIET_NS);
    cr_expect_eq(device_log_count(is_kernel, NULL), kernels, "something ran while it was held");
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_RESUME, 0), 0);
    right = process_wait(be, 60) == 0 && strstr(process_out(be), "right");
    cr_expect_eq(right, !!strstr(process_err(be), "a hold lasted too long"), "%s", process_err(be));
    process_free(be);
    process_free(daemon);
    return right;
}

Test(gates, program_survives_hold_past_driver_wait_limit)
{
    cr_expect(outlasts_the_limit(PRELOAD, "CUTIN_LOG=info"));
}

Test(gates, mutant_without_let_out_fails_past_driver_wait_limit)
{
    cr_expect_not(outlasts_the_limit("LD_PRELOAD=" LIB_DIR "/tests/libcutin-mutants.so",
                                     "CUTIN_MUTANT=gates_stay_closed"));
}

/* Streams share hardware queues: one of a higher level could be behind a gate of a lower one. */
Test(gates, process_of_several_levels_gets_none)
{
    const char *const env[] = {
        "CUTIN_GATES=on", "CUTIN_PRIORITY=2", "CUTIN_STREAM_PRIORITY=inherit",
        PRELOAD,          SIMULATOR,          NULL};
    struct process *daemon = daemon_start(), *be;
    struct message_row row;

    be = process_start((const char *[]){EXAMPLE("be_training"), "--json", NULL}, env);
    cr_assert(client_wait("be_training", has_run, 20, &row));
    cr_expect_eq(row.device[0].gates, 0);
    training_stop(be);
    cr_expect_not_null(strstr(process_err(be), "no gates: streams of this process have different"),
                       "stderr: %s", process_err(be));
    process_free(be);
    process_free(daemon);
}

/* A user who asked for gates is told why there are none. */
Test(gates, driver_without_memops_gets_none_and_says_why)
{
    const char *const env[] = {"CUTIN_GATES=on", "SIMGPU_MEMOPS=0", NULL};
    struct process *daemon = daemon_start(), *be;

    undisturbed_checksum(40, expected);
    be = training_start(40, env);
    training_check(be, expected, 60);
    cr_expect_not_null(strstr(process_err(be), "no gates: the driver lacks stream memory"),
                       "stderr: %s", process_err(be));
    process_free(be);
    process_free(daemon);
}

/* By the clock of a busy host some of the work may be buffered: see expect_standing. */
static bool was_held_though_nothing_waits(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].hold_ns > 500000000 &&
           (row->device[0].waiting == 0 || !clock_steps());
}

/* The program waits for all that the driver has. */
static bool counts_as_held(const char *preload, const char *fault, double seconds)
{
    const char *const env[] = {"CUTIN_GATES=on", preload, SIMULATOR, fault, NULL};
    struct process *daemon = daemon_start(), *be;
    struct message_row row;
    bool held;

    be = program_start(env, has_gates, &row);
    stop(be, &row);
    held = client_wait(PROGRAM, was_held_though_nothing_waits, seconds, NULL);
    cr_assert_eq(control_order(daemon_path(), target(&row), CONTROL_RESUME, 0), 0);
    program_check(be);
    process_free(daemon);
    return held;
}

Test(gates, work_standing_at_gate_counts_as_held)
{
    cr_expect(counts_as_held(PRELOAD, NULL, 20));
}

Test(gates, mutant_without_look_misses_hold_at_gate)
{
    if (clock_steps())
        cr_expect_not(counts_as_held("LD_PRELOAD=" LIB_DIR "/tests/libcutin-mutants.so",
                                     "CUTIN_MUTANT=gated_unheld", 2));
}
