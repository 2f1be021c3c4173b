/*
 * graph_gates.c - a graph that the driver has stops at its next gate. What the program does with
 * it, and graphs that can have no gates, work as without cutin.
 */
#include "tests/integration/sharing/device_log.h"
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/wire/query.h"

TestSuite(graph_gates, .init = sandbox_enter, .fini = sandbox_leave);

/* Five kernels of 20 us are between two gates; a longer estimate makes that fewer. */
enum { KERNELS = 1000, BETWEEN = 5, BRANCHES = 8, WARM = 8 /* before the graphs */ };

#define PROGRAM "program_graphs"
#define GATES   "CUTIN_GATES=on"

static struct process *program_start(const char *mode, const char *const extra[])
{
    const char *env[8] = {GATES, PRELOAD, SIMULATOR};

    for (int i = 0; extra && extra[i]; i++)
        env[3 + i] = extra[i];
    device_log_open();
    return process_start(
        (const char *[]){BIN_DIR "/tests/" PROGRAM, mode, sandbox_path("go on"), NULL}, env);
}

static void program_end(struct process *p)
{
    process_signal(p, SIGTERM);
    cr_expect_eq(process_wait(p, 60), 0, "stderr: %s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "right"), "stdout: %s", process_out(p));
    process_free(p);
}

struct span {
    uint64_t from_ns, to_ns;
};

static int ends_in(const struct device_work *w, const void *user)
{
    const struct span *span = user;

    return strcmp(w->kind, "kernel") == 0 && w->end_ns >= span->from_ns && w->end_ns < span->to_ns;
}

static int kernels_ended(uint64_t from_ns, uint64_t to_ns)
{
    return device_log_count(ends_in, &(struct span){from_ns, to_ns});
}

/* ---- holding --------------------------------------------------------------------------------- */

static bool has_graph_gates(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gates > 2 * KERNELS / BETWEEN;
}

static bool has_launched(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].kernels > 12;
}

static void order(const struct message_row *row, enum control_kind kind)
{
    struct control_target target = {.client = row->client};

    cr_assert_eq(control_order(daemon_path(), target, kind, 0), 0);
}

/* Pauses the program within its graph, for many times the graph's length. Returns how many kernels
 * ended meanwhile. */
static int kernels_after_a_hold(const struct message_row *row)
{
    uint64_t held_ns, over_ns;
    struct message_row later;

    order(row, CONTROL_PAUSE);
    held_ns = device_now_ns();
    cr_assert(client_wait(PROGRAM, client_paused, 20, &later));
    nap_ms(300);
    over_ns = device_now_ns();
    order(row, CONTROL_RESUME);
    return kernels_ended(held_ns, over_ns);
}

static int is_of_graphs(const struct device_work *w, const void *unused)
{
    return strcmp(w->name, "mix_spin") == 0;
}

/* Pauses the program until the device stands still. Returns how many kernels of a graph have run
 * then; 0: no graph was stopped. */
static int kernels_before_a_hold(const struct message_row *row)
{
    enum { QUIET_NS = 500000000 };
    int kernels;

    order(row, CONTROL_PAUSE);
    cr_assert(client_wait(PROGRAM, client_paused, 20, NULL));
    device_log_settle(QUIET_NS);
    kernels = device_log_count(is_of_graphs, NULL);
    cr_assert_gt(kernels, WARM);
    order(row, CONTROL_RESUME);
    return (kernels - WARM) % KERNELS;
}

/* Pauses it five times. At most `most` kernels run after each hold. */
static void stops(const char *mode, const char *const env[], int most)
{
    int behind = 0;
    struct process *daemon = daemon_start(), *be = program_start(mode, env);
    struct message_row row;

    cr_assert(client_wait(PROGRAM, has_graph_gates, 60, &row), "no gates: %s", process_err(be));
    for (int i = 0; i < 5; i++) {
        int n = kernels_after_a_hold(&row);
        behind = n > behind ? n : behind;
        nap_ms(7);
    }
    cr_expect_leq(behind, most, "%d kernels ran behind a hold", behind);
    cr_assert(client_wait(PROGRAM, has_graph_gates, 20, &row));
    cr_expect_eq(row.device[0].ungated_graphs, 0);
    program_end(be);
    process_free(daemon);
}

Test(graph_gates, hold_stops_graph_within_one_interval)
{
    stops("loop", NULL, BETWEEN);
}

/* Kernels of 1 ms. */
static const char *const mirrored[] = {"SIMGPU_HOST_REGISTER=0", "SIMGPU_SPEED=0.02", NULL};

/* A hold lasts for 300 of them, and the mirror's thread has the time of a hundred. */
Test(graph_gates, mirrored_hold_stops_graph_within_100_ms)
{
    if (!clock_steps())
        cr_skip_test("a busy host's thread may look later");
    stops("loop", mirrored, KERNELS / 10);
}

/* The thread has the rest of the two graphs that the driver has. A hold may also come at a graph's
 * end, but not ten of them. */
Test(graph_gates, mirrored_hold_stops_graph)
{
    struct process *daemon = daemon_start(), *be = program_start("loop", mirrored);
    struct message_row row;
    int holds = 0;

    cr_assert(client_wait(PROGRAM, has_graph_gates, 60, &row), "no gates: %s", process_err(be));
    while (kernels_before_a_hold(&row) == 0) {
        cr_assert_lt(holds++, 10, "no hold stops a graph");
        nap_ms(7);
    }
    program_end(be);
    process_free(daemon);
}

