/*
 * kernel_times_file.c - the table that is written of a workload's kernels, read as the simulator
 * reads it.
 */
#include "tools/lab/record/kernel_times.h"
#include "tools/simgpu/device/times.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static char path[] = "/tmp/cutin-times.XXXXXX", why[256];

static void start(void)
{
    close(mkstemp(path));
}

static void end(void)
{
    unlink(path);
}

TestSuite(kernel_times_file, .init = start, .fini = end);

static void add(struct workload *w, const char *name, uint32_t blocks, uint64_t ns)
{
    struct workload_op op = {.kind = WORKLOAD_KERNEL, .block = {256, 1, 1}, .duration_ns = ns};

    for (int i = 0; i < 3; i++)
        op.grid[i] = i ? 1 : blocks;
    op.name = (uint32_t)workload_kernel(w, name);
    cr_assert_eq(workload_add(w, &op), 0);
}

static uint64_t ns(struct times *t, const char *name, uint32_t blocks)
{
    struct times_shape shape = {.grid = {blocks, 1, 1}, .block = {256, 1, 1}, .waves = 9};

    return times_ns(times_of(t, name), &shape, 7);
}

Test(kernel_times_file, each_shape_has_lower_quartile_of_its_times)
{
    static const char strange[] = "#a[1]*?\\ b";
    static struct times *t; /* it is never closed */
    struct workload w = {0};
    size_t lines;

    for (uint64_t i = 0; i < 8; i++)
        add(&w, "gemm", 100, 50000 + (i * 5 % 8) * 1000);
    add(&w, "gemm", 200, 90000);
    add(&w, "gemm", 200, UINT64_MAX);
    add(&w, strange, 1, 1234);
    add(&w, "never", 1, UINT64_MAX);
    add(&w, "cuGraphLaunch", 1, 5000);
    cr_assert_eq(kernel_times_write(&w, path, &lines, why, sizeof(why)), 0, "%s", why);
    cr_expect_eq(lines, 3);
    t = times_open(path);
    cr_assert_not_null(t);
    cr_expect_eq(ns(t, "gemm", 100), 52000);
    cr_expect_eq(ns(t, "gemm", 200), 90000);
    cr_expect_eq(ns(t, "gemm", 5), 52000, "what took most time stands for the rest");
    cr_expect_eq(ns(t, strange, 1), 1234);
    cr_expect_eq(ns(t, "#a1xy\\ b", 1), 7, "it is no pattern");
    cr_expect_eq(ns(t, "never", 1), 7);
    cr_expect_eq(ns(t, "cuGraphLaunch", 1), 7);
    workload_free(&w);
}

Test(kernel_times_file, no_file_is_written_without_timed_kernels)
{
    struct workload w = {0};
    size_t lines;

    unlink(path);
    add(&w, "never", 1, UINT64_MAX);
    cr_expect_eq(kernel_times_write(&w, path, &lines, why, sizeof(why)), -ENODATA);
    cr_expect_not_null(strstr(why, "no kernel was timed"), "%s", why);
    cr_expect_neq(access(path, F_OK), 0);
    add(&w, "k", 1, 1000);
    cr_expect_eq(kernel_times_write(&w, "/no/such/folder/x", &lines, why, sizeof(why)), -ENOENT);
    workload_free(&w);
}

/* Like a full disk. */
Test(kernel_times_file, full_disk_leaves_the_old_file)
{
    struct workload w = {0};
    struct rlimit size;
    size_t lines;
    FILE *f = fopen(path, "w");

    cr_assert(f && fputs("before", f) >= 0 && fclose(f) == 0);
    add(&w, "gemm", 100, 50000);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &size), 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){16, size.rlim_max}), 0);
    int rc = kernel_times_write(&w, path, &lines, why, sizeof(why));
    setrlimit(RLIMIT_FSIZE, &size);
    cr_expect_eq(rc, -EFBIG);
    char there[8] = "";
    f = fopen(path, "r");
    cr_expect(f && fgets(there, sizeof(there), f) && fclose(f) == 0);
    cr_expect_str_eq(there, "before");
    workload_free(&w);
}
