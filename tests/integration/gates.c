/*
 * gates.c - work that has left for the driver stops at a gate, goes on when the hold ends, however
 * that comes about, and stops nobody else.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/control.h"

TestSuite(gates, .init = sandbox_enter, .fini = sandbox_leave, .timeout = 120);

enum { STEPS = 120 };

static const char *const on[] = {"CUTIN_GATES=on", NULL};
static const char *const mirrored[] = {"CUTIN_GATES=on", "SIMGPU_HOST_REGISTER=0", NULL};
static const char *const off[] = {"CUTIN_GATES=off", NULL};

static char expected[32];
static uint32_t first; /* id of the client that was found first */

static bool has_gates(const struct client_row *row)
{
    return row->devices > 0 && row->device[0].counters.gates > 20;
}

static bool has_run(const struct client_row *row)
{
    return client_submitted(row) > 500;
}

/* Stands at a gate: held, with work in flight. */
static bool stands(const struct client_row *row)
{
    return row->paused && row->held && row->device[0].counters.in_flight > 0;
}

static struct control_target target(const struct client_row *row)
{
    return (struct control_target){.client = row->id};
}

/* ---- the device's log ----------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void log_open(void)
{
    setenv("SIMGPU_LOG", sandbox_path("device.log"), 1);
}

static uint64_t field(const char *line, const char *name)
{
    const char *at = strstr(line, name);

    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

/* Kernels and copies that the driver had at `ns` and that ended later. */
static int work_standing(uint64_t ns)
{
    FILE *log = fopen(sandbox_path("device.log"), "r");
    char line[512];
    int n = 0;

    cr_assert(log);
    while (fgets(line, sizeof(line), log))
        n += (strstr(line, "kind=kernel") || strstr(line, "kind=copy")) &&
             field(line, " submit=") < ns && field(line, " end=") > ns;
    fclose(log);
    return n;
}

/* ---- tests ---------------------------------------------------------------------------------- */

/* A training under way with gates, paused while the driver has work of it. */
static struct process *stopped(const char *const env[], struct client_row *row)
{
    struct process *be;
    struct client_row later;

    undisturbed_checksum(STEPS, expected);
    be = training_start(STEPS, env);
    cr_assert(client_wait("be_training", has_gates, 20, row), "no gates: %s", process_err(be));
    first = (uint32_t)row->id;
    cr_assert_eq(control_pause(daemon_path(), target(row)), 0);
    cr_assert(client_wait("be_training", stands, 20, NULL), "nothing stands at a gate");
    nap_ms(100); /* whatever is between it and the next gate has run */
    cr_assert(client_wait("be_training", stands, 20, row));
    nap_ms(300);
    cr_assert(client_wait("be_training", stands, 20, &later), "it did not stand still");
    cr_expect_eq(client_submitted(&later), client_submitted(row));
    return be;
}

static void stops_and_goes_on(const char *const env[])
{
    struct process *daemon = daemon_start(), *be;
    struct client_row row;
    uint64_t at_ns;

    log_open();
    be = stopped(env, &row);
    at_ns = now_ns();
    cr_assert_eq(control_resume(daemon_path(), target(&row)), 0);
    training_check(be, expected, 60);
    cr_expect_gt(work_standing(at_ns), 0);
    process_free(be);
    process_free(daemon);
}

Test(gates, a_hold_stops_what_the_driver_has)
{
    stops_and_goes_on(on);
}

Test(gates, a_mirror_does_the_same)
{
    stops_and_goes_on(mirrored);
}

Test(gates, without_them_the_driver_finishes_what_it_has)
{
    struct process *daemon = daemon_start(), *be;
    struct client_row row;
    uint64_t at_ns;

    log_open();
    undisturbed_checksum(STEPS, expected);
    be = training_start(STEPS, off);
    cr_assert(client_wait("be_training", has_run, 20, &row));
    cr_assert_eq(control_pause(daemon_path(), target(&row)), 0);
    cr_assert(client_wait("be_training", client_paused, 20, &row));
    nap_ms(400);
    at_ns = now_ns();
    cr_expect_eq(row.device[0].counters.gates, 0);
    cr_assert_eq(control_resume(daemon_path(), target(&row)), 0);
    training_check(be, expected, 60);
    cr_expect_eq(work_standing(at_ns), 0);
    process_free(be);
    process_free(daemon);
}

