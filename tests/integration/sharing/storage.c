/*
 * storage.c - kernels that do I/O of their own (examples/gpu_storage): alone, beside real time, and
 * killed. The program compares its result with the processor's, so its exit status is the answer.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

TestSuite(storage, .init = sandbox_enter, .fini = sandbox_leave);

static void expect_equal(struct process *p)
{
    process_wait(p, 60);
    cr_assert_eq(p->status, 0, "status %d, %s%s", p->status, process_out(p), process_err(p));
    cr_expect(strstr(process_out(p), "\"result\": \"equal\""), "%s", process_out(p));
}

Test(storage, search_with_small_cache_matches_cpu)
{
    struct process *p = process_run((const char *[]){EXAMPLE("gpu_storage"), "--vertices", "8000",
                                                     "--lines", "16", "--json", NULL},
                                    (const char *[]){SIMULATOR, NULL}, 60);
    expect_equal(p);
    const char *out = process_out(p);
    cr_expect_gt(number_after(out, "\"reads\""), number_after(out, "\"pages\""), "%s", out);
    cr_expect_gt(number_after(out, "\"writes\""), 0, "%s", out);
    cr_expect_gt(number_after(out, "\"hits\""), 0, "%s", out);
    cr_expect_gt(number_after(out, "\"coalesced\""), 0, "%s", out);
    cr_expect_eq(number_after(out, "\"reached\""), 8000, "%s", out);
    cr_expect(strstr(process_err(p), "doorbells in registered I/O memory"));
    process_free(p);
}

/* More warps than lines, so that most wait for a line, too, and queues of several pairs. */
Test(storage, more_warps_than_cache_lines_finish)
{
    struct process *p =
        process_run((const char *[]){EXAMPLE("gpu_storage"), "--vertices", "2000", "--lines", "3",
                                     "--warps", "200", "--rounds", "2", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    expect_equal(p);
    process_free(p);
}

/* Another process's engine removes what it left, and the next one finds the device free. */
Test(storage, process_killed_in_waiting_kernel_frees_device)
{
    struct process *p = process_start(
        (const char *[]){EXAMPLE("gpu_storage"), "--seconds", "60", "--announce", NULL},
        (const char *[]){SIMULATOR, NULL});
    cr_assert(process_says(p, "warm", 30), "%s", process_err(p));
    process_signal(p, SIGKILL);
    struct process *next =
        process_run((const char *[]){EXAMPLE("be_training"), "--steps", "20", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_expect_eq(next->status, 0, "%s", process_err(next));
    process_free(next);
    process_free(p);
}

/* Only time slices divide the GPU. */
Test(storage, result_is_right_beside_real_time_without_cutin)
{
    struct process *be = process_start((const char *[]){EXAMPLE("gpu_storage"), "--rounds", "3",
                                                        "--vertices", "8000", "--json", NULL},
                                       (const char *[]){SIMULATOR, NULL});
    struct process *rt =
        process_run((const char *[]){EXAMPLE("rt_inference"), "--seconds", "1", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_expect_eq(rt->status, 0, "%s", process_err(rt));
    expect_equal(be);
    process_free(rt);
    process_free(be);
}

/* ---- under cutin ----------------------------------------------------------------------------- */

/* `much` is --rounds or --seconds, and a number. */
static struct process *storage_start(const char *const much[2], const char *latency_us,
                                     const char *const env[])
{
    return process_start((const char *[]){CUTIN, "run", "--sim", "--", EXAMPLE("gpu_storage"),
                                          much[0], much[1], "--vertices", "8000", "--latency-us",
                                          latency_us, "--announce", "--json", NULL},
                         env);
}

static bool is_named(const struct message_row *row)
{
    return row->devices > 0 && strcmp(row->device[0].io_kernel, "storage_search") == 0 &&
           row->device[0].in_flight > 0;
}

/* A look sees one moment, and on a slow host a kernel is in flight for little of the time. */
static bool list_says(const char *text)
{
    bool said = false;

    for (int look = 0; look < 2000 && !said; look++) {
        struct process *p =
            process_run((const char *[]){CUTIN, "list", "--socket", daemon_path(), NULL}, NULL, 20);
        said = strstr(process_out(p), text);
        process_free(p);
        if (!said)
            nap_ms(20);
    }
    return said;
}

/* It is known by its time and its I/O memory, and the process above is told. Each of its kernels
 * takes more than a millisecond, whichever are sampled. */
Test(storage, kernel_is_named_beside_real_time_with_right_result)
{
    struct process *daemon = daemon_start(), *be, *rt;
    struct message_row row;

    rt = inference_start(rate_with_gaps(), "30");
    be = storage_start((const char *[]){"--seconds", "3600"}, "3000", NULL);
    cr_expect(client_wait("gpu_storage", is_named, 30, &row), "%s", process_err(be));
    cr_expect(list_says("runs beside storage_search of"));
    process_signal(be, SIGTERM);
    expect_equal(be);
    inference_stop(rt);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

/* It is known by its name before anything is learned of it. */
Test(storage, declared_kernel_is_named_in_trace)
{
    struct process *p = process_start(
        (const char *[]){CUTIN, "trace", "--sim", "-o", sandbox_path("trace.json"), "--",
                         EXAMPLE("gpu_storage"), "--vertices", "100", "--json", NULL},
        (const char *[]){"CUTIN_WAITING_KERNELS=nothing,storage_*", NULL});
    expect_equal(p);
    char *trace = file_text(sandbox_path("trace.json"));
    cr_expect(strstr(trace, "I/O of its own"), "%s", process_err(p));
    free(trace);
    process_free(p);
}

Test(storage, undeclared_kernel_is_not_named_in_trace)
{
    struct process *p =
        process_start((const char *[]){CUTIN, "trace", "--sim", "-o", sandbox_path("trace.json"),
                                       "--", EXAMPLE("be_training"), "--steps", "5", "--kernel-us",
                                       "3000", "--json", NULL},
                      (const char *[]){"CUTIN_WAITING_KERNELS=nothing", NULL});
    cr_expect_eq(process_wait(p, 60), 0, "%s", process_err(p));
    char *trace = file_text(sandbox_path("trace.json"));
    cr_expect_null(strstr(trace, "I/O of its own"));
    free(trace);
    process_free(p);
}

/* It is stopped while it polls, and the storage goes on: completions stay in memory until the
 * kernel does. A process with I/O memory is never stopped, and not every driver has such memory. */
Test(storage, suspended_program_finds_its_completions_later)
{
    struct process *daemon = daemon_start(), *be, *rt;

    setenv("SIMGPU_RM", "accept", 1);
    rt = inference_start("20", "30");
    be = storage_start((const char *[]){"--rounds", "4"}, "100",
                       (const char *[]){"CUTIN_SUSPEND=on", "CUTIN_LOG=info", "SIMGPU_IO_MEMORY=0",
                                        "CUTIN_WAITING_KERNELS=storage_*", NULL});
    expect_equal(be);
    cr_expect(!clock_steps() || strstr(process_err(be), "suspend on: "), "%s", process_err(be));
    cr_expect_null(strstr(process_err(be), "it had no effect"), "%s", process_err(be));
    inference_stop(rt);
    process_free(be);
    process_free(rt);
    process_free(daemon);
}

/* ---- what it does not hold up ---------------------------------------------------------------- */

/* A client above that does nothing, so that the cap is strict but no process is held. */
static struct process *idle_above(void)
{
    return process_start((const char *[]){CUTIN, "run", "--sim", "--priority", "rt", "--",
                                          EXAMPLE("rt_inference"), "--rate", "0.1", "--seconds",
                                          "3600", NULL},
                         NULL);
}

static bool is_above(const struct message_row *row)
{
    return row->level == 3;
}

static double beside_ms(const char *setting)
{
    struct process *p = process_run(
        (const char *[]){CUTIN, "run", "--sim", "--", BIN_DIR "/tests/program_waiting", NULL},
        (const char *[]){setting, NULL}, 60);
    cr_assert_eq(p->status, 0, "%s%s", process_out(p), process_err(p));
    double ms = number_after(process_out(p), "beside_ms");
    process_free(p);
    return ms;
}

/* The kernel waits for what the other stream does, and half a second was learned of it. As a kernel
 * of that length it would stop the other stream for as long. */
Test(storage, declared_kernel_stops_no_other_stream)
{
    enum { HALF_LEARNED_MS = 250, ALL_OF_IT_MS = 1 };
    struct process *daemon = daemon_start(), *rt = idle_above();

    cr_assert(client_wait("rt_inference", is_above, 30, NULL), "%s", process_err(rt));
    double unknown_ms = beside_ms("CUTIN_WAITING_KERNELS=nothing"),
           known_ms = beside_ms("CUTIN_WAITING_KERNELS=await_*");
    if (clock_steps()) {
        cr_expect_gt(unknown_ms, HALF_LEARNED_MS);
        cr_expect_lt(known_ms, ALL_OF_IT_MS);
    }
    process_free(rt);
    process_free(daemon);
}
