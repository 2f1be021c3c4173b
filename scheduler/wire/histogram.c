/* histogram.c - see histogram.h. */
#include "scheduler/wire/histogram.h"

#define UNIT_SHIFT 8u /* 256 ns */

uint32_t histogram_bucket(uint64_t ns)
{
    uint64_t units = ns >> UNIT_SHIFT;
    uint32_t top, bucket;

    if (units < 4)
        return (uint32_t)units;
    /* The position of the highest bit, and the two bits below it. */
    top = 63 - (uint32_t)__builtin_clzll(units);
    bucket = (top - 1) * 4 + (uint32_t)(units >> (top - 2) & 3);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_begin_ns(uint32_t bucket)
{
    uint32_t top = bucket / 4 + 1;

    if (bucket < 4)
        return (uint64_t)bucket << UNIT_SHIFT;
    return (4ull + bucket % 4) << (top - 2) << UNIT_SHIFT;
}

uint64_t histogram_count(const uint32_t buckets[HISTOGRAM_BUCKETS])
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        sum += buckets[i];
    return sum;
}

uint64_t histogram_quantile_ns(const uint32_t buckets[HISTOGRAM_BUCKETS], double quantile)
{
    uint64_t count = histogram_count(buckets), seen = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += buckets[i];
        if (seen > 0 && (double)seen >= quantile * (double)count)
            return (histogram_begin_ns(i) + histogram_begin_ns(i + 1)) / 2;
    }
    return 0;
}
