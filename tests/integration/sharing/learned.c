/*
 * learned.c - what is learned of best effort's kernels while a real-time service cuts in: kernels
 * that vary, beside other streams and behind them, beside other processes. Also that bugs in it are
 * found (tests/mutants.h). On the stepped clock (STEPPED), so bounds are tight: each figure is the
 * same in every run.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"
#include "tools/lab/record/workload.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

TestSuite(learned, .init = sandbox_enter, .fini = sandbox_leave);

enum {
    JOBS = 4,
    LAUNCHES = 2000, /* of each job; some sixty are timed */
    REQUESTS = 150,
    BUDGET_US = 200,
    EXTRA_US = 3, /* that a kernel takes beyond its argument */
};
#define MUTANTS "LD_PRELOAD=" LIB_DIR "/tests/libcutin-mutants.so"

/* ---- the log --------------------------------------------------------------------------------- */

static int is_kernel_of(const struct device_work *w, const void *pid)
{
    return strcmp(w->kind, "kernel") == 0 && w->pid == (uint64_t)*(const pid_t *)pid;
}

static void kernels_run(const struct process *p, int n)
{
    for (int i = 0; device_log_count(is_kernel_of, &p->pid) < n; i++) {
        cr_assert_lt(i, 3000, "the device did not come so far: %s", process_err((void *)p));
        nap_ms(50);
    }
}

static uint64_t longest_ns;

static int keep_longest(const struct device_work *w, const void *pid)
{
    if (is_kernel_of(w, pid) && w->start_ns - w->submit_ns > longest_ns)
        longest_ns = w->start_ns - w->submit_ns;
    return 0;
}

/* The longest time for which a kernel of the service waited for the device. The median depends on
 * how far a job has come, since its last hold, when the next request arrives. */
