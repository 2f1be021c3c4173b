/*
 * hdr.c - count in buckets of three digits (see hdr.h).
 */
#include "hdr.h"

#include <inttypes.h>
#include <math.h>

enum { FIRST_BITS = 11 }; /* 2 * HDR_HALF = 2^11 */

uint32_t hdr_bucket(uint64_t ns)
{
    /* The doubling that a value lies in; the first is linear. */
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

/* What a bucket stands for in a sum. */
static double middle_ns(uint32_t bucket)
{
    uint64_t least = hdr_least_ns(bucket);

    return (double)(least + (hdr_most_ns(bucket) + 1 - least) / 2);
}

void hdr_add(struct hdr *h, uint64_t ns)
{
    h->bucket[hdr_bucket(ns)]++;
    h->min_ns = h->count++ && h->min_ns < ns ? h->min_ns : ns;
    h->max_ns = h->max_ns > ns ? h->max_ns : ns;
}

double hdr_mean_ns(const struct hdr *h)
{
    double sum = 0;

    for (uint32_t i = 0; i < HDR_BUCKETS; i++)
        sum += (double)h->bucket[i] * middle_ns(i);
    return h->count ? sum / (double)h->count : 0;
}

/* ---- the percentile distribution ------------------------------------------------------------ */

enum { TICKS = 5 }; /* lines for each halving of what is left to 100 percent */

void hdr_print(const struct hdr *h, FILE *out)
{
    double level = 0, reached, mean = hdr_mean_ns(h), squares = 0;
    uint64_t sum = 0;

    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    for (uint32_t i = 0; i < HDR_BUCKETS && sum < h->count; i++) {
        if (h->bucket[i] == 0)
            continue;
        sum += h->bucket[i];
        reached = 100.0 * (double)sum / (double)h->count;
        while (level <= reached && level < 100 && sum < h->count) {
            fprintf(out, "%12.3f %2.12f %10" PRIu64 " %14.2f\n", (double)hdr_most_ns(i) / 1000,
                    level / 100, sum, 1 / (1 - level / 100));
            level += 100 / (TICKS * pow(2, floor(log2(100 / (100 - level))) + 1));
        }
        if (sum == h->count)
            fprintf(out, "%12.3f %2.12f %10" PRIu64 "\n", (double)hdr_most_ns(i) / 1000, 1.0, sum);
    }
    for (uint32_t i = 0; i < HDR_BUCKETS; i++)
        squares += (double)h->bucket[i] * pow(middle_ns(i) - mean, 2);
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n", mean / 1000,
            h->count ? sqrt(squares / (double)h->count) / 1000 : 0);
    fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n", (double)h->max_ns / 1000,
            h->count);
    fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n", HDR_DOUBLINGS, 2 * HDR_HALF);
}
