/*
 * defaults.c - what users get who set nothing: gates if a process of `cutin run` has seen that they
 * hold, unnoticed by the program, and otherwise none.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(defaults, .init = sandbox_enter, .fini = sandbox_leave);

/* What is recorded; "" if nothing is. */
static const char *record(void)
{
    static char text[512];
    glob_t found = {0};

    text[0] = '\0';
    if (glob(sandbox_path("cutin/gates-*"), 0, NULL, &found) == 0) {
        char *all = file_text(found.gl_pathv[0]);
        snprintf(text, sizeof(text), "%s", all);
        free(all);
    }
    globfree(&found);
    return text;
}

static void forget(void)
{
    glob_t found = {0};

    if (glob(sandbox_path("cutin/gates-*"), 0, NULL, &found) == 0)
        unlink(found.gl_pathv[0]);
    globfree(&found);
}

/* Runs `true` to its end. Nothing may show of what ran before it. */
static void run_true(const char *const env[])
{
    struct process *p =
        process_run((const char *[]){CUTIN, "run", "--sim", "--", "true", NULL}, env, 20);

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_empty(process_err(p));
    cr_expect_str_empty(process_out(p));
    process_free(p);
}

static int any(const struct device_work *w, const void *user)
{
    return 1;
}

/* `cutin run` gives up after ten seconds, or if something that has nothing to do with gates takes
 * longer than three. */
static void skip_if_given_up(void)
{
    static const char *const busy[] = {"not done after", "the host does not see a marker",
                                       "the second process does not go on",
                                       "no second process can use the GPU"};
    bool given_up = !*record();

    for (size_t i = 0; i < sizeof(busy) / sizeof(busy[0]); i++)
        given_up |= !!strstr(record(), busy[i]);
    if (given_up && !clock_steps())
        cr_skip_test("this host was too busy to say whether gates hold");
}

static void run_asks(const char *const env[])
{
    run_true(env);
    skip_if_given_up();
}

Test(defaults, run_tests_gates_once_and_silently)
{
    struct process *daemon = daemon_start(), *p;

    device_log_open();
    run_asks(NULL);
    cr_expect_not_null(strstr(record(), " graphs a gate costs "), "recorded: %s", record());
    cr_expect_eq(device_log_count(any, NULL), 0);
    forget();
    run_true(NULL);
    cr_expect_str_empty(record());
    p = process_run((const char *[]){CUTIN, "doctor", "--sim", NULL}, NULL, 80);
    skip_if_given_up();
    cr_expect_not_null(strstr(record(), " graphs a gate costs "), "recorded: %s", record());
    cr_expect_not_null(strstr(process_out(p), "CUTIN_GATES=auto uses them (seen just now; --again"),
                       "%s", process_out(p));
    process_free(p);
    process_free(daemon);
}

Test(defaults, gates_off_or_real_time_skips_gate_test)
{
    struct process *daemon = daemon_start();

    run_true((const char *[]){"CUTIN_GATES=off", NULL});
    run_true((const char *[]){"CUTIN_CONF=depth=64,gates=off", NULL});
    run_true((const char *[]){"CUTIN_PRIORITY=rt", NULL});
    cr_expect_str_empty(record());
    process_free(daemon);
}

Test(defaults, gates_variable_overrides_conf_for_the_record)
{
    struct process *daemon = daemon_start();

    run_asks((const char *[]){"CUTIN_GATES=auto", "CUTIN_CONF=gates=off", NULL});
    cr_expect_not_null(strstr(record(), " graphs a gate costs "), "recorded: %s", record());
    process_free(daemon);
}

static void is_recorded(const char *driver, const char *what)
{
    struct process *daemon = daemon_start();

    run_asks((const char *[]){driver, NULL});
    cr_expect_not_null(strstr(record(), what), "recorded: %s", record());
    process_free(daemon);
}

/* Drivers whose memory operations do not do what they should. */

Test(defaults, leaking_gate_is_recorded)
{
    is_recorded("SIMGPU_WAITS=pass", " none a closed gate let work through\n");
}

Test(defaults, gate_that_never_opens_is_recorded)
{
    is_recorded("SIMGPU_WAITS=stick", " none an opened gate did not let its stream go on\n");
}

/* Real time would have only every other time slice, and wait for one whenever a peer is held. */
Test(defaults, gate_that_keeps_time_slices_is_recorded)
{
    is_recorded("SIMGPU_ACQUIRE_YIELDS=0",
                " none a process at a closed gate takes time slices from others\n");
}

