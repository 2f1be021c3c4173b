/*
 * distance_live.c - a training job on a GPU at a distance keeps as much of its speed as the paper
 * of the model found, and its result does not change. Times are from the simulated device's log, on
 * the stepped clock. The output is the table of docs/results/distance.md.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(distance_live, .init = sandbox_enter, .fini = sandbox_leave);

/* With this clock a busy host is never late. A sanitizer's runtime takes the clock's place. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STEPPED NULL
#else
#define STEPPED "SIMGPU_CLOCK=step", "LD_PRELOAD=" LIB_DIR "/simgpu/libsimgpu_clock.so"
#endif

enum { STEPS = 14, KERNELS = 300, WARM = 4 * KERNELS };

/* When the n-th kernel of the job's compute stream ended. */
static uint64_t end_of(const char *log, int n)
{
    static char line[4096];
    FILE *f = fopen(log, "r");
    uint64_t end = 0;

    cr_assert_not_null(f);
    while (n >= 0 && fgets(line, sizeof(line), f))
        if (strstr(line, " name=mix_spin ") && n-- == 0)
            end = strtoull(strstr(line, " end=") + 5, NULL, 10);
    fclose(f);
    cr_assert(end, "kernels are missing");
    return end;
}

/* How long a step takes on the device. */
static double step_us(const char *batch, const char *distance, char checksum[32])
{
    char log[512];
    const char *const argv[] = {LAB,
                                "distance",
                                "--rtt",
                                distance,
                                "--",
                                CUTIN,
                                "run",
                                "--sim",
                                "--no-daemon",
                                "--",
                                BIN_DIR "/examples/be_training",
                                "--batch",
                                batch,
                                "--steps",
                                "14",
                                NULL};
    const char *const env[] = {log, STEPPED, NULL};
    struct process *p;

    snprintf(log, sizeof(log), "SIMGPU_LOG=%s", sandbox_path("device.log"));
    unlink(sandbox_path("device.log"));
    p = process_run(argv, env, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_assert(word_after(process_out(p), "checksum ", checksum, 32), "%s", process_out(p));
    process_free(p);
    return (double)(end_of(sandbox_path("device.log"), STEPS * KERNELS - 1) -
                    end_of(sandbox_path("device.log"), WARM - 1)) /
           1000 * KERNELS / (STEPS * KERNELS - WARM);
}

Test(distance_live, training_speed_matches_paper_within_3_points)
{
    static const struct {
        const char *distance;
        double kept; /* in the paper, predicted or read off its figure */
    } rows[] = {{"4.9us", 92.56}, {"6.8us", 91.40}, {"8us", 90}, {"19us", 80}};
    char native[32], result[32];
    step_us("64", "0", native); /* learns the kernels */
    double near_us = step_us("64", "0", native);

    printf("a step of batch 64 takes %.0f us as near as the GPU is\n", near_us);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double kept = 100 * near_us / step_us("64", rows[i].distance, result);

        printf("%-6s keeps %.2f %%, paper %.2f %%\n", rows[i].distance, kept, rows[i].kept);
        cr_expect(fabs(kept - rows[i].kept) <= 3, "%s: %.2f %%, paper %.2f %%", rows[i].distance,
                  kept, rows[i].kept);
        cr_expect_str_eq(result, native);
    }
}

Test(distance_live, larger_batches_lose_less_speed)
{
    static const struct {
        const char *batch;
        double kept;
    } rows[] = {{"32", 85.2}, {"64", 92.7}, {"128", 95.5}};
    char checksum[32];
    double before = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double near_us = step_us(rows[i].batch, "0", checksum);
        double kept = 100 * near_us / step_us(rows[i].batch, "4.9us", checksum);

        printf("batch %-3s at 4.9us keeps %.2f %%, paper %.1f %%\n", rows[i].batch, kept,
               rows[i].kept);
        cr_expect_gt(kept, before);
        before = kept;
    }
}

/* ---- where it cannot be --------------------------------------------------------------------- */

/* The program runs without the distance, and one line says why. */
static void goes_without(const char *preload, const char *why)
{
    const char *const argv[] = {
        CUTIN,     "run", "--sim", "--no-daemon", BIN_DIR "/examples/be_training",
        "--steps", "2",   NULL};
    const char *const env[] = {"CUTIN_DISTANCE_US=8", preload, NULL};
    struct process *p = process_run(argv, env, 60);
    const char *said = strstr(process_err(p), why);

    cr_expect_eq(p->status, 0, "%s", process_err(p));
    cr_assert(said, "%s", process_err(p));
    cr_expect_null(strstr(said + 1, why), "%s", process_err(p));
    process_free(p);
}

Test(distance_live, missing_library_warns_once)
{
    goes_without(NULL, "CUTIN_DISTANCE_US has no effect");
}

Test(distance_live, a_library_of_another_release_is_not_used)
{
    goes_without("LD_PRELOAD=" LIB_DIR "/tests/libfront_other.so",
                 "it has version 2, libcutin.so needs 1");
}
