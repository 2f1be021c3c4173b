/*
 * disb.c - `cutin-lab disb --json` prints the fields that scripts use, and ends cleanly. No figure
 * is judged here.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "scheduler/wire/socket.h"

TestSuite(disb, .init = sandbox_enter, .fini = sandbox_leave);

static json_t *get(json_t *root, const char *path)
{
    char copy[128], *save = NULL;

    snprintf(copy, sizeof(copy), "%s", path);
    for (char *key = strtok_r(copy, ".", &save); key && root; key = strtok_r(NULL, ".", &save))
        root = json_object_get(root, key);
    return root;
}

static json_t *parse(struct process *p)
{
    json_error_t error;
    json_t *root = json_loads(process_out(p), 0, &error);

    cr_assert_not_null(root, "%s in %s%s", error.text, process_out(p), process_err(p));
    return root;
}

/* A workload that is light on any machine, with a request every 20 ms. */
static const char *light(void)
{
    const char *path = sandbox_path("light.json");
    FILE *f = fopen(path, "w");

    fputs("{\"models\": {\"few\": {\"kernels\": [[4, 64, 200], [8, 128, 100]]}},"
          " \"workloads\": {\"light\": {\"clients\": ["
          "{\"model\": \"few\", \"priority\": \"rt\", \"arrivals\": \"periodic\", \"per_s\": 50},"
          "{\"model\": \"few\", \"priority\": \"be\", \"arrivals\": \"closed\"}]}}}",
          f);
    fclose(f);
    return path;
}

Test(disb, json_has_every_key_for_every_mode)
{
    static const char *const modes[] = {"rt-only", "sequential", "native", "cutin-padding"};
    static const char *const keys[] = {"rt.mean_us",     "rt.p50_us",     "rt.p99_us",
                                       "rt.p999_us",     "rt_vs_alone",   "throughput_vs_rt_only",
                                       "preempt_us.p50", "preempt_us.p99"};
    struct process *p =
        process_run((const char *[]){LAB, "disb", "--sim", "--file", light(), "--seconds", "1",
                                     "--json", "--mode", modes[0], "--mode", modes[1], "--mode",
                                     modes[2], "--mode", modes[3], NULL},
                    NULL, 100);
    json_t *root;

    cr_assert_eq(p->status, 0, "status %d, %s", p->status, process_err(p));
    root = parse(p);
    for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
        json_t *mode = json_object_get(get(root, "workloads.light.modes"), modes[m]);
        for (size_t k = 0; k < sizeof(keys) / sizeof(keys[0]); k++)
            cr_expect(json_is_number(get(mode, keys[k])), "%s has no %s", modes[m], keys[k]);
        cr_expect_gt(json_integer_value(get(mode, "rt.samples")), 0, "%s", modes[m]);
    }
    cr_expect_eq(json_integer_value(get(root, "models.few.kernels")), 2);
    cr_expect(json_number_value(get(root, "models.few.solo_us")) == 300);
    json_decref(root);
    process_free(p);
}

/* The socket of its daemon, once the folder for it exists. */
static bool daemon_socket(char socket[SOCKET_PATH_MAX])
{
    DIR *dir = opendir(getenv("TMPDIR"));
    struct dirent *entry;
    bool there = false;

    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, "cutin-disb.", 11) == 0) {
            snprintf(socket, SOCKET_PATH_MAX, "%.60s/%.30s/cutin.sock", getenv("TMPDIR"),
                     entry->d_name);
            there = true;
        }
    if (dir)
        closedir(dir);
    return there;
}

static bool has_clients(void)
{
    char socket[SOCKET_PATH_MAX];
    struct message_row *rows = NULL;
    size_t n = 0;

    if (!daemon_socket(socket) || query_clients(socket, &rows, &n) != 0)
        return false;
    free(rows);
    return n > 0;
}

