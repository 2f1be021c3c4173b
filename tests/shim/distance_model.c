/*
 * distance_model.c - the arithmetic of a GPU at a distance, against the figures of its paper.
 */
#include "shim/path/distance_model.h"

#include <criterion/criterion.h>

static struct distance at(uint32_t rtt_ns)
{
    return (struct distance){.rtt_ns = rtt_ns, .tags = 140};
}

Test(distance_model, delays_by_what_the_round_trip_is_longer)
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

Test(distance_model, reads_at_the_papers_rates)
{
    reads_at(4900, 3.66);
    reads_at(6800, 2.635);
}
