/*
 * histogram.c - durations in buckets: where they go, and what quantiles are.
 */
#include <criterion/criterion.h>

#include "scheduler/wire/histogram.h"

Test(histogram, buckets_are_contiguous_and_hold_their_durations)
{
    for (uint32_t i = 0; i + 1 < HISTOGRAM_BUCKETS; i++) {
        uint64_t begin = histogram_begin_ns(i), next = histogram_begin_ns(i + 1);

        cr_assert_lt(begin, next);
        cr_assert_eq(histogram_bucket(begin), i, "bucket %u", i);
        cr_assert_eq(histogram_bucket(next - 1), i, "bucket %u", i);
        cr_assert(i < 4 || (double)(next - begin) <= 0.25 * (double)begin, "bucket %u", i);
    }
    cr_assert_eq(histogram_bucket(0), 0);
    cr_assert_eq(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

Test(histogram, quantiles_are_right_to_a_bucket)
{
    uint32_t buckets[HISTOGRAM_BUCKETS] = {0};
    uint64_t p50, p99;

    cr_assert_eq(histogram_quantile_ns(buckets, 0.5), 0, "nothing was counted");
    for (uint64_t us = 1; us <= 1000; us++)
        buckets[histogram_bucket(us * 1000)]++;
    cr_assert_eq(histogram_count(buckets), 1000);
    p50 = histogram_quantile_ns(buckets, 0.5);
    p99 = histogram_quantile_ns(buckets, 0.99);
    cr_assert(p50 > 400000 && p50 < 600000, "%lu", (unsigned long)p50);
    cr_assert(p99 > 850000 && p99 < 1150000, "%lu", (unsigned long)p99);
    cr_assert(histogram_quantile_ns(buckets, 0) < 1300);
    cr_assert(histogram_quantile_ns(buckets, 1) >= p99);
}
