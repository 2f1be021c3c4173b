/*
 * progress.c - at a terminal every command shows how far it is, and Ctrl-C ends it with the results
 * that it has. Without a terminal it prints results only.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/command/terminal.h"
#include "tools/lab/record/workload.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(progress, .init = sandbox_enter, .fini = sandbox_leave);

#define LIGHT                                                                                      \
    "{\"models\": {\"few\": {\"kernels\": [[4, 64, 200]]}}, \"workloads\": {\"light\": "           \
    "{\"clients\": [{\"model\": \"few\", \"priority\": \"rt\", \"arrivals\": \"periodic\", "       \
    "\"per_s\": 50}]}}}"

static const char *light(void)
{
    const char *path = sandbox_path("light.json");
    FILE *f = fopen(path, "w");

    fputs(LIGHT, f);
    fclose(f);
    return path;
}

/* The results go to a file, so that the terminal has the progress only. */
static struct terminal *start(const char *command)
{
    char line[2000];

    snprintf(line, sizeof(line), "exec " BIN_DIR "/%s >%s", command, sandbox_path("out"));
    return terminal_start((const char *[]){"sh", "-c", line, NULL});
}

/* Counts processes of this test's own sandbox: they all have its TMPDIR. */
static int left_behind(void)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;
    int n = 0;

    while ((entry = readdir(proc))) {
        char path[300], text[16384];
        FILE *f;
        size_t got;

        snprintf(path, sizeof(path), "/proc/%s/environ", entry->d_name);
        if (atoi(entry->d_name) <= 0 || atoi(entry->d_name) == getpid() || !(f = fopen(path, "r")))
            continue;
        got = fread(text, 1, sizeof(text), f);
        fclose(f);
        n += got && memmem(text, got, sandbox_folder(), strlen(sandbox_folder()));
    }
    closedir(proc);
    return n;
}

/* Sends Ctrl-C once the terminal shows `word` and this progress. Returns what was printed. */
static json_t *interrupted(const char *command, const char *word, int percent)
{
    struct terminal *t = start(command);
    json_error_t error;
    json_t *root;
    int status;

    cr_assert(terminal_shows(t, word), "no %s in %s", word, t->seen);
    cr_assert(terminal_comes_to(t, percent), "%d %% in %s", percent, t->seen);
    terminal_press(t, TERMINAL_CTRL_C);
    status = terminal_wait(t);
    cr_expect_eq(status, 128 + SIGINT, "status %d, %s", status, t->seen);
    cr_expect_not_null(strstr(t->seen, "interrupted; the"), "%s", t->seen);
    root = json_load_file(sandbox_path("out"), 0, &error);
    cr_assert_not_null(root, "%s: %s", command, error.text);
    cr_expect(json_is_true(json_object_get(root, "interrupted")), "%s", command);
    cr_expect_eq(left_behind(), 0, "%s", command);
    terminal_free(t);
    return root;
}

/* With 8 threads at work, the one-thread case has all of its rounds. */
Test(progress, interrupted_overhead_prints_finished_rounds)
{
    json_t *root =
        interrupted("cutin-lab overhead --json --calls 1000 --rounds 20", " 8 threads ", 0);
    json_t *first = json_array_get(json_object_get(root, "runs"), 0);

    cr_expect_eq(json_integer_value(json_object_get(first, "rounds")), 20);
    cr_expect(json_is_object(json_object_get(root, "inline")));
    json_decref(root);
}

/* At 1 % the first of three modes has some of its samples. */
Test(progress, interrupted_latency_prints_partial_results)
{
    json_t *root = interrupted("cutin latency --sim --json --samples 20000 --solo-ms 100", " %", 1);

    cr_expect(json_is_object(json_object_get(json_object_get(root, "modes"), "alone")));
    json_decref(root);
}

/* At 20 % one of nine rows is complete. */
Test(progress, interrupted_ablation_prints_finished_rows)
{
    json_t *root = interrupted(
        "cutin-lab ablation --sim --json --samples 100 --solo-ms 200 --be-kernel-us 200", " %", 20);

    cr_expect_geq(json_array_size(json_object_get(root, "rows")), 1);
    json_decref(root);
}