Test(defaults, late_gate_is_recorded)
{
    if (!clock_steps())
        cr_skip_test("a busy host's other markers come late, too");
    is_recorded("SIMGPU_POLL_US=10000", " none the GPU sees an opened gate late\n");
}

/* So it is on a busy machine. */
Test(defaults, slow_markers_do_not_count_as_late_gate)
{
    is_recorded("SIMGPU_WRITE_NS=1000000", " graphs a gate costs ");
}

/* A marker that takes four seconds says nothing about gates. */
Test(defaults, inconclusive_test_does_not_replace_record)
{
    static const char no_marker[] = " none the host does not see a marker\n";
    struct process *daemon = daemon_start();
    static const char *const late[] = {"SIMGPU_WORD_LATE_US=4000000", NULL};

    run_true(late);
    if (!strstr(record(), no_marker)) /* something else was late before */
        skip_if_given_up();
    cr_expect_not_null(strstr(record(), no_marker), "recorded: %s", record());
    run_asks(NULL);
    cr_expect_not_null(strstr(record(), " graphs a gate costs "), "recorded: %s", record());
    process_free(
        process_run((const char *[]){CUTIN, "doctor", "--sim", "--again", NULL}, late, 80));
    cr_expect_not_null(strstr(record(), " graphs a gate costs "), "recorded: %s", record());
    process_free(daemon);
}

/* The doctor times the time slices of two processes; on a busy host these are the host's own. */
Test(defaults, doctor_reports_costly_context_switch)
{
    static const char said[] = "waits at least that long";
    struct process *dear, *cheap;

    if (!clock_steps())
        cr_skip_test("a busy host's processes do not keep their time slices");
    dear = process_run((const char *[]){CUTIN, "doctor", "--sim", NULL},
                       (const char *[]){"SIMGPU_LIKE=hostile", NULL}, 80);
    cheap = process_run((const char *[]){CUTIN, "doctor", "--sim", NULL}, NULL, 80);
    cr_expect_not_null(strstr(process_out(dear), said), "%s", process_out(dear));
    cr_expect_null(strstr(process_out(cheap), said), "%s", process_out(cheap));
    process_free(cheap);
    process_free(dear);
}

/* ---- the program ---------------------------------------------------------------------------- */

#define PROGRAM "program_gates"

static bool has_gates(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].gates > 0;
}

static bool has_run(const struct message_row *row)
{
    return client_submitted(row) > 500;
}

/* What is late on the host's clock looks to the library as writes of the GPU that come late. */
static void skip_if_writes_are_late(struct process *p)
{
    if (!clock_steps() && strstr(process_err(p), "pinned memory arrive late"))
        cr_skip_test("this host was too busy to see the GPU's writes in time");
}

/* Launches short kernels under the cap until it is killed. Returns its process once `ready`. */
static struct process *launches(const char *const command[], const char *const env[],
                                bool (*ready)(const struct message_row *), struct message_row *row)
{
    struct process *p;

    setenv("CUTIN_ALONE", "capped", 1);
    setenv("CUTIN_LOG", "info", 1);
    p = process_start(command, env);
    if (!client_wait(PROGRAM, ready, 60, row)) {
        skip_if_writes_are_late(p);
        cr_assert_fail("not ready: %s", process_err(p));
    }
    return p;
}

static const char *const under_run[] = {
    CUTIN, "run", "--sim", "--", BIN_DIR "/tests/" PROGRAM, "/nonexistent", "/nonexistent", NULL};
static const char *const bare[] = {BIN_DIR "/tests/" PROGRAM, "/nonexistent", "/nonexistent", NULL};
static const char *const preloaded[] = {PRELOAD, SIMULATOR, NULL};

Test(defaults, program_has_gates_under_run_and_then_preloaded)
{
    struct process *daemon = daemon_start();
    struct process *p = launches(under_run, NULL, has_run, NULL);

    skip_if_given_up();
    skip_if_writes_are_late(p); /* it says so before its first kernel */
    cr_expect(client_wait(PROGRAM, has_gates, 60, NULL), "%s", process_err(p));
    process_free(p);
    process_free(launches(bare, preloaded, has_gates, NULL));
    process_free(daemon);
}

static void has_none(const char *const command[], const char *const env[], const char *why)
{
    struct process *daemon = daemon_start(), *p;
    struct message_row row;

    p = launches(command, env, has_run, &row);
    if (command == under_run)
        skip_if_given_up();
    skip_if_writes_are_late(p);
    cr_expect_eq(row.device[0].gates, 0);
    cr_expect_not_null(strstr(process_err(p), why), "%s", process_err(p));
    process_free(p);
    process_free(daemon);
}

