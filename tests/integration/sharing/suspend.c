/*
 * suspend.c - a hold stops a kernel that runs, and the kernel goes on when the hold ends, however
 * it ends. If it cannot be stopped a message says so, and nothing else happens. The test is itself
 * the real-time client.
 */
#include "tests/integration/sharing/device_log.h"
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler/client/client.h"
#include "common/record.h"

TestSuite(suspend, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM "program_suspend"
/* HOLD_MS is much longer than a kernel of the program. */
enum { HOLD_MS = 300, LONG_AGO_NS = 200000000, STOOD_NS = 100000000, STEPS = 60 };
enum { KERNEL_MS = 30, RESTORED_MS = 10 };

#define PRELOADS "LD_PRELOAD=" LIBRARY ":" LIB_DIR "/simgpu/libsimgpu_rm.so"
#define SUSPENDING(how, mode, ...)                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        "SIMGPU_RM=" how, "CUTIN_SUSPEND=" mode, "CUTIN_LOG=info", PRELOADS, SIMULATOR,            \
            ##__VA_ARGS__, NULL                                                                    \
    }

static struct {
    struct process *daemon, *be;
    int dev;
    uint8_t uuid[16];
    uint64_t held_ns, released_ns;
} test;

static bool has_run(const struct message_row *row)
{
    return row->devices > 0 && client_submitted(row) >= 4;
}

static void quiet(int severity, const char *text)
{
}

static void start(const char *const env[])
{
    struct message_row row;

    device_log_open();
    test.daemon = daemon_start();
    test.be =
        process_start((const char *[]){BIN_DIR "/tests/" PROGRAM, sandbox_folder(), NULL}, env);
    cr_assert(client_wait(PROGRAM, has_run, 60, &row), "not ready: %s", process_err(test.be));
    memcpy(test.uuid, row.device[0].uuid, sizeof(test.uuid));
}

static void join(void)
{
    struct client_config config = {.level = 3, .lowest = 3, .socket = daemon_path(), .log = quiet};

    struct cutin_page *shared;
    uint32_t generation;

    cr_assert_eq(client_open(&config), 0);
    cr_assert_geq(test.dev = client_device(test.uuid), 0);
    for (int i = 0; client_level() != 3 || !(shared = client_page_alias(&generation)); i++) {
        cr_assert_lt(i, 6000);
        nap_ms(5);
    }
    page_unmap(shared);
}

static void hold_begin(void)
{
    client_work_begin(test.dev, 3);
    test.held_ns = device_now_ns();
    nap_ms(HOLD_MS);
}

static void release(void)
{
    test.released_ns = device_now_ns();
    client_work_end(test.dev, 3);
}

/* On a busy machine a kernel may end before the program's thread has looked. */
static void hold_until(const char *said)
{
    hold_begin();
    for (int i = 0; !strstr(process_err(test.be), said); i++) {
        cr_assert_lt(i, 100, "nothing is stopped: %s", process_err(test.be));
        release();
        nap_ms(HOLD_MS / 2 + i * 7 % 30); /* at another phase of a kernel */
        hold_begin();
    }
    test.held_ns = device_now_ns();
}

/* A kernel that ran when the hold came, and then was off the device for a good part of it. */
static int stood_still(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "kernel") == 0 && w->start_ns < test.held_ns &&
           w->end_ns - w->start_ns > w->cost_ns + STOOD_NS;
}

static int ended_while_held(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "kernel") == 0 && w->end_ns > test.held_ns + LONG_AGO_NS &&
           w->end_ns < test.released_ns;
}

static int later(const struct device_work *w, const void *since_ns)
{
    return strcmp(w->kind, "kernel") == 0 && w->end_ns > *(const uint64_t *)since_ns;
}

static void finish(void)
{
    sandbox_tell("end");
    cr_expect_eq(process_wait(test.be, 60), 0, "stderr: %s", process_err(test.be));
    cr_expect_not_null(strstr(process_out(test.be), "right"), "stdout: %s", process_out(test.be));
}

