/*
 * record.c - `cutin-lab record` and `cutin-lab replay`: what was recorded is what is replayed.
 */
#include "tests/integration/gpu.h"
#include "tests/scheduler/stop.h"
#include "tools/lab/record/workload.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(record, .init = sandbox_enter, .fini = sandbox_leave);

static char why[256];

static const char *record(const char *requests, const char *kernels)
{
    const char *file = sandbox_path("w.cutw");
    struct process *p = process_run(
        (const char *[]){LAB, "record", "--sim", "-o", file, "--", EXAMPLE("rt_inference"),
                         "--requests", requests, "--kernels", kernels, "--kernel-us", "50", NULL},
        NULL, 60);

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_expect_not_null(strstr(process_out(p), "all right"), "the program's own output");
    process_free(p);
    return file;
}

static json_t *replay(const char *const argv[])
{
    struct process *p = process_run(argv, NULL, 60);
    json_t *root;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    root = json_loads(process_out(p), 0, NULL);
    cr_assert_not_null(root, "%s", process_out(p));
    process_free(p);
    return root;
}

#define REPLAY(...) replay((const char *[]){LAB, "replay", "--json", __VA_ARGS__, NULL})

static json_int_t whole(json_t *root, const char *key)
{
    json_t *value = json_object_get(root, key);

    cr_assert(json_is_integer(value), "%s", key);
    return json_integer_value(value);
}

Test(record, every_operation_is_in_the_file)
{
    struct workload w;
    uint64_t sum;
    size_t at = 0;

    cr_assert_eq(workload_read(&w, record("4", "10"), why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(w.kernels, 1);
    cr_expect_str_eq(w.kernel[0], "mix_spin");
    cr_expect_eq(w.streams, 1);
    /* One request more: the program's own warm-up. The simulator takes 53 us for each kernel. */
    cr_expect_eq(workload_count(&w, WORKLOAD_KERNEL, &sum), 50);
    cr_expect_geq(sum, 50 * 53000);
    cr_expect_eq(workload_count(&w, WORKLOAD_COPY, &sum), 10);
    cr_expect_eq(workload_count(&w, WORKLOAD_SYNC, &sum), 5);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(w.op[at].kind, WORKLOAD_COPY);
        cr_expect_eq(w.op[at].direction, WORKLOAD_TO_DEVICE);
        cr_expect_eq(w.op[at].bytes, 1024);
        cr_expect_eq(w.op[at + 1].grid[0], 1);
        cr_expect_eq(w.op[at + 1].block[0], 256);
        cr_expect_eq(w.op[at + 11].direction, WORKLOAD_TO_HOST);
        at = workload_request_end(&w, at);
        cr_expect_eq(at, 13 * (size_t)(i + 1));
    }
    workload_free(&w);
}

/* Likewise root must not replace /dev/null. */
Test(record, a_pipe_is_written_into_and_not_replaced)
{
    const char *path = sandbox_path("pipe");
    struct workload empty = {0};
    char said[4];
    struct stat st;
    int pipe;

    cr_assert_eq(mkfifo(path, 0600), 0);
    pipe = open(path, O_RDWR | O_NONBLOCK);
    cr_expect_eq(workload_write(&empty, path, why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(read(pipe, said, sizeof(said)), sizeof(said));
    cr_expect(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    close(pipe);
}

Test(record, replay_runs_same_kernels_at_recorded_pace)
{
    const char *file = record("10", "10");
    json_t *r = REPLAY("--sim", file), *recorded = json_object_get(r, "recorded");

    cr_expect_eq(whole(r, "kernels"), 110);
    cr_expect_eq(whole(recorded, "kernels"), 110);
    cr_expect_eq(whole(r, "requests"), 11);
    /* The last of ten arrives 90 ms after the first, and not earlier, whatever the machine does. */
    cr_expect_geq(json_real_value(json_object_get(r, "total_s")), 0.09);
    json_decref(r);
}

Test(record, replay_follows_arrivals_and_priority_options)
{
    const char *file = record("3", "5");
    json_t *r =
        REPLAY("--sim", "--arrivals", "periodic", "--period-us", "5000", "--requests", "9", file);

    cr_expect_eq(whole(r, "requests"), 9);
    cr_expect_eq(whole(r, "kernels"), 45);
    cr_expect_geq(json_real_value(json_object_get(r, "total_s")), 0.04);
    json_decref(r);
    r = REPLAY("--sim", "--arrivals", "poisson", "--period-us", "1000", "--requests", "20", file);
    cr_expect_eq(whole(r, "kernels"), 100);
    json_decref(r);
    r = REPLAY("--sim", "--arrivals", "closed", "--requests", "8", "--priority", "be", file);
    cr_expect_eq(whole(r, "kernels"), 40);
    cr_expect_str_eq(json_string_value(json_object_get(r, "priority")), "be");
    json_decref(r);
    daemon_stop(daemon_path());
}

Test(record, ctrl_c_prints_partial_replay)
{
    const char *file = record("2", "2");
    struct process *p =
        process_start((const char *[]){LAB, "replay", "--sim", "--json", "--arrivals", "closed",
                                       "--seconds", "60", file, NULL},
                      NULL);
    json_t *root;

    cr_assert(process_catches(p, SIGINT), "it does not run");
    process_signal(p, SIGINT);
    cr_assert_eq(process_wait(p, 20), 128 + SIGINT, "%s", process_err(p));
    root = json_loads(process_out(p), 0, NULL);
    cr_assert_not_null(root, "%s", process_out(p));
    cr_expect(json_is_true(json_object_get(root, "interrupted")));
    cr_expect_null(strchr(process_err(p), '\r'), "progress is for terminals");
    json_decref(root);
    process_free(p);
}

static void refuses(const char *file, const char *word)
{
    struct process *p = process_run((const char *[]){LAB, "replay", "--sim", file, NULL}, NULL, 30);

    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), word), "no %s in: %s", word, process_err(p));
    cr_expect_str_eq(process_out(p), "");
    process_free(p);
}

Test(record, replay_refuses_invalid_file)
{
    const char *file = record("1", "1");

    cr_assert_eq(truncate(file, 200), 0);
    refuses(file, "truncated");
    refuses(CUTIN, "not a workload");
    refuses(sandbox_path("none"), "none");
}

Test(record, program_without_cuda_writes_no_recording)
{
    struct process *p = process_run(
        (const char *[]){LAB, "record", "-o", sandbox_path("x"), "--", "true", NULL}, NULL, 30);

    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "nothing"), "%s", process_err(p));
    cr_expect_neq(access(sandbox_path("x"), F_OK), 0);
    process_free(p);
}