/* Together branches may have as much between gates as one, so each kernel has a gate in front. */
Test(graph_gates, hold_stops_each_branch_at_its_next_kernel)
{
    stops("branches", NULL, BRANCHES);
}

/* The same measurement without gates: the driver finishes the graph. A pause may come at a graph's
 * end or between two, and mostly does if the program is slow. */
static void runs_on(const char *mode, const char *const env[], uint64_t counted)
{
    struct process *daemon = daemon_start(), *be = program_start(mode, env);
    struct message_row row;
    int most = 0;

    cr_assert(client_wait(PROGRAM, has_launched, 20, &row), "stderr: %s", process_err(be));
    for (int i = 0; i < 100 && most <= 10 * BETWEEN; i++) {
        int n = kernels_after_a_hold(&row);
        most = n > most ? n : most;
        nap_ms(7);
    }
    cr_expect_gt(most, 10 * BETWEEN);
    cr_assert(client_wait(PROGRAM, has_launched, 20, &row));
    cr_expect_eq(row.device[0].ungated_graphs, counted);
    program_end(be);
    process_free(daemon);
}

Test(graph_gates, off_lets_graph_run_on)
{
    runs_on("loop", (const char *[]){"CUTIN_GRAPH_GATES=off", NULL}, 0);
}

Test(graph_gates, uncopyable_graph_runs_on_and_is_counted)
{
    runs_on("memory", NULL, 1);
}

Test(graph_gates, process_of_several_levels_lets_graph_run_on)
{
    runs_on("levels", (const char *[]){"CUTIN_PRIORITY=2", "CUTIN_STREAM_PRIORITY=inherit", NULL},
            0);
}

/* ---- the program's own handles --------------------------------------------------------------- */

static uint64_t before;

static bool has_gates(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gates > 0;
}

static bool has_changed(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gates > before + 50 * 60 / BETWEEN / 2;
}

static void follows_changes(const char *mode, const char *const env[])
{
    struct process *daemon = daemon_start(), *be = program_start(mode, env);
    struct message_row row;

    cr_assert(client_wait(PROGRAM, has_gates, 20, &row), "no gates: %s", process_err(be));
    before = row.device[0].gates;
    sandbox_tell("go on");
    cr_assert(process_says(be, "changed", 60), "stdout: %s", process_out(be));
    cr_assert(client_wait(PROGRAM, has_changed, 20, &row), "no gates");
    cr_expect_eq(row.device[0].ungated_graphs, 0);
    program_end(be);
    process_free(daemon);
}

Test(graph_gates, graph_updates_reach_gated_copy)
{
    follows_changes("change", NULL);
}

/* The inner graph was moved into the other one: its nodes keep handles that the copy does not
 * have. */
Test(graph_gates, updates_of_moved_child_graph_reach_gated_copy)
{
    follows_changes("moved", NULL);
}

Test(graph_gates, graph_updates_reach_gated_copy_with_mirror)
{
    follows_changes("change", (const char *[]){"SIMGPU_HOST_REGISTER=0", NULL});
}

/* Work that was launched under the first daemon has run. */
static bool has_more_gates(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gates > before + 10 * KERNELS / BETWEEN;
}

/* Whether a graph that was made without a daemon has gates once there is one. `library` is the
 * usual one or the one with mutants. */
static bool has_gates_later(const char *library, const char *mutant)
{
    struct process *be, *daemon;
    struct message_row row;
    bool has;

    device_log_open();
    be = process_start(
        (const char *[]){BIN_DIR "/tests/" PROGRAM, "loop", sandbox_path("go on"), NULL},
        (const char *[]){GATES, library, SIMULATOR, mutant, NULL});
    cr_assert(process_says(be, "ready", 60), "stderr: %s", process_err(be));
    daemon = daemon_start();
    cr_assert(client_wait(PROGRAM, has_launched, 20, &row), "stderr: %s", process_err(be));
    has = client_wait(PROGRAM, has_graph_gates, mutant ? 1 : 20, &row);
    cr_expect_eq(row.device[0].ungated_graphs, mutant ? 1 : 0);
    program_end(be);
    process_free(daemon);
    return has;
}

Test(graph_gates, late_daemon_gates_existing_graph)
{
    cr_expect(has_gates_later(PRELOAD, NULL));
}

Test(graph_gates, mutant_leaves_early_graph_ungated)
{
    cr_expect_not(has_gates_later("LD_PRELOAD=" LIB_DIR "/tests/libcutin-mutants.so",
                                  "CUTIN_MUTANT=early_graphs_ungated"));
}

/* With another daemon the hold word is at another place. */
Test(graph_gates, return_with_next_daemon)
{
    struct process *daemon = daemon_start(), *again, *be = program_start("loop", NULL);
    struct message_row row;
    int n;

    cr_assert(client_wait(PROGRAM, has_graph_gates, 20, &row));
    process_signal(daemon, SIGKILL);
    process_wait(daemon, 10);
    again = daemon_start();
    cr_assert(client_wait(PROGRAM, has_graph_gates, 20, &row));
    before = row.device[0].gates;
    cr_assert(client_wait(PROGRAM, has_more_gates, 20, &row));
    n = kernels_after_a_hold(&row);
    cr_expect_leq(n, BETWEEN, "%d kernels ran behind the hold", n);
    program_end(be);
    process_free(again);
    process_free(daemon);
}
