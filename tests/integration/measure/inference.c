/*
 * inference.c - what rt_inference says about the device agrees with the simulated device's log;
 * what it says about its scheduling class and processor is true. Also what tools/demo uses.
 */
#include "tests/integration/gpu.h"
#include "tests/integration/sharing/device_log.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(inference, .init = sandbox_enter, .fini = sandbox_leave);

/* Works of a request of three kernels: mark, copy, kernel, mark, two kernels, copy, mark. */
enum {
    WORKS = 8,
    FIRST_DONE = 3,
    LOADS = 1,
    WARM = 2,
    REQUESTS = 5,
    ALL = LOADS + WARM + REQUESTS
};

static struct device_work works[ALL * WORKS + 1];
static int count;

static int keep(const struct device_work *w, const void *user)
{
    if (count <= ALL * WORKS)
        works[count++] = *w;
    return 1;
}

static int rises(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* For the requests that count, the times from submission to the end of work `work`, sorted. */
static void from_log(int work, double us[REQUESTS])
{
    for (int i = 0; i < REQUESTS; i++) {
        const struct device_work *of = works + (LOADS + WARM + i) * WORKS;

        cr_assert_str_eq(of[0].kind, "mark");
        cr_assert_str_eq(of[work].kind, "mark");
        us[i] = (double)(of[work].end_ns - of[0].submit_ns) / 1000;
    }
    qsort(us, REQUESTS, sizeof(*us), rises);
}

Test(inference, device_figures_match_device_log)
{
    double ended[REQUESTS], first[REQUESTS];
    struct process *p;

    device_log_open();
    p = process_run((const char *[]){EXAMPLE("rt_inference"), "--kernels", "3", "--warm-up", "2",
                                     "--requests", "5", "--json", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    device_log_count(keep, NULL);
    cr_assert_eq(count, ALL * WORKS);
    from_log(WORKS - 1, ended);
    from_log(FIRST_DONE, first);
    cr_expect_float_eq(number_after(process_out(p), "\"device_p50_us\""), ended[2], 0.06);
    cr_expect_float_eq(number_after(process_out(p), "\"device_max_us\""), ended[4], 0.06);
    cr_expect_float_eq(number_after(process_out(p), "\"first_p50_us\""), first[2], 0.06);
    cr_expect_float_eq(number_after(process_out(p), "\"first_max_us\""), first[4], 0.06);
    cr_expect_geq(number_after(process_out(p), "\"p50_us\""), ended[2]);
    cr_expect_eq(number_after(process_out(p), "\"requests\""), REQUESTS);
    cr_expect_gt(number_after(process_out(p), "\"warm_max_us\""), 0);
    process_free(p);
}

static int is_kernel(const struct device_work *w, const void *user)
{
    return strcmp(w->kind, "kernel") == 0;
}

/* It takes class and processor before the first kernel, which does not count as a request. */
Test(inference, reported_scheduling_class_and_cpu_are_true)
{
    struct process *p;
    cpu_set_t cpus;
    int class, processors;

    device_log_open();
    p = process_start((const char *[]){EXAMPLE("rt_inference"), "--realtime", "--spin-us", "100",
                                       "--kernels", "1", "--seconds", "3600", "--json", NULL},
                      (const char *[]){SIMULATOR, NULL});
    for (int i = 0; device_log_count(is_kernel, NULL) < 2; i++) {
        cr_assert_lt(i, 6000, "no request");
        nap_ms(10);
    }
    class = sched_getscheduler(p->pid);
    cr_assert_eq(sched_getaffinity(p->pid, sizeof(cpus), &cpus), 0);
    processors = CPU_COUNT(&cpus);
    cr_assert_eq(sched_getaffinity(0, sizeof(cpus), &cpus), 0);
    inference_stop(p);
    cr_expect_eq(class == SCHED_RR, !!strstr(process_out(p), "\"host\": \"SCHED_RR"));
    cr_expect_eq(processors < CPU_COUNT(&cpus), !!strstr(process_out(p), ", processor "), "%s",
                 process_out(p));
    cr_expect_not_null(strstr(process_out(p), "spins 100 us"));
    process_free(p);
}

/* tools/demo waits for this before it starts the inference program. */
Test(inference, training_announces_end_of_warm_up)
{
    struct process *p;

    p = process_run((const char *[]){EXAMPLE("be_training"), "--kernels", "1", "--kernel-us", "1",
                                     "--steps", "100", "--announce", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_expect_str_eq(process_err(p), "training\n");
    process_free(p);
}

/* tools/demo counts steps by this, and compares checksums. */
Test(inference, training_reports_every_tenth_step)
{
    const char *said;
    struct process *p;

    p = process_run((const char *[]){EXAMPLE("be_training"), "--kernels", "1", "--kernel-us", "1",
                                     "--steps", "50", "--progress", NULL},
                    (const char *[]){SIMULATOR, NULL}, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    said = process_err(p);
    for (int step = 10, at, chars; step <= 50; step += 10, said += chars) {
        unsigned long long checksum;
        double seconds;
        cr_assert_eq(sscanf(said, "%d %llx %lf\n%n", &at, &checksum, &seconds, &chars), 3, "%s",
                     said);
        cr_expect_eq(at, step);
        cr_expect_gt(seconds, 0);
    }
    process_free(p);
}

Test(inference, demo_refuses_cost_of_tensorrt)
{
    struct process *p;

    p = process_run((const char *[]){SOURCE_DIR "/tools/demo", "--tensorrt", "--cost", NULL}, NULL,
                    60);
    cr_expect_eq(p->status, 2);
    cr_expect_str_eq(process_err(p), "demo: --cost needs --pytorch\n");
    process_free(p);
}
