/*
 * kernel_times.c - kernels that the simulator does not know take the times of a table. A recording
 * of a program is such a table, too.
 */
#include "tests/integration/gpu.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(kernel_times, .init = sandbox_enter, .fini = sandbox_leave);

#define PROGRAM BIN_DIR "/tests/program_names"
#define GEMM    "ampere_sgemm_128x64_nn"
#define LAUNCHES                                                                                   \
    "first", "1", GEMM, "100", GEMM, "2000", "_Z3addPfi", "5000", "odd$1", "3", "other", "1"

/* The path of a file in the sandbox, in a buffer that stays valid. */
static const char *path_of(const char *name)
{
    static char paths[8][256];
    static unsigned n;

    cr_assert_lt(n, 8);
    snprintf(paths[n], sizeof(paths[n]), "%s", sandbox_path(name));
    return paths[n++];
}

static const char *table_write(const char *name, const char *text)
{
    const char *path = path_of(name);
    FILE *f = fopen(path, "w");

    cr_assert_not_null(f);
    fputs(text, f);
    fclose(f);
    return path;
}

static void run(const char *const argv[], const char *table, const char *log)
{
    char times[512], device_log[512];
    const char *const env[] = {SIMULATOR, "SIMGPU_KERNEL_US=70", times, device_log, NULL};
    struct process *p;

    snprintf(times, sizeof(times), "SIMGPU_KERNEL_TIMES=%s", table);
    snprintf(device_log, sizeof(device_log), "SIMGPU_LOG=%s", log);
    p = process_run(argv, env, 60);
    cr_assert_eq(p->status, 0, "%s", process_err(p));
    cr_expect_null(strstr(process_err(p), "simgpu:"), "%s", process_err(p));
    process_free(p);
}

/* What each launch of this kernel and grid costs by the log; 0: there is none, or they differ. */
static uint64_t cost(const char *log, const char *name, const char *blocks)
{
    static char line[16384];
    char wanted[256], grid[32];
    FILE *f = fopen(log, "r");
    uint64_t ns = 0;

    cr_assert_not_null(f);
    snprintf(wanted, sizeof(wanted), " name=%s ", name);
    snprintf(grid, sizeof(grid), " grid=%s,1,1 ", blocks);
    while (fgets(line, sizeof(line), f)) {
        uint64_t one = strtoull(strstr(line, " cost=") + 6, NULL, 10);
        if (!strstr(line, wanted) || !strstr(line, grid))
            continue;
        if (ns && ns != one)
            ns = 0;
        else
            ns = one;
    }
    fclose(f);
    return ns;
}

/* The first kernel of a round runs until all others are in its stream, even on a slow machine: the
 * measured time of a kernel in an idle stream includes the gap in front of it. */
static const char model[] = "first 5000\n"
                            "odd\\$[0-9] 330\n"
                            "*gemm* 200 300\n"
                            "*add* 40 25\n";

Test(kernel_times, follow_the_table)
{
    const char *log = path_of("a.log");

    run((const char *[]){PROGRAM, "2", LAUNCHES, NULL}, table_write("a.times", model), log);
    cr_expect_eq(cost(log, GEMM, "100"), 500000);
    cr_expect_eq(cost(log, GEMM, "2000"), 200000 + 3 * 300000,
                 "108 multiprocessors hold 864 blocks");
    cr_expect_eq(cost(log, "_Z3addPfi", "5000"), 40000 + 6 * 25000);
    cr_expect_eq(cost(log, "odd$1", "3"), 330000);
    cr_expect_eq(cost(log, "other", "1"), 70000, "SIMGPU_KERNEL_US");
}

Test(kernel_times, default_selects_shipped_table)
{
    const char *log = path_of("a.log");

    run((const char *[]){PROGRAM, "2", LAUNCHES, NULL}, "default", log);
    cr_expect_gt(cost(log, GEMM, "2000"), cost(log, GEMM, "100"));
    cr_expect_gt(cost(log, GEMM, "100"), cost(log, "_Z3addPfi", "1"));
}

/* Events give milliseconds as floats, so a nanosecond or two are lost. */
static void alike(const char *a, const char *b, const char *name, const char *blocks)
{
    int64_t first = (int64_t)cost(a, name, blocks), second = (int64_t)cost(b, name, blocks);

    cr_expect_gt(first, 0, "%s", name);
    cr_expect_leq(llabs(first - second), 2, "%s: %ld, then %ld", name, (long)first, (long)second);
}

Test(kernel_times, recorded_table_reproduces_times)
{
    const char *a = path_of("a.log"), *b = path_of("b.log");
    const char *recorded = path_of("b.times");

    run((const char *[]){LAB, "record", "--sim", "-o", sandbox_path("w.cutw"), "--kernel-times",
                         recorded, "--", PROGRAM, "64", LAUNCHES, NULL},
        table_write("a.times", model), a);
    run((const char *[]){PROGRAM, "2", LAUNCHES, NULL}, recorded, b);
    alike(a, b, GEMM, "100");
    alike(a, b, GEMM, "2000");
    alike(a, b, "_Z3addPfi", "5000");
    alike(a, b, "odd$1", "3");
    alike(a, b, "other", "1");
}

Test(kernel_times, record_without_kernels_fails_and_writes_no_table)
{
    const char *path = sandbox_path("b.times");
    struct process *p =
        process_run((const char *[]){LAB, "record", "--sim", "-o", "/dev/null", "--kernel-times",
                                     path, "--", PROGRAM, "1", NULL},
                    NULL, 60);

    cr_expect_eq(p->status, 1, "%s", process_err(p));
    cr_expect_not_null(strstr(process_err(p), "no kernel was timed; it was not written"), "%s",
                       process_err(p));
    cr_expect_neq(access(path, F_OK), 0, "%s", process_err(p));
    process_free(p);
}