static void expect_said(const char *text)
{
    const char *first = strstr(process_err(test.be), text);

    cr_expect_not_null(first, "does not say '%s': %s", text, process_err(test.be));
    cr_expect_null(first ? strstr(first + 1, text) : NULL, "says it twice: %s",
                   process_err(test.be));
}

static int ended_by(const struct device_work *w, const void *range_ns)
{
    const uint64_t *range = range_ns;

    return strcmp(w->kind, "kernel") == 0 && w->end_ns > range[0] && w->end_ns < range[1];
}

/* Kills it. The kernel that was stopped must go on within RESTORED_MS of its end. */
static void expect_restored_without(struct process *killed)
{
    uint64_t killed_ns = device_now_ns(), range[2] = {killed_ns, 0};

    process_signal(killed, SIGKILL);
    process_wait(killed, 60);
    range[1] = device_now_ns() + (KERNEL_MS + RESTORED_MS) * 1000000ull;
    for (int i = 0; device_log_count(later, &killed_ns) == 0; i++) {
        cr_assert_lt(i, 12000, "the kernel does not go on");
        nap_ms(5);
    }
    cr_expect(!clock_steps() || device_log_count(ended_by, range) > 0, "not within %d ms",
              KERNEL_MS + RESTORED_MS);
}

static void hold(void)
{
    join();
    hold_until("suspend on");
}

/* The number of kernels that a hold stops while one runs far longer than any look takes. With `on`
 * it waits until the program's thread has looked, however late. */
static int stopped(bool on, const char *const env[])
{
    start(env);
    join();
    sandbox_tell("long");
    cr_assert(process_says(test.be, "launched", 60), "%s", process_err(test.be));
    if (on)
        hold_until("suspend on");
    else
        hold_begin();
    nap_ms(HOLD_MS);
    release();
    finish();
    return device_log_count(stood_still, NULL);
}

/* By the host's clock the program may tell of an earlier hold's kernel only after that hold: then
 * two have stood. */
static void one_is_stopped(const char *const env[])
{
    int n = stopped(true, env);

    cr_expect(n == 1 || (n > 1 && !clock_steps()), "%d stood", n);
}

Test(suspend, hold_stops_running_kernel)
{
    one_is_stopped(SUSPENDING("accept", "on"));
    cr_expect_eq(device_log_count(ended_while_held, NULL), 0);
    expect_said("suspend on: 1 channel groups stopped by schedule");
}

Test(suspend, kernels_are_stopped_only_where_asked_for)
{
    static const char *const unset[] = {"SIMGPU_RM=accept", "CUTIN_SUSPEND", "CUTIN_LOG=info",
                                        PRELOADS,           SIMULATOR,       NULL};

    cr_expect_eq(stopped(false, SUSPENDING("accept", "off")), 0);
    cr_expect_null(strstr(process_err(test.be), "suspend"));
    client_close();
    process_free(test.be);
    process_free(test.daemon);
    remove(sandbox_path("end"));
    remove(sandbox_path("long"));
    cr_expect_eq(stopped(false, unset), 0);
    expect_said("suspend off: not tested here yet");
}

Test(suspend, hold_stops_kernel_on_driver_550)
{
    one_is_stopped(SUSPENDING("accept", "on", "SIMGPU_RM_VERSION=550.163.01"));
}

Test(suspend, hold_stops_kernel_on_driver_525)
{
    one_is_stopped(SUSPENDING("accept", "on", "SIMGPU_RM_VERSION=525.60.11"));
}

/* ---- where it cannot be used ---------------------------------------------------------------- */

Test(suspend, unknown_driver_version_disables_stopping)
{
    cr_expect_eq(stopped(false, SUSPENDING("accept", "on", "SIMGPU_RM_VERSION=470.256.02")), 0);
    expect_said("suspend off: the resource manager of driver 470.256.02 is not known");
}

Test(suspend, refusal_is_reported_once)
{
    start(SUSPENDING("refuse", "on"));
    join();
    hold_until("suspend off");
    release();
    finish();
    cr_expect_eq(device_log_count(stood_still, NULL), 0);
    expect_said("suspend off: the resource manager refuses it");
}

