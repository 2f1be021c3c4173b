/*
 * spans.c - how long kernels took by themselves, computed from when they were on the GPU.
 */
#include "tools/lab/record/spans.h"

#include <criterion/criterion.h>

enum { MOST = 64 };

static struct span list[MOST];
static uint64_t took[MOST];
static size_t n;

static void begin(void)
{
    n = 0;
}

TestSuite(spans, .init = begin);

static void add(uint32_t stream, uint64_t shape, uint64_t from_ns, uint64_t until_ns)
{
    list[n] =
        (struct span){.from_ns = from_ns, .until_ns = until_ns, .shape = shape, .stream = stream};
    list[n].took_ns = &took[n];
    n++;
}

Test(spans, kernels_of_one_stream_took_their_whole_span)
{
    add(1, 1, 0, 100);
    add(1, 1, 100, 300);
    add(1, 2, 300, 310);
    spans_estimate(list, n);
    cr_expect_eq(took[2], 10);
    cr_expect_eq(took[0], 100, "what nobody kept waiting took all of its time");
    cr_expect_eq(took[1], 200);
    cr_expect_eq(spans_busy_ns(list, n), 310);
}

/* Stream 1 uses all multiprocessors; a kernel of 3 ns comes in between each time. */
Test(spans, kernel_time_excludes_wait_for_another_stream)
{
    for (uint64_t k = 0; k < 16; k++) {
        uint64_t at = k * 203;
        add(1, 1, k ? at - 3 : 0, at + 200);
        add(2, 2, at + 10 * k, at + 203);
    }
    spans_estimate(list, n);
    for (uint64_t k = 0; k < 16; k++) {
        cr_expect_eq(took[2 * k], 200, "%lu", (unsigned long)took[2 * k]);
        cr_expect_eq(took[2 * k + 1], 3, "%lu", (unsigned long)took[2 * k + 1]);
    }
    cr_expect_eq(spans_busy_ns(list, n), 16 * 203);
}

/* The kernels overlap by chance, and none of them has waited. */
Test(spans, overlap_counts_per_kernel_but_once_in_busy_time)
{
    for (uint64_t k = 0; k < 8; k++) {
        add(1, 1, k * 100, (k + 1) * 100);
        add(2, 1, k * 100 + 5, (k + 1) * 100 + 5);
    }
    spans_estimate(list, n);
    for (size_t i = 0; i < n; i++)
        cr_expect(took[i] >= 95 && took[i] <= 100, "%lu", (unsigned long)took[i]);
    cr_expect_eq(spans_busy_ns(list, n), 805);
}
