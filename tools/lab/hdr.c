/*
 * hdr.c - counts sorted samples in buckets of three digits (see hdr.h).
 */
#include "hdr.h"

#include <math.h>

enum { FIRST_BITS = 11 }; /* 2 * HDR_HALF = 2^11 */

uint32_t hdr_bucket(uint64_t ns)
{
    /* Finds the doubling of the value; the first one is linear. */
    uint32_t bits = 64 - (uint32_t)__builtin_clzll(ns | 1);

    uint32_t d = bits > FIRST_BITS ? bits - FIRST_BITS : 0;

    return d < HDR_DOUBLINGS ? d * HDR_HALF + (uint32_t)(ns >> d) : HDR_BUCKETS - 1;
}

uint64_t hdr_least_ns(uint32_t bucket)
{
    uint32_t d = bucket < 2 * HDR_HALF ? 0 : bucket / HDR_HALF - 1;

    return (uint64_t)(bucket - d * HDR_HALF) << d;
}

uint64_t hdr_most_ns(uint32_t bucket)
{
    return bucket + 1 < HDR_BUCKETS ? hdr_least_ns(bucket + 1) - 1
                                    : (UINT64_C(1) << (FIRST_BITS + HDR_DOUBLINGS - 1)) - 1;
}

/* The value that stands for a bucket in a sum. */
static double middle_ns(uint32_t bucket)
{
    uint64_t least = hdr_least_ns(bucket);

    return (double)(least + (hdr_most_ns(bucket) + 1 - least) / 2);
}

size_t hdr_bucket_end(const uint64_t *sorted_ns, size_t n, size_t from)
{
    uint32_t bucket = hdr_bucket(sorted_ns[from]);

    while (from < n && hdr_bucket(sorted_ns[from]) == bucket)
        from++;
    return from;
}

double hdr_mean_ns(const uint64_t *ns, size_t n)
{
    double sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += middle_ns(hdr_bucket(ns[i]));
    return n ? sum / (double)n : 0;
}

/* ---- the percentile distribution ------------------------------------------------------------ */

enum { TICKS = 5 }; /* lines for each halving of the distance to 100 percent */

void hdr_print(const uint64_t *sorted_ns, size_t n, FILE *out)
{
    double level = 0, mean = hdr_mean_ns(sorted_ns, n), squares = 0;

    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    for (size_t i = 0, sum; i < n; i = sum) {
        uint32_t bucket = hdr_bucket(sorted_ns[i]);
        double most_us = (double)hdr_most_ns(bucket) / 1000, reached;

        sum = hdr_bucket_end(sorted_ns, n, i);
        reached = 100.0 * (double)sum / (double)n;
        squares += (double)(sum - i) * pow(middle_ns(bucket) - mean, 2);
        while (level <= reached && level < 100 && sum < n) {
            fprintf(out, "%12.3f %2.12f %10zu %14.2f\n", most_us, level / 100, sum,
                    1 / (1 - level / 100));
            level += 100 / (TICKS * pow(2, floor(log2(100 / (100 - level))) + 1));
        }
        if (sum == n)
            fprintf(out, "%12.3f %2.12f %10zu\n", most_us, 1.0, sum);
    }
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean / 1000,
            n ? sqrt(squares / (double)n) / 1000 : 0);
    fprintf(out, "#[Max     = %12.3f, Total count    = %12zu]\n",
            n ? (double)sorted_ns[n - 1] / 1000 : 0, n);
    fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n", HDR_DOUBLINGS, 2 * HDR_HALF);
}