static void opens_when_the_daemon_dies(const char *const env[])
{
    struct process *daemon = daemon_start(), *be;
    struct client_row row;

    be = stopped(env, &row);
    process_signal(daemon, SIGKILL);
    process_wait(daemon, 10);
    training_check(be, expected, 60);
    process_free(be);
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

static bool is_another(const struct client_row *row)
{
    return row->id != first && has_gates(row);
}

/* The page is another one with another daemon: so are the gates. */
Test(gates, come_back_with_the_daemon)
{
    struct process *daemon = daemon_start(), *again, *be;
    struct client_row row;

    be = training_start(3000, on);
    cr_assert(client_wait("be_training", has_gates, 20, &row));
    process_signal(daemon, SIGKILL);
    process_wait(daemon, 10);
    again = daemon_start();
    cr_assert(client_wait("be_training", has_gates, 20, &row));
    cr_assert_eq(control_pause(daemon_path(), target(&row)), 0);
    cr_assert(client_wait("be_training", stands, 20, NULL));
    cr_assert_eq(control_resume(daemon_path(), target(&row)), 0);
    process_free(be);
    process_free(again);
    process_free(daemon);
}

Test(gates, a_closed_one_stops_nobody_else)
{
    struct process *daemon = daemon_start(), *be, *other;
    struct client_row row;

    be = stopped(on, &row);
    other = training_start(STEPS, on);
    cr_expect(client_wait("be_training", is_another, 20, NULL));
    training_check(other, expected, 60);
    cr_expect(client_wait("be_training", stands, 20, NULL),
              "the first one did not stay where it was");
    cr_assert_eq(control_resume(daemon_path(), target(&row)), 0);
    training_check(be, expected, 60);
    process_free(other);
    process_free(be);
    process_free(daemon);
}

Test(gates, a_process_that_ends_at_one_is_gone)
{
    struct process *daemon = daemon_start(), *be, *other;
    struct client_row row;

    be = stopped(on, &row);
    process_signal(be, SIGKILL);
    process_wait(be, 10);
    other = training_start(STEPS, on);
    training_check(other, expected, 60);
    process_free(other);
    process_free(be);
    process_free(daemon);
}

/* Streams share hardware queues: one of a higher level could stand behind a gate of a lower one. */
Test(gates, a_process_of_several_levels_has_none)
{
    const char *const env[] = {
        "CUTIN_GATES=on", "CUTIN_PRIORITY=2", "CUTIN_STREAM_PRIORITY=inherit",
        PRELOAD,          SIMULATOR,          NULL};
    struct process *daemon = daemon_start(), *be;
    struct client_row row;

    undisturbed_checksum(STEPS, expected);
    be = process_start((const char *[]){EXAMPLE("be_training"), "--steps", "120", "--json", NULL},
                       env);
    cr_assert(client_wait("be_training", has_run, 20, &row));
    cr_expect_eq(row.device[0].counters.gates, 0);
    training_check(be, expected, 60);
    cr_expect_not_null(strstr(process_err(be), "no gates: streams of this process have different"),
                       "stderr: %s", process_err(be));
    process_free(be);
    process_free(daemon);
}

/* Whoever asked for gates is told why there are none. */
Test(gates, a_driver_without_memory_operations_has_none)
{
    const char *const env[] = {"CUTIN_GATES=on", "SIMGPU_MEMOPS=0", NULL};
    struct process *daemon = daemon_start(), *be;

    undisturbed_checksum(40, expected);
    be = training_start(40, env);
    training_check(be, expected, 60);
    cr_expect_not_null(strstr(process_err(be), "no gates: the driver has no stream memory"),
                       "stderr: %s", process_err(be));
    process_free(be);
    process_free(daemon);
}