/* At 10 % it has 2 s of requests. */
Test(progress, interrupted_disb_prints_partial_results)
{
    char command[600];
    json_t *root, *modes;

    snprintf(command, sizeof(command),
             "cutin-lab disb --sim --json --seconds 20 --mode rt-only --file %s", light());
    root = interrupted(command, " %", 10);
    modes = json_object_get(json_object_get(json_object_get(root, "workloads"), "light"), "modes");
    cr_expect(json_is_object(json_object_get(modes, "rt-only")));
    json_decref(root);
}

/* One request that takes a minute: a kernel every 100 ms, without waits. */
static const char *long_request(void)
{
    const char *path = sandbox_path("long.cutw");
    struct workload w = {0};
    char why[256];

    cr_assert_eq(workload_kernel(&w, "long"), 0);
    for (uint64_t i = 0; i < 600; i++) {
        struct workload_op op = {.at_ns = i * 100000000,
                                 .duration_ns = 1000,
                                 .kind = WORKLOAD_KERNEL,
                                 .grid = {1, 1, 1},
                                 .block = {32, 1, 1}};
        cr_assert_eq(workload_add(&w, &op), 0);
    }
    cr_assert_eq(workload_write(&w, path, why, sizeof(why)), 0, "%s", why);
    workload_free(&w);
    return path;
}

Test(progress, replay_can_be_interrupted_within_a_request)
{
    char command[600];
    json_t *root;

    snprintf(command, sizeof(command), "cutin-lab replay --sim --json %s", long_request());
    root = interrupted(command, " replay ", 0);
    cr_expect_eq(json_integer_value(json_object_get(root, "requests")), 0);
    cr_expect_gt(json_integer_value(json_object_get(root, "kernels")), 0);
    json_decref(root);
}

/* Ctrl-C ends the program as it would without these commands; what it did is kept. */
static void keeps_what_it_did(const char *command, const char *file)
{
    char line[1200];
    struct terminal *t;

    snprintf(line, sizeof(line),
             "%s --sim -o %s -- sh -c '%s --requests 3; echo served >&2; exec sleep 60'", command,
             file, EXAMPLE("rt_inference"));
    t = start(line);
    cr_assert(terminal_shows(t, "served"), "%s", t->seen);
    terminal_press(t, TERMINAL_CTRL_C);
    cr_expect_eq(terminal_wait(t), 128 + SIGINT, "%s", t->seen);
    cr_expect_not_null(strstr(t->seen, file), "%s", t->seen);
    cr_expect_eq(left_behind(), 0, "%s", command);
    terminal_free(t);
}

Test(progress, interrupted_recording_keeps_its_kernels)
{
    struct workload w;
    char why[256];
    uint64_t ns;

    keeps_what_it_did("cutin-lab record", sandbox_path("w.cutw"));
    cr_assert_eq(workload_read(&w, sandbox_path("w.cutw"), why, sizeof(why)), 0, "%s", why);
    cr_expect_gt(workload_count(&w, WORKLOAD_KERNEL, &ns), 0);
    workload_free(&w);
}

Test(progress, interrupted_trace_keeps_its_events)
{
    json_t *root;

    keeps_what_it_did("cutin trace --no-daemon", sandbox_path("trace.json"));
    root = json_load_file(sandbox_path("trace.json"), 0, NULL);
    cr_expect_gt(json_array_size(json_object_get(root, "traceEvents")), 0);
    json_decref(root);
}

Test(progress, pipe_gets_no_progress)
{
    struct process *p = process_run((const char *[]){LAB, "disb", "--sim", "--seconds", "2",
                                                     "--mode", "rt-only", "--file", light(), NULL},
                                    NULL, 60);

    cr_expect_eq(p->status, 0);
    cr_expect_str_eq(process_err(p), "");
    cr_expect_null(strchr(process_out(p), '\r'));
    process_free(p);
}
