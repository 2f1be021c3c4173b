/*
 * hdr.h - a high dynamic range histogram: counts of values from 1 ns to 73 minutes, exact to three
 * digits everywhere.
 *
 * The layout is HdrHistogram's with three digits (hdrhistogram.org, public domain): 2048 buckets of
 * 1 ns, and for each doubling above them 1024 more, each twice as wide. So histograms of any runs
 * can be added up bucket by bucket, also those of other programs with the same digits.
 */
#ifndef CUTIN_TOOLS_LAB_HDR_H
#define CUTIN_TOOLS_LAB_HDR_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    HDR_DIGITS = 3,
    HDR_HALF = 1024,    /* buckets for each doubling */
    HDR_DOUBLINGS = 32, /* with the first, linear one: up to 2^42 ns */
    HDR_BUCKETS = (HDR_DOUBLINGS + 1) * HDR_HALF
};

/* A value above the range counts in the last bucket. */
uint32_t hdr_bucket(uint64_t ns);
/* The smallest and the greatest value of a bucket. */
uint64_t hdr_least_ns(uint32_t bucket);
uint64_t hdr_most_ns(uint32_t bucket);
/* The index after the last of the sorted samples in the bucket of the one at `from`. */
size_t hdr_bucket_end(const uint64_t *sorted_ns, size_t n, size_t from);
double hdr_mean_ns(const uint64_t *ns, size_t n);
/* Prints HdrHistogram's percentile distribution in microseconds, which its plotters read. */
void hdr_print(const uint64_t *sorted_ns, size_t n, FILE *out);

#endif
