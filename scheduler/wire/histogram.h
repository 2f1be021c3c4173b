/*
 * histogram.h - how long something took, in a fixed number of buckets.
 *
 * The first four buckets are 256 ns wide. Above them each doubling has four buckets, up to 7.5 s,
 * and the last bucket takes what is longer. So a quantile is right to about a tenth of itself.
 * Counting is one relaxed increment of the right bucket. Counts wrap; the difference of two
 * readings is what was counted in between.
 */
#ifndef CUTIN_SCHEDULER_WIRE_HISTOGRAM_H
#define CUTIN_SCHEDULER_WIRE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS 96u

/* Which bucket counts a duration. */
uint32_t histogram_bucket(uint64_t ns);
/* Where a bucket begins. */
uint64_t histogram_begin_ns(uint32_t bucket);
uint64_t histogram_count(const uint32_t buckets[HISTOGRAM_BUCKETS]);
/* The middle of the bucket that the quantile (0 to 1) falls into; 0 if nothing was counted. */
uint64_t histogram_quantile_ns(const uint32_t buckets[HISTOGRAM_BUCKETS], double quantile);

#endif
