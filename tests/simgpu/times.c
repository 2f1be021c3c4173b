/*
 * times.c - the table of kernels' times: which line counts, what it says by grid, and what is said
 * about lines that make no sense.
 */
#include "tools/simgpu/device/times.h"

#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/simgpu-times.XXXXXX";

static void start(void)
{
    cr_redirect_stderr();
    close(mkstemp(path));
}

static void end(void)
{
    unlink(path);
}

TestSuite(times, .init = start, .fini = end);

/* Tables are never freed; the leak checker finds them by these pointers. */
static struct times *opened[4];

static struct times *open_text(const char *text)
{
    FILE *f = fopen(path, "w");
    static unsigned n;
    struct times *t;

    fputs(text, f);
    fclose(f);
    t = times_open(path);
    cr_assert_not_null(t);
    opened[n++ % 4] = t;
    return t;
}

static uint64_t ns(struct times *t, const char *name, uint32_t blocks, uint64_t waves)
{
    struct times_shape shape = {.grid = {blocks, 1, 1}, .block = {256, 1, 1}, .waves = waves};

    return times_ns(times_of(t, name), &shape, 7);
}

Test(times, first_matching_line_counts)
{
    struct times *t = open_text("# a comment\n"
                                "\n"
                                "ampere_*gemm* 3 20.5\n"
                                "  *gemm*\t10\n"
                                "exact 0.001\n");

    cr_expect_eq(ns(t, "ampere_sgemm_128x64_nn", 100, 1), 23500);
    cr_expect_eq(ns(t, "ampere_sgemm_128x64_nn", 9000, 4), 3000 + 4 * 20500);
    cr_expect_eq(ns(t, "volta_sgemm_128x64_nn", 9000, 4), 10000, "no time for waves");
    cr_expect_eq(ns(t, "exact", 1, 1), 1);
    cr_expect_eq(ns(t, "exactly", 1, 1), 7, "patterns are of whole names");
    cr_expect_eq(ns(t, "other", 1, 1), 7);
    fflush(stderr);
    cr_expect_stderr_eq_str("");
}

Test(times, line_can_match_one_shape)
{
    struct times *t = open_text("k 5 0 grid=16,1,1 block=256,1,1\n"
                                "k 6 grid=16,1,1\n"
                                "k 7 grid=32,1,1 block=128,1,1\n"
                                "k 8 1\n");

    cr_expect_eq(ns(t, "k", 16, 1), 5000);
    cr_expect_eq(ns(t, "k", 32, 1), 9000);
    cr_expect_eq(ns(t, "k", 17, 2), 10000);
}

Test(times, patterns_follow_fnmatch)
{
    struct times *t = open_text("k[12]_? 1\n"
                                "a\\*b 2\n"
                                "\\#x 3\n");

    cr_expect_eq(ns(t, "k2_x", 1, 1), 1000);
    cr_expect_eq(ns(t, "k3_x", 1, 1), 7);
    cr_expect_eq(ns(t, "a*b", 1, 1), 2000);
    cr_expect_eq(ns(t, "axb", 1, 1), 7);
    cr_expect_eq(ns(t, "#x", 1, 1), 3000);
}

static void said(const char *text, const char *message)
{
    char expected[512];

    open_text(text);
    fflush(stderr);
    snprintf(expected, sizeof(expected),
             "simgpu: SIMGPU_KERNEL_TIMES: %s:%s; the line is left out\n", path, message);
    cr_expect_stderr_eq_str(expected);
}

Test(times, line_without_time_is_reported)
{
    said("a 1\nk\n", "2: k has no time after it");
}

Test(times, time_with_unit_is_reported)
{
    said("k 3us\n", "1: 3us is not a time in microseconds from 0 to 10000000");
}

Test(times, negative_time_is_reported)
{
    said("k -1\n", "1: -1 is not a time in microseconds from 0 to 10000000");
}

Test(times, nan_time_is_reported)
{
    said("k nan\n", "1: nan is not a time in microseconds from 0 to 10000000");
}

Test(times, incomplete_shape_is_reported)
{
    said("k 1 1 grid=1,2\n", "1: grid=1,2 is not grid=X,Y,Z");
}

Test(times, extra_word_is_reported)
{
    said("k 1 1 1\n", "1: 1 is neither grid=X,Y,Z nor block=X,Y,Z");
}

Test(times, valid_lines_count_beside_invalid_ones)
{
    struct times *t = open_text("k x\nk 2\n");

    cr_expect_eq(ns(t, "k", 1, 1), 2000);
}

Test(times, messages_stop_after_eight)
{
    char text[512] = "", expected[2048];
    int n = 0;

    for (int i = 0; i < 20; i++)
        strcat(text, "k x\n");
    for (int i = 1; i <= 8; i++)
        n += snprintf(
            expected + n, sizeof(expected) - (size_t)n,
            "simgpu: SIMGPU_KERNEL_TIMES: %s:%d: x is not a time in microseconds from 0 to "
            "10000000; the line is left out\n",
            path, i);
    snprintf(expected + n, sizeof(expected) - (size_t)n,
             "simgpu: SIMGPU_KERNEL_TIMES: %s: 12 more lines make no sense\n", path);
    open_text(text);
    fflush(stderr);
    cr_expect_stderr_eq_str(expected);
}

Test(times, missing_file_is_reported)
{
    cr_expect_null(times_open("/no/such/file"));
    fflush(stderr);
    cr_expect_stderr_eq_str(
        "simgpu: SIMGPU_KERNEL_TIMES=/no/such/file cannot be read: No such file or "
        "directory; kernels take SIMGPU_KERNEL_US\n");
}

/* The file that is installed has no mistake, and long kernels are longer than short ones. */
Test(times, shipped_table_parses_and_orders_kernels)
{
    struct times *t = opened[0] = times_open(KERNEL_TIMES);

    cr_assert_not_null(t);
    fflush(stderr);
    cr_expect_stderr_eq_str("");
    cr_expect_gt(ns(t, "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tt", 432, 1),
                 ns(t,
                    "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEE"
                    "St5arrayIPcLm3EELb0EEEviT0_T1_",
                    432, 1));
    cr_expect_gt(ns(t, "triton_red_fused_native_layer_norm_0", 9000, 6),
                 ns(t, "triton_red_fused_native_layer_norm_0", 100, 1));
    cr_expect_neq(ns(t, "anything", 1, 1), 7, "the last line is for the rest");
}