Test(disb, interrupt_ends_run_and_removes_daemon_folder)
{
    struct process *p =
        process_start((const char *[]){LAB, "disb", "--sim", "--file", light(), "--seconds", "60",
                                       "--mode", "cutin", "--json", NULL},
                      NULL);
    char socket[SOCKET_PATH_MAX];
    json_t *root;

    /* When there is a client the mode has begun, and all processes have been started: around a
     * fork, ThreadSanitizer may lose a signal. */
    for (int i = 0; i < 6000 && process_running(p) && !has_clients(); i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    process_signal(p, SIGINT);
    process_wait(p, 60);
    cr_expect_not_null(strstr(process_err(p), "interrupted"), "%s", process_err(p));
    cr_expect_eq(p->status, 128 + SIGINT);
    if (*process_out(p)) { /* without output it had no figures yet */
        root = parse(p);
        cr_expect(json_is_true(get(root, "interrupted")));
        json_decref(root);
    }
    cr_expect_not(daemon_socket(socket), "the daemon's folder is left");
    process_free(p);
}

/* From a program to the benchmark: clients of both kinds send what it asked of the GPU. */
Test(disb, recorded_model_is_served)
{
    const char *file = sandbox_path("w.cutw"), *workloads = sandbox_path("recorded.json");
    char model[600];
    struct process *p = process_run((const char *[]){LAB, "record", "--sim", "-o", file, "--",
                                                     EXAMPLE("rt_inference"), "--requests", "2",
                                                     "--kernels", "12", "--kernel-us", "50", NULL},
                                    NULL, 60);
    FILE *f = fopen(workloads, "w");
    json_t *root, *recorded, *modes;

    cr_assert_eq(p->status, 0, "%s", process_err(p));
    process_free(p);
    fputs("{\"workloads\": {\"own\": {\"clients\": ["
          "{\"model\": \"net\", \"priority\": \"rt\", \"arrivals\": \"periodic\", \"per_s\": 4},"
          "{\"model\": \"net\", \"priority\": \"be\", \"arrivals\": \"closed\"}]}}}",
          f);
    fclose(f);
    snprintf(model, sizeof(model), "net=%s", file);
    p = process_run((const char *[]){LAB, "disb", "--sim", "--file", workloads, "--model", model,
                                     "--seconds", clock_steps() ? "1" : "5", "--json", "--mode",
                                     "rt-only", "--mode", "cutin", NULL},
                    NULL, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    root = parse(p);
    recorded = get(root, "models.net");
    cr_expect_eq(json_integer_value(get(recorded, "kernels")), 12);
    cr_expect_str_eq(json_string_value(get(recorded, "source")), file);
    /* The simulator takes 53 us for each kernel, and on a busy machine a little more. */
    cr_expect_geq(json_number_value(get(recorded, "solo_us")), 12 * 53);
    modes = get(root, "workloads.own.modes");
    cr_expect_gt(json_number_value(get(modes, "cutin.rt.samples")), 0);
    cr_expect_geq(json_number_value(get(modes, "rt-only.rt.p50_us")), 12 * 50);
    cr_expect_gt(json_number_value(get(modes, "cutin.throughput_per_s")),
                 json_number_value(get(modes, "cutin.rt_per_s")), "best effort was served, too");
    json_decref(root);
    process_free(p);
}

Test(disb, missing_workload_or_recording_is_named)
{
    struct process *p =
        process_run((const char *[]){LAB, "disb", "--sim", "--workload", "Z", NULL}, NULL, 20);

    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "no workload Z"), "%s", process_err(p));
    process_free(p);
    p = process_run((const char *[]){LAB, "disb", "--sim", "--model", "vgg19=none.cutw", NULL},
                    NULL, 20);
    cr_expect_eq(p->status, 1);
    cr_expect_not_null(strstr(process_err(p), "none.cutw"), "%s", process_err(p));
    process_free(p);
}

/* Two processes fail at the same moment, and the message of one of them appears whole. This is a
 * race, so it is tried ten times. */
Test(disb, error_of_failed_process_is_reported)
{
    const char *path = light();

    for (int i = 0; i < 10; i++) {
        struct process *p =
            process_run((const char *[]){LAB, "disb", "--sim", "--file", path, "--seconds", "1",
                                         "--mode", "native", NULL},
                        (const char *[]){"SIMGPU_FAULT=kernel=spin:nth=1:error=700", NULL}, 20);
        cr_expect_eq(p->status, 1);
        cr_expect_not_null(strstr(process_err(p), "(700)"), "%s", process_err(p));
        process_free(p);
    }
}