static double longest_wait_us(pid_t service)
{
    longest_ns = 0;
    device_log_count(keep_longest, &service);
    return (double)longest_ns / 1e3;
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Each job has a cache of its own, and so a profile of its own. */
static const char *cache(int i)
{
    static char text[JOBS][512];

    snprintf(text[i], sizeof(text[i]), "XDG_CACHE_HOME=%s/job%d", sandbox_folder(), i);
    mkdir(strchr(text[i], '=') + 1, 0700);
    return text[i];
}

static pid_t job_pid[JOBS]; /* of the latest jobs */

/* Runs a service, then jobs beside it, from number `first` on, until all have done enough. `argv`
 * are the jobs' programs and arguments, `mutant` is a bug in them. Returns the service's id. */
static pid_t run_programs(int first, int jobs, const char *const *const argv[], int launches,
                          const char *preload, const char *mutant)
{
    struct process *daemon = preload ? daemon_start() : NULL, *job[JOBS], *service;
    char fault[64] = "CUTIN_MUTANT=";
    pid_t pid;

    if (mutant)
        strcat(fault, mutant);

    device_log_open();
    service =
        process_start((const char *[]){EXAMPLE("rt_inference"), "--rate", "100", "--kernels", "1",
                                       "--kernel-us", "50", "--seconds", "3600", "--json", NULL},
                      (const char *[]){SIMULATOR, "CUTIN_PRIORITY=rt", preload, NULL});
    pid = service->pid;
    kernels_run(service, 1);
    for (int i = 0; i < jobs; i++)
        job[i] = process_start(argv[i], (const char *[]){SIMULATOR, cache(first + i), fault,
                                                         mutant ? MUTANTS : preload, NULL});
    for (int i = 0; i < jobs; i++) {
        job_pid[i] = job[i]->pid;
        kernels_run(job[i], launches);
    }
    kernels_run(service, REQUESTS);
    for (int i = 0; i < jobs; i++) {
        process_signal(job[i], SIGTERM);
        cr_expect_eq(process_wait(job[i], 60), 0, "stderr: %s", process_err(job[i]));
        process_free(job[i]);
    }
    inference_stop(service);
    process_free(service);
    process_free(daemon);
    return pid;
}

static pid_t run_bug(int first, int jobs, const char *const lengths_us[], const char *streams,
                     const char *preload, const char *mutant)
{
    const char *argv[JOBS][4];
    const char *const *each[JOBS];

    for (int i = 0; i < jobs; i++) {
        argv[i][0] = BIN_DIR "/tests/program_turns";
        argv[i][1] = lengths_us[i];
        argv[i][2] = streams;
        argv[i][3] = NULL;
        each[i] = argv[i];
    }
    return run_programs(first, jobs, each, LAUNCHES, preload, mutant);
}

static pid_t run(int first, int jobs, const char *const lengths_us[], const char *streams,
                 bool native)
{
    return run_bug(first, jobs, lengths_us, streams, native ? NULL : PRELOAD, NULL);
}

/* The value `key` that the i-th job knows of its kernel `name`; NULL: of its only kernel. */
static double known_us(int i, const char *name, const char *key)
{
    struct process *p = process_run((const char *[]){CUTIN, "profile", "--json", NULL},
                                    (const char *[]){cache(i), NULL}, 30);
    json_t *root = json_loads(process_out(p), 0, NULL);
    const json_t *gpu = json_array_get(json_object_get(root, "gpus"), 0);
    const json_t *kernels = json_object_get(gpu, "kernels"), *kernel;
    double us = 0;

    for (size_t k = 0; k < json_array_size(kernels) && us == 0; k++) {
        kernel = json_array_get(kernels, k);
        if (!name || strcmp(json_string_value(json_object_get(kernel, "symbol")), name) == 0)
            us = json_number_value(json_object_get(kernel, key));
    }
    json_decref(root);
    process_free(p);
    return us;
}

static void knows(int i, double us, double times)
{
    double learned = known_us(i, NULL, "upper_us");

    cr_expect(learned > us / times && learned < us * times, "job %d: %.1f us, not %.1f", i, learned,
              us);
}

static uint64_t cost_ns, costs;
static const char *cost_of;

static int keep_cost(const struct device_work *w, const void *pid)
{
    if (is_kernel_of(w, pid) && strcmp(w->name, cost_of) == 0) {
        cost_ns += w->cost_ns;
        costs++;
    }
    return 0;
}

/* The factor by which the learned mean of the i-th job's kernel is too long or too short. The
 * device's log says how long it took. */
static double mean_error(int i, const char *name)
{
    double learned = known_us(i, name, "mean_us"), is;

    cost_ns = costs = 0;
    cost_of = name;
    device_log_count(keep_cost, &job_pid[i]);
    cr_assert(costs > 0 && learned > 0, "%s", name);
    is = (double)cost_ns / (double)costs / 1e3;
    return learned > is ? learned / is : is / learned;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* Samples at a fixed distance would meet one of the two lengths again and again, by phase. A cut-in
 * meets one long kernel at most, wherever the job is, and what else the budget lets in. */
Test(learned, longer_of_two_alternating_lengths_is_learned)
{
    const double most_us = 400 + EXTRA_US + BUDGET_US;
    double native = longest_wait_us(run(2, 1, (const char *[]){"25,400"}, "1", true));

    cr_expect_gt(native, 2 * most_us, "%.0f us natively", native);
    for (int phase = 0; phase < 2; phase++) {
        double waited = longest_wait_us(
            run(phase, 1, (const char *[]){phase ? "400,25" : "25,400"}, "1", false));

        knows(phase, 400 + EXTRA_US, 1.1);
        cr_expect_lt(waited, most_us, "phase %d: %.0f us, %.0f natively", phase, waited, native);
    }
}

Test(learned, mutant_with_fixed_stride_mislearns_a_phase)
{
    int wrong = 0;

    for (int phase = 0; phase < 2; phase++) {
        run_bug(phase, 1, (const char *[]){phase ? "400,25" : "25,400"}, "1", PRELOAD,
                "fixed_stride");
        wrong += known_us(phase, NULL, "upper_us") < (400 + EXTRA_US) / 1.1;
    }
    cr_expect_gt(wrong, 0);
}

Test(learned, concurrent_streams_do_not_distort_estimate)
{
    run(0, 1, (const char *[]){"100"}, "2", false);
    knows(0, 100 + EXTRA_US, 1.3);
}

Test(learned, time_slices_of_others_do_not_distort_estimate)
{
    static const char *const lengths_us[] = {"25", "100", "400", "3"};

    run(0, 4, lengths_us, "1", false);
    for (int i = 0; i < 4; i++)
        knows(i, atof(lengths_us[i]) + EXTRA_US, 1.1);
}

/* Long kernels go one at a time, so in the process's own shift each meets an empty device. */
static const char *const long_us[] = {"500,900,500,500", "100", "400,2000"};

Test(learned, long_kernels_are_learned_beside_other_jobs)
{
    run(0, 3, long_us, "1", false);
    knows(0, 900 + EXTRA_US, 1.1);
    knows(1, 100 + EXTRA_US, 1.1);
    knows(2, 2000 + EXTRA_US, 1.1);
    for (int i = 0; i < 3; i++)
        cr_expect_lt(mean_error(i, "mix_spin"), 1.5, "job %d: %.2f", i, mean_error(i, "mix_spin"));
}

Test(learned, mutant_unaware_of_shifts_mislearns_long_kernels)
{
    run_bug(0, 3, long_us, "1", PRELOAD, "shift_untold");
    cr_expect_gt(mean_error(0, "mix_spin"), 1.5);
}

static const char *const behind[] = {BIN_DIR "/tests/program_behind", NULL};

/* The kernel waits for its event, and then for the multiprocessors. */
Test(learned, waits_for_other_streams_do_not_distort_estimate)
{
    run_programs(0, 1, (const char *const *const[]){behind}, LAUNCHES, PRELOAD, NULL);
    cr_expect_lt(mean_error(0, "copy"), 1.5, "%.1f times", mean_error(0, "copy"));
    cr_expect_lt(mean_error(0, "mix_spin"), 1.1, "%.1f times", mean_error(0, "mix_spin"));
}

Test(learned, mutant_counting_waits_mislearns_kernel)
{
    run_programs(0, 1, (const char *const *const[]){behind}, LAUNCHES, PRELOAD,
                 "wait_taken_for_kernel");
    cr_expect_gt(mean_error(0, "copy"), 10);
}

/* Few of its short kernels ever find multiprocessors at once. */
Test(learned, training_kernel_estimates_match_device_log)
{
    static const char *const training[] = {EXAMPLE("be_training"), NULL}, *const names[] = {
                                                                              "copy", "mix",
                                                                              "mix_spin"};

    run_programs(0, 1, (const char *const *const[]){training}, 8 * LAUNCHES, PRELOAD, NULL);
    for (int i = 0; i < 3; i++)
        cr_expect_lt(mean_error(0, names[i]), 1.5, "%s: %.2f", names[i], mean_error(0, names[i]));
}

/* ---- what a driver does within a call ------------------------------------------------------- */

/* The i-th job is alone and learns from `launches` kernels, which take `us` each. */
static void run_alone_of(int i, const char *us, int launches, const char *mutant)
{
    char fault[64] = "CUTIN_MUTANT=";
    struct process *daemon = daemon_start(), *job;

    if (mutant)
        strcat(fault, mutant);
    device_log_open();
    job = process_start(
        (const char *[]){BIN_DIR "/tests/program_turns", us, "1", "1", NULL},
        (const char *[]){SIMULATOR, cache(i), fault, mutant ? MUTANTS : PRELOAD, NULL});
    job_pid[i] = job->pid;
    kernels_run(job, launches);
    process_signal(job, SIGTERM);
    cr_expect_eq(process_wait(job, 60), 0, "stderr: %s", process_err(job));
    process_free(job);
    process_free(daemon);
}

/* Kernels of 10 us on a device with this setting. */
static void run_alone(int i, const char *variable, const char *value, const char *mutant)
{
    setenv(variable, value, 1);
    run_alone_of(i, "10", 100, mutant);
}

/* The error of what is learned there, as in mean_error. */
static double alone_error(int i, const char *variable, const char *value, const char *mutant)
{
    run_alone(i, variable, value, mutant);
    return mean_error(i, "mix_spin");
}

Test(learned, kernel_loading_does_not_distort_estimate)
{
    static const char *const load_us[] = {"80", "1000", "1000000"};

    for (int i = 0; i < 3; i++) {
        double error = alone_error(i, "SIMGPU_LOAD_US", load_us[i], NULL);

        cr_expect_lt(error, 1.2, "%s us: %.2f", load_us[i], error);
    }
    double error = alone_error(3, "SIMGPU_LOAD_US", "1000", "loading_timed");
    cr_expect_gt(error, 4, "%.2f", error);
}

/* On a machine without time only an upper bound is known: how long the call took. */
Test(learned, slow_launch_calls_still_give_upper_bound)
{
    run_alone(0, "SIMGPU_LAUNCH_NS", "300000", NULL);
    double us = known_us(0, "mix_spin", "mean_us");

    cr_expect(us > 10 && us < 300 + 10, "%.1f us", us);
    run_alone(1, "SIMGPU_LAUNCH_NS", "300000", "late_never_timed");
    cr_expect_eq(known_us(1, "mix_spin", "mean_us"), 0);
}

/* They count as four seconds, the most that can be kept. */
Test(learned, six_second_kernel_is_learned_as_four_seconds)
{
    run_alone_of(0, "6000000", 3, NULL);
    double us = known_us(0, "mix_spin", "mean_us");

    cr_expect(us > 3990000 && us < 4010000, "%.0f us", us);
    run_alone_of(1, "6000000", 3, "longest_unlearned");
    cr_expect_eq(known_us(1, "mix_spin", "mean_us"), 0);
}

/* On an idle stream the pair of events includes the time between event and kernel. */
Test(learned, gap_after_event_does_not_distort_estimate)
{
    static const char *const late_ns[] = {"0", "3000", "6000"};

    for (int i = 0; i < 3; i++) {
        double error = alone_error(i, "SIMGPU_EVENT_NS", late_ns[i], NULL);

        cr_expect_lt(error, 1.2, "%s ns: %.2f", late_ns[i], error);
    }
    double error = alone_error(3, "SIMGPU_EVENT_NS", "6000", "call_timed");
    cr_expect_gt(error, 1.3, "%.2f", error);
}

/* ---- fewer multiprocessors ------------------------------------------------------------------ */

/* In a context with a quarter of the device, kernels of a quarter fill it and run one by one. */
static double quarters_wait_us(const char *share, const char *mutant)
{
    static const char *const quarters[] = {
        BIN_DIR "/tests/program_turns", "100", "8", "0", "4", NULL};

    setenv("SIMGPU_SM_SHARE", share, 1);
    return longest_wait_us(
        run_programs(0, 1, (const char *const *const[]){quarters}, LAUNCHES, PRELOAD, mutant));
}

Test(learned, context_filling_kernels_count_as_whole_device)
{
    double whole = quarters_wait_us("100", NULL), share = quarters_wait_us("25", NULL),
           unseen = quarters_wait_us("25", "share_unseen");

    cr_expect_lt(share, whole * 1.1, "%.0f us, %.0f of the device", share, whole);
    cr_expect_gt(unseen, whole * 1.3, "%.0f us, %.0f of the device", unseen, whole);
}

/* ---- markers --------------------------------------------------------------------------------- */

static uint64_t first_ns, last_ns;

static int keep_span(const struct device_work *w, const void *pid)
{
    if (!is_kernel_of(w, pid))
        return 0;
    first_ns = w->start_ns < first_ns ? w->start_ns : first_ns;
    last_ns = w->end_ns > last_ns ? w->end_ns : last_ns;
    return 1;
}

/* The part of the device that the job, with kernels of `us`, has beside the service. */
static double share_of(int us, const char *variable, const char *value, const char *mutant)
{
    char length[16];

    snprintf(length, sizeof(length), "%d", us);
    setenv(variable, value, 1);
    run_bug(0, 1, (const char *[]){length}, "1", PRELOAD, mutant);
    first_ns = UINT64_MAX;
    last_ns = 0;
    int kernels = device_log_count(keep_span, &job_pid[0]);
    return kernels * (us + EXTRA_US) * 1e3 / (double)(last_ns - first_ns);
}

Test(learned, late_marker_words_cost_job_no_throughput)
{
    static const char late_us[] = "SIMGPU_WORD_LATE_US";
    double soon = share_of(100, late_us, "0", NULL), late = share_of(100, late_us, "2000", NULL),
           never = share_of(100, late_us, "10000000", NULL),
           believed = share_of(100, late_us, "2000", "words_believed");

    cr_expect_gt(soon, 0.8, "%.2f", soon);
    cr_expect_gt(late, soon * 0.95, "%.2f, %.2f where they are seen at once", late, soon);
    cr_expect_gt(never, soon * 0.95, "%.2f, %.2f where they are seen at once", never, soon);
    cr_expect_lt(believed, soon * 0.5, "%.2f, %.2f where they are seen at once", believed, soon);
}

static int is_mark(const struct device_work *w, const void *unused)
{
    return strcmp(w->kind, "mark") == 0;
}

/* Returns whether markers are said to be late; *writes is the number of writes to find out. */
static bool are_late(const char *late_us, const char *contexts, int *writes)
{
    struct process *p;
    bool said;

    device_log_open();
    *writes = device_log_count(is_mark, NULL);
    setenv("SIMGPU_WORD_LATE_US", late_us, 1);
    p = process_run((const char *[]){BIN_DIR "/tests/program_words", contexts, NULL},
                    (const char *[]){PRELOAD, SIMULATOR, "CUTIN_LOG=info", NULL}, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    said = strstr(process_err(p), "pinned memory arrive late");
    process_free(p);
    *writes = device_log_count(is_mark, NULL) - *writes;
    return said;
}

Test(learned, late_markers_are_detected_once_per_device)
{
    int soon, late, several;

    cr_expect_not(are_late("0", "1", &soon));
    cr_expect(are_late("2000", "1", &late));
    cr_expect(are_late("2000", "8", &several));
    cr_expect_gt(late, soon, "%d writes, %d where they are seen at once", late, soon);
    cr_expect_eq(several, late);
}

/* With gates as without. */
Test(learned, costly_markers_take_at_most_two_percent)
{
    static const char write_ns[] = "SIMGPU_WRITE_NS";

    for (int gates = 0; gates < 2; gates++) {
        setenv("CUTIN_GATES", gates ? "auto" : "off", 1);
        double cheap = share_of(5, write_ns, "0", NULL), dear, everywhere;

        setenv(write_ns, "3000", 1);
        process_free(process_run((const char *[]){CUTIN, "doctor", "--sim", NULL},
                                 (const char *[]){cache(0), NULL}, 80));
        dear = share_of(5, write_ns, "3000", NULL);
        everywhere = share_of(5, write_ns, "3000", "marks_dear");
        cr_expect_gt(dear, cheap * 0.98, "%.3f, %.3f where they cost nothing", dear, cheap);
        cr_expect_lt(everywhere, cheap * 0.97, "%.3f, %.3f where they cost nothing", everywhere,
                     cheap);
    }
}

/* ---- what is recorded ------------------------------------------------------------------------ */

/* A pair of events around it would include the time for which others had the multiprocessors. */
Test(learned, recorded_kernel_times_do_not_exceed_device_times)
{
    const char *file = sandbox_path("w.cutw");
    struct workload w = {0};
    struct process *p;
    double gpu_s = 0, copies_us = 0;
    uint64_t sum_ns;
    size_t copies = 0;
    const char *said;
    char why[256];

    p = process_run((const char *[]){LAB, "record", "--sim", "-o", file, "--",
                                     EXAMPLE("be_training"), "--steps", "50", NULL},
                    NULL, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_assert_eq(workload_read(&w, file, why, sizeof(why)), 0, "%s", why);
    said = strstr(process_err(p), " kernels (");
    cr_assert(said && sscanf(said, " kernels (%*u names, %lf", &gpu_s) == 1, "%s", process_err(p));
    for (size_t i = 0; i < w.ops; i++) {
        if (w.op[i].kind != WORKLOAD_KERNEL || strcmp(w.kernel[w.op[i].name], "copy") != 0)
            continue;
        copies_us += (double)w.op[i].duration_ns / 1e3;
        copies++;
    }
    workload_count(&w, WORKLOAD_KERNEL, &sum_ns);
    cr_expect(gpu_s > 0 && gpu_s <= (double)w.total_ns / 1e9 + 0.001, "%.3f s of GPU time in %.3f",
              gpu_s, (double)w.total_ns / 1e9);
    cr_expect_leq(sum_ns, w.total_ns);
    cr_expect_eq(copies, 50);
    cr_expect_lt(copies_us, 50 * 1.5 * EXTRA_US, "%.1f us", copies_us / 50);
    workload_free(&w);
    process_free(p);
}

/* ---- shares by what ran ---------------------------------------------------------------------- */

static uint64_t from_ns, ran_ns;

static int keep_ran(const struct device_work *w, const void *pid)
{
    if (is_kernel_of(w, pid) && w->start_ns >= from_ns)
        ran_ns += w->cost_ns;
    return 0;
}

static uint64_t ran(const struct process *p)
{
    ran_ns = 0;
    device_log_count(keep_ran, &p->pid);
    return ran_ns;
}

/* A job that seems to use little, since most of its kernels are short, would get seven eighths. */
Test(learned, equal_weights_get_equal_shares_of_device_time)
{
    const char *const lengths_us[] = {"20,2000,20,20", "200"};
    struct process *daemon, *job[2];
    FILE *conf = fopen(sandbox_path("fair.conf"), "w");
    double share;

    cr_assert(conf);
    fputs("[policy]\nname = fair\n", conf);
    fclose(conf);
    device_log_open();
    mkdir(sandbox_path("cutin"), 0700);
    daemon =
        process_start((const char *[]){BIN_DIR "/cutind", "--config", sandbox_path("fair.conf"),
                                       "--socket", daemon_path(), NULL},
                      NULL);
    for (int i = 0; i < 2; i++)
        job[i] = process_start(
            (const char *[]){BIN_DIR "/tests/program_turns", lengths_us[i], "1", NULL},
            (const char *[]){SIMULATOR, cache(i), PRELOAD, NULL});
    for (int i = 0; i < 2; i++)
        kernels_run(job[i], 1);
    from_ns = device_now_ns() + 500000000;
    while (ran(job[0]) + ran(job[1]) < 2000000000)
        nap_ms(100);
    share = (double)ran(job[0]) / (double)(ran(job[0]) + ran(job[1]));
    cr_expect(share > 0.45 && share < 0.55, "%.3f", share);
    for (int i = 0; i < 2; i++) {
        process_signal(job[i], SIGTERM);
        cr_expect_eq(process_wait(job[i], 60), 0, "stderr: %s", process_err(job[i]));
        process_free(job[i]);
    }
    process_free(daemon);
}

/* ---- what list says -------------------------------------------------------------------------- */

static uint64_t told_ns(void)
{
    struct message_row *rows;
    uint64_t sum = 0;
    size_t n;

    cr_assert_eq(query_clients(daemon_path(), &rows, &n), 0);
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < rows[i].devices; k++)
            sum += rows[i].device[k].gpu_ns;
    free(rows);
    return sum;
}

/* Each process's own figure includes the others' time slices. */
Test(learned, gpu_times_of_processes_add_up_to_device_time)
{
    const char *const lengths_us[] = {"50,500", "200", "20,2000,20,20"};
    enum { JOBS = 3, PUBLISHED_NS = 200000000 };
    struct process *daemon, *job[JOBS];
    uint64_t told, at_ns, ran_before;

    device_log_open();
    mkdir(sandbox_path("cutin"), 0700);
    daemon =
        process_start((const char *[]){BIN_DIR "/cutind", "--socket", daemon_path(), NULL}, NULL);
    for (int i = 0; i < JOBS; i++)
        job[i] = process_start(
            (const char *[]){BIN_DIR "/tests/program_turns", lengths_us[i], "1", NULL},
            (const char *[]){SIMULATOR, cache(i), PRELOAD, NULL});
    for (int i = 0; i < JOBS; i++)
        kernels_run(job[i], 100);
    from_ns = 0;
    told = told_ns();
    at_ns = device_now_ns();
    ran_before = ran(job[0]) + ran(job[1]) + ran(job[2]);
    while (ran(job[0]) + ran(job[1]) + ran(job[2]) < ran_before + 2000000000)
        nap_ms(100);
    told = told_ns() - told;
    at_ns = device_now_ns() - at_ns;
    cr_expect(told < at_ns + PUBLISHED_NS && told + PUBLISHED_NS > at_ns, "%.3f s of %.3f",
              (double)told / 1e9, (double)at_ns / 1e9);
    for (int i = 0; i < JOBS; i++) {
        process_signal(job[i], SIGTERM);
        cr_expect_eq(process_wait(job[i], 60), 0, "stderr: %s", process_err(job[i]));
        process_free(job[i]);
    }
    process_free(daemon);
}