Test(suspend, stop_without_effect_is_reported)
{
    start(SUSPENDING("ignore", "on"));
    join();
    hold_until("suspend off");
    release();
    finish();
    cr_expect_eq(device_log_count(stood_still, NULL), 0);
    expect_said("suspend off: it had no effect");
}

Test(suspend, missing_resource_manager_is_reported)
{
    cr_expect_eq(stopped(false, SUSPENDING("off", "on")), 0);
    expect_said("suspend off: no call of the driver to the resource manager was seen");
}

Test(suspend, falls_back_to_time_slices_without_other_run_list)
{
    start(SUSPENDING("timeslice", "on"));
    hold();
    release();
    finish();
    expect_said("suspend on: 1 channel groups stopped by timeslice");
}

static void record(const char *version, const char *way, const char *why)
{
    struct record r;

    /* The program tells which GPU it uses. */
    start(SUSPENDING("accept", "off"));
    finish();
    process_free(test.be);
    process_free(test.daemon);
    remove(sandbox_path("end"));
    snprintf(r.version, sizeof(r.version), "%s", version);
    snprintf(r.way, sizeof(r.way), "%s", way);
    snprintf(r.why, sizeof(r.why), "%s", why);
    cr_assert_eq(record_write("suspend", test.uuid, &r), 0);
}

static bool has_cut_in(const struct message_row *row)
{
    return row->devices > 0 && row->device[0].cut_ins >= 40;
}

/* The median wait of a real-time kernel beside kernels of 30 ms. */
static double wait_us(const char *const env[])
{
    struct message_row row;

    start(env);
    struct process *rt = inference_start(rate_with_gaps(), "5");
    cr_assert(client_wait("rt_inference", has_cut_in, 60, &row), "%s", process_err(rt));
    inference_stop(rt);
    finish();
    double us = number_after(process_out(rt), "\"first_p50_us\"");
    process_free(rt);
    return us;
}

Test(suspend, auto_shortens_slices_by_doctor_record)
{
    record("580.65.06", "timeslice", "");
    double slices_us = wait_us(SUSPENDING("timeslice", "off"));
    process_free(test.be);
    process_free(test.daemon);
    remove(sandbox_path("end"));
    double short_us = wait_us(SUSPENDING("timeslice", "auto"));
    expect_said("suspend on: time slices of 100 us beside real-time work");
    cr_expect(!clock_steps() || slices_us > 500, "%f us", slices_us); /* half of 2 ms */
    cr_expect(!clock_steps() || short_us < 250, "%f us", short_us);
}

Test(suspend, another_process_restores_long_slices)
{
    record("580.65.06", "timeslice", "");
    start(SUSPENDING("timeslice", "auto"));
    join();
    cr_assert(process_says(test.be, "suspend on: time slices of 100 us", 60), "%s",
              process_err(test.be));
    struct process *other = training_start(STEPS, NULL);
    cr_assert(process_says(test.be, "suspend: time slices are as long as before", 60), "%s",
              process_err(test.be));
    process_wait(other, 60);
    process_free(other);
    finish();
}

/* Waits for the text after position `from`. */
static void expect_said_next(size_t *from, const char *text)
{
    const char *all = process_err(test.be), *at = strstr(all + *from, text);

    for (int i = 0; !at; i++) {
        cr_assert_lt(i, 12000, "does not say '%s' then: %s", text, all);
        nap_ms(5);
        all = process_err(test.be);
        at = strstr(all + *from, text);
    }
    *from = (size_t)(at - all) + 1;
}

