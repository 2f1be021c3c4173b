/*
 * distance_model.c - the arithmetic of a GPU at a distance, against the figures of its paper.
 */
#include "tools/lab/distance/model.h"

#include <criterion/criterion.h>

static struct distance at(uint32_t rtt_ns)
{
    return (struct distance){.rtt_ns = rtt_ns, .tags = 140};
}

Test(distance_model, delay_is_the_excess_round_trip)
{
    const struct distance prototype = at(6800), native = at(1200), nearer = at(100);

    cr_expect_eq(distance_delta_ns(&prototype), 5600);
    cr_expect_eq(distance_delta_ns(&native), 0);
    cr_expect_eq(distance_delta_ns(&nearer), 0);
}

static void reads_at(uint32_t rtt_ns, double gbs)
{
    const struct distance d = at(rtt_ns);
    double got = 1e9 / (double)distance_read_ns(&d, 1000000000);

    cr_expect(got > gbs * 0.998 && got < gbs * 1.002, "%u ns: %.3f GB/s, not %.3f", rtt_ns, got,
              gbs);
}

Test(distance_model, read_rates_match_the_paper)
{
    reads_at(4900, 3.66);
    reads_at(6800, 2.635);
}

/* ---- what goes in front of a copy ------------------------------------------------------------ */

static const struct distance_link near = {.fixed_ns = 2000, .bytes_per_us = 25000};

static uint64_t all_ns(const struct distance_fill *f, uint64_t bytes)
{
    return f->delay_ns + (f->whole + 1) * distance_native_ns(&near, bytes) +
           (f->part ? distance_native_ns(&near, f->part) : 0);
}

Test(distance_model, copy_is_stretched_to_the_time_of_its_reads)
{
    const struct distance d = at(6800);

    for (uint64_t bytes = 64; bytes <= 1u << 28; bytes *= 2)
        for (int repeat = 0; repeat < 2; repeat++) {
            struct distance_fill f = distance_fill(&d, &near, bytes, repeat);
            uint64_t native = distance_native_ns(&near, bytes), read = distance_read_ns(&d, bytes);
            uint64_t wanted = 5600 + (read > native ? read : native), got = all_ns(&f, bytes);

            cr_expect(got >= wanted - 2 && got <= wanted + 2, "%lu bytes: %lu ns, not %lu",
                      (unsigned long)bytes, (unsigned long)got, (unsigned long)wanted);
            cr_expect(f.part <= bytes && (repeat || (!f.whole && !f.part)));
        }
}

Test(distance_model, copy_is_repeated_at_most_64_times)
{
    const struct distance d = at(10000000);
    struct distance_fill f = distance_fill(&d, &near, 1 << 20, true);

    cr_expect_eq(f.whole, 64);
    cr_expect_eq(f.part, 0);
    cr_expect_geq(all_ns(&f, 1 << 20), distance_read_ns(&d, 1 << 20));
}

Test(distance_model, small_copy_gets_only_a_delay)
{
    const struct distance d = at(4900);
    struct distance_fill f = distance_fill(&d, &near, 4096, true);

    cr_expect_eq(f.delay_ns, 3700);
    cr_expect_eq(f.whole, 0);
    cr_expect_eq(f.part, 0);
}