Test(defaults, untested_driver_gets_no_gates)
{
    has_none(bare, preloaded, "no gates: not tested here yet");
}

Test(defaults, driver_with_broken_waits_gets_no_gates)
{
    has_none(under_run, (const char *[]){"SIMGPU_WAITS=pass", NULL},
             "no gates: they are of no use here");
}

Test(defaults, record_of_another_driver_gives_no_gates)
{
    struct process *daemon = daemon_start();

    run_asks(NULL);
    process_free(daemon);
    has_none(bare, (const char *[]){PRELOAD, SIMULATOR, "SIMGPU_DRIVER_VERSION=12080", NULL},
             "no gates: tested with another driver");
}

/* ---- what gates cost in graphs --------------------------------------------------------------- */

static int is_kernel(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "kernel") == 0;
}

static uint64_t waits_ns;

static int is_wait(const struct device_work *w, const void *unused)
{
    waits_ns += strcmp(w->kind, "wait") == 0 ? w->cost_ns : 0;
    return strcmp(w->kind, "wait") == 0;
}

/* On a busy host's clock the measured cost may be far from the true one: then skips. */
static void skip_if_mismeasured(uint64_t wait_ns)
{
    static const char says[] = " graphs a gate costs ";
    const char *at = strstr(record(), says);
    uint64_t ns = at ? strtoull(at + sizeof(says) - 1, NULL, 10) : 0;

    if (!clock_steps() && (ns < wait_ns / 2 || ns > wait_ns * 2))
        cr_skip_test("too noisy to say: a gate of %" PRIu64 " ns was measured as %" PRIu64, wait_ns,
                     ns);
}

/* Returns the time of a graph program's gates as a part of the time of its kernels, of 20 us each.
 * `says`: what the program must print about its gates. */
static double graph_gates_part(uint64_t wait_ns, const char *preload, const char *mutant,
                               const char *says)
{
    enum { KERNELS = 10000, KERNEL_NS = 23000 };
    char wait[64];
    const char *const env[] = {wait, mutant, preload, "CUTIN_LOG=info", SIMULATOR, NULL};
    struct process *daemon = daemon_start(), *p;
    int kernels;

    snprintf(wait, sizeof(wait), "SIMGPU_GRAPH_WAIT_NS=%" PRIu64, wait_ns);
    run_asks((const char *[]){wait, NULL});
    skip_if_mismeasured(wait_ns);
    device_log_open();
    p = process_start(
        (const char *[]){BIN_DIR "/tests/program_graphs", "loop", "/nonexistent", NULL}, env);
    for (int i = 0; device_log_count(is_kernel, NULL) < KERNELS; i++) {
        cr_assert_lt(i, 3000, "the device did not come so far: %s", process_err(p));
        nap_ms(50);
    }
    process_signal(p, SIGTERM);
    cr_expect_eq(process_wait(p, 60), 0, "stderr: %s", process_err(p));
    cr_expect(!says || strstr(process_err(p), says), "stderr: %s", process_err(p));
    process_free(p);
    process_free(daemon);
    waits_ns = 0;
    kernels = device_log_count(is_kernel, NULL);
    device_log_count(is_wait, NULL);
    return (double)waits_ns / KERNEL_NS / kernels;
}

/* The distance between gates in device time also depends on what is learned of kernels. */
Test(defaults, costly_graph_gates_are_farther_apart)
{
    if (!clock_steps())
        cr_skip_test("a sanitizer's launches take longer than kernels");

    double part =
        graph_gates_part(5000, PRELOAD, "CUTIN_MUTANT=", "gates in graphs are farther apart");

    cr_expect(part > 0.005 && part < 0.025, "%.4f of the time", part);
}

Test(defaults, too_costly_graph_gates_are_left_out)
{
    double part = graph_gates_part(50000, PRELOAD, "CUTIN_MUTANT=", "graphs get no gates");

    cr_expect_lt(part, 0.002, "%.4f of the time", part);
}

Test(defaults, mutant_ignoring_gate_cost_slows_graph)
{
    double part = graph_gates_part(5000, "LD_PRELOAD=" LIB_DIR "/tests/libcutin-mutants.so",
                                   "CUTIN_MUTANT=graph_gates_dear", NULL);

    cr_expect_gt(part, 0.04, "%.4f of the time", part);
}