Test(suspend, loss_of_daemon_or_real_time_restores_long_slices)
{
    size_t from = 0;

    record("580.65.06", "timeslice", "");
    start(SUSPENDING("timeslice", "auto"));
    join();
    expect_said_next(&from, "suspend on: time slices of 100 us");
    process_signal(test.daemon, SIGKILL);
    process_wait(test.daemon, 60);
    expect_said_next(&from, "suspend: time slices are as long as before");
    struct process *again = daemon_start();
    expect_said_next(&from, "suspend on: time slices of 100 us");
    client_close();
    expect_said_next(&from, "suspend: time slices are as long as before");
    struct process *rt = inference_start("1000", "30");
    expect_said_next(&from, "suspend on: time slices of 100 us");
    process_signal(rt, SIGKILL);
    process_wait(rt, 60);
    expect_said_next(&from, "suspend: time slices are as long as before");
    finish();
    process_free(rt);
    process_free(again);
}

Test(suspend, auto_stays_off_without_doctor_record)
{
    cr_expect_eq(stopped(false, SUSPENDING("accept", "auto")), 0);
    expect_said("suspend off: not tested here yet");
}

Test(suspend, auto_stops_kernel_by_doctor_record)
{
    record("580.65.06", "schedule", "");
    one_is_stopped(SUSPENDING("accept", "auto"));
}

Test(suspend, auto_stays_off_for_reason_doctor_recorded)
{
    record("580.65.06", "none", "the controls succeed and the kernel runs on");
    cr_expect_eq(stopped(false, SUSPENDING("accept", "auto")), 0);
    expect_said("suspend off: the controls succeed and the kernel runs on");
}

Test(suspend, auto_ignores_record_of_another_driver)
{
    record("570.211.01", "schedule", "");
    cr_expect_eq(stopped(false, SUSPENDING("accept", "auto")), 0);
    expect_said("suspend off: tested with another driver");
}

/* ---- nothing stands still for good ---------------------------------------------------------- */

Test(suspend, kernel_resumes_when_daemon_dies)
{
    start(SUSPENDING("accept", "on"));
    hold();
    expect_restored_without(test.daemon);
    finish();
}

Test(suspend, kernel_resumes_when_real_time_process_is_killed)
{
    struct process *rt;

    start(SUSPENDING("accept", "on"));
    rt = inference_start("1000", "30");
    cr_assert(process_says(test.be, "suspend on", 60), "%s", process_err(test.be));
    expect_restored_without(rt);
    finish();
    process_free(rt);
}

Test(suspend, exit_of_stopped_process_leaves_device_usable)
{
    static char expected[32];

    undisturbed_checksum(STEPS, expected);
    start(SUSPENDING("accept", "on"));
    hold();
    sandbox_tell("exit");
    cr_expect_eq(process_wait(test.be, 60), 0, "stderr: %s", process_err(test.be));
    release();
    struct process *other = training_start(STEPS, NULL);
    training_check(other, expected, 60);
}

Test(suspend, kill_of_stopped_process_leaves_device_usable)
{
    static char expected[32];

    undisturbed_checksum(STEPS, expected);
    start(SUSPENDING("accept", "on"));
    hold();
    process_signal(test.be, SIGKILL);
    process_wait(test.be, 10);
    release();
    struct process *other = training_start(STEPS, NULL);
    training_check(other, expected, 60);
}

Test(suspend, exit_of_forked_child_keeps_kernel_stopped)
{
    start(SUSPENDING("accept", "on"));
    hold();
    sandbox_tell("fork");
    cr_assert(process_says(test.be, "forked", 60), "stdout: %s", process_out(test.be));
    nap_ms(HOLD_MS);
    release();
    cr_expect_eq(device_log_count(ended_while_held, NULL), 0);
    finish();
}

/* The resource manager may wait for a group that is being destroyed. */
Test(suspend, context_can_be_destroyed_while_kernel_is_stopped)
{
    start(SUSPENDING("accept", "on"));
    hold();
    sandbox_tell("context");
    cr_assert(process_says(test.be, "destroyed", 60), "stdout: %s", process_out(test.be));
    release();
    finish();
}

Test(suspend, process_with_several_levels_is_not_stopped)
{
    cr_expect_eq(stopped(false, SUSPENDING("accept", "on", "CUTIN_PRIORITY=1",
                                           "CUTIN_STREAM_PRIORITY=inherit")),
                 0);
    expect_said("suspend off: streams of this process have different levels");
}
