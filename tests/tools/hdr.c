/*
 * hdr.c - histograms are exact to three digits.
 */
#include "tools/lab/hdr.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(hdr, buckets_are_contiguous)
{
    cr_expect_eq(hdr_least_ns(0), 0);
    for (uint32_t i = 0; i + 1 < HDR_BUCKETS; i++)
        cr_assert_eq(hdr_most_ns(i) + 1, hdr_least_ns(i + 1), "bucket %u", i);
    cr_expect_eq(hdr_most_ns(HDR_BUCKETS - 1), (UINT64_C(1) << 42) - 1);
}

Test(hdr, buckets_are_exact_to_three_digits)
{
    for (uint32_t i = 0; i < HDR_BUCKETS; i++) {
        uint64_t least = hdr_least_ns(i), most = hdr_most_ns(i);
        cr_assert_eq(hdr_bucket(least), i);
        cr_assert_eq(hdr_bucket(most), i);
        cr_assert((most - least) * 1000 <= least, "%u", i);
    }
}

/* The layout is that of HdrHistogram. */
Test(hdr, buckets_follow_the_hdrhistogram_layout)
{
    cr_expect_eq(hdr_bucket(2047), 2047);
    cr_expect_eq(hdr_bucket(2048), 2048);
    cr_expect_eq(hdr_bucket(2049), 2048);
    cr_expect_eq(hdr_bucket(4096), 3072);
    cr_expect_eq(hdr_bucket(UINT64_MAX), HDR_BUCKETS - 1);
}

/* Read as a plotter would: values and percentiles rise, and the last line has all samples. */
Test(hdr, printed_table_is_a_percentile_distribution)
{
    char line[128], *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    double value, percentile, last_value = 0, last_percentile = -1;
    unsigned long long count, last_count = 0;
    uint64_t ns[1000];

    for (size_t i = 0; i < 1000; i++)
        ns[i] = 1000 * (i + 1);
    cr_expect_eq(hdr_bucket_end((uint64_t[]){5000, 5003, 5004, 5008}, 4, 0), 2, "buckets of 4 ns");
    hdr_print(ns, 1000, f);
    fclose(f);
    f = fmemopen(text, size, "r");
    cr_assert(fgets(line, sizeof(line), f));
    cr_expect_str_eq(line, "       Value     Percentile TotalCount 1/(1-Percentile)\n");
    cr_assert(fgets(line, sizeof(line), f) && line[0] == '\n');
    while (fgets(line, sizeof(line), f) && line[0] != '#') {
        cr_assert_eq(sscanf(line, "%lf %lf %llu", &value, &percentile, &count), 3, "%s", line);
        cr_expect(value >= last_value && percentile > last_percentile && count >= last_count, "%s",
                  line);
        cr_expect_leq(percentile, (double)count / 1000 + 1e-9);
        last_value = value;
        last_percentile = percentile;
        last_count = count;
    }
    cr_expect_eq(last_percentile, 1);
    cr_expect_eq(last_count, 1000);
    cr_expect_str_eq(line, "#[Mean    =      500.505, StdDeviation   =      288.676]\n");
    cr_assert(fgets(line, sizeof(line), f));
    cr_expect_str_eq(line, "#[Max     =     1000.000, Total count    =         1000]\n");
    fclose(f);
    free(text);
}
