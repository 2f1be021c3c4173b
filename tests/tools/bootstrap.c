/*
 * bootstrap.c - intervals contain the true value as often as stated; fewer samples widen them.
 */
#include "tools/cutin/statistics/random.h"
#include "tools/cutin/statistics/figures.h"

#include <criterion/criterion.h>
#include <math.h>

enum { N = 400, BLOCKS = 10, RUNS = 200 };

static const double percents[] = {50, 99};
static uint64_t ns[N];
static uint32_t block_end[BLOCKS];
static double drawn[2][BOOTSTRAP_RESAMPLES];

static void blocks_make(uint32_t n)
{
    for (uint32_t i = 0; i < BLOCKS; i++)
        block_end[i] = n * (i + 1) / BLOCKS;
}

static struct bootstrap_set set_of(uint32_t n)
{
    blocks_make(n);
    return (struct bootstrap_set){ns, n, block_end, BLOCKS};
}

/* Draws exponential samples of mean 1 ms, whose median is known. */
static void draw(uint64_t seed, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        ns[i] = (uint64_t)(1e6 * random_exponential(&seed));
}

static struct interval interval_of(uint32_t n, int k)
{
    struct bootstrap_set s = set_of(n);

    cr_assert_eq(bootstrap_percentiles(&s, percents, 2, 1, 1, drawn), 0);
    return bootstrap_interval(drawn[k], bootstrap_resamples(n));
}

/* 190 of 200 are expected, and somewhat more because rounds are resampled, too. */
Test(bootstrap, intervals_cover_the_true_median_as_stated)
{
    int held = 0;

    for (uint64_t run = 1; run <= RUNS; run++) {
        struct interval i;
        draw(run, N);
        i = interval_of(N, 0);
        held += i.least <= 1000 * log(2) && 1000 * log(2) <= i.most;
    }
    cr_expect_geq(held, RUNS * 92 / 100, "%d of %d", held, RUNS);
}

Test(bootstrap, more_samples_narrow_the_interval)
{
    struct interval few, many;

    draw(1, N);
    few = interval_of(N / 8, 0);
    many = interval_of(N, 0);
    cr_expect_lt(many.most - many.least, (few.most - few.least) * 0.7);
}

/* Differences between rounds widen the interval, however many samples each round has. */
Test(bootstrap, differing_rounds_widen_the_interval)
{
    struct interval even, uneven;

    draw(1, N);
    even = interval_of(N, 0);
    for (uint32_t i = 0; i < N; i++)
        ns[i] += i / (N / BLOCKS) % 2 ? 1000000 : 0;
    uneven = interval_of(N, 0);
    cr_expect_gt(uneven.most - uneven.least, 1.5 * (even.most - even.least));
}

Test(bootstrap, equal_samples_give_zero_width_interval)
{
    struct interval i;

    for (uint32_t k = 0; k < N; k++)
        ns[k] = 5000;
    i = interval_of(N, 1);
    cr_expect_eq(i.least, 5);
    cr_expect_eq(i.most, 5);
}

/* A mode twice as slow in each round is so with little doubt, however much rounds differ. */
Test(bootstrap, equal_seeds_resample_the_same_rounds)
{
    static double other[2][BOOTSTRAP_RESAMPLES], ratio[BOOTSTRAP_RESAMPLES];
    struct bootstrap_set s;
    struct interval i;

    for (uint32_t k = 0; k < N; k++)
        ns[k] = 1000 * (1 + k / (N / BLOCKS));
    s = set_of(N);
    cr_assert_eq(bootstrap_percentiles(&s, percents, 2, 1, 1, drawn), 0);
    for (uint32_t k = 0; k < N; k++)
        ns[k] *= 2;
    cr_assert_eq(bootstrap_percentiles(&s, percents, 2, 1, 2, other), 0);
    for (uint32_t k = 0; k < BOOTSTRAP_RESAMPLES; k++)
        ratio[k] = other[1][k] / drawn[1][k];
    i = bootstrap_interval(ratio, BOOTSTRAP_RESAMPLES);
    cr_expect_eq(i.least, 2);
    cr_expect_eq(i.most, 2);
}

/* With so few samples all of them are below the percentile in one run of twenty. */
Test(bootstrap, a_percentile_needs_samples_beyond_it)
{
    cr_expect_eq(figures_least_samples(50), 5);
    cr_expect_eq(figures_least_samples(99), 299);
    cr_expect_eq(figures_least_samples(99.9), 2995);
    cr_expect_eq(figures_least_samples(100), 1);
    cr_expect_eq(figures_least_samples(0), 1);
}
