/*
 * arrivals.c - gaps have the distribution that their name says: the test of Kolmogorov and Smirnov
 * on gaps drawn with each of many seeds. They are the same in every run.
 */
#include "tools/cutin/statistics/arrivals.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 20000, MEAN_NS = 5000000, SEEDS = 20 };

static uint64_t gap_ns[N];
static char why[256];

static struct arrivals parsed(const char *text)
{
    struct arrivals a = {0};

    cr_assert_eq(arrivals_parse(&a, text, why, sizeof(why)), 0, "%s", why);
    return a;
}

static void draw(const char *text, uint64_t seed)
{
    struct arrivals a = parsed(text);

    cr_assert_eq(arrivals_draw(&a, MEAN_NS, seed, gap_ns, N, why, sizeof(why)), 0, "%s", why);
}

static int rising(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The greatest distance between the drawn distribution and the given one, times the root of N.
 * Sorts the gaps. */
static double ks(double (*below)(double means))
{
    double most = 0;

    qsort(gap_ns, N, sizeof(*gap_ns), rising);
    for (int i = 0; i < N; i++) {
        double f = below((double)gap_ns[i] / MEAN_NS);
        most = fmax(most, fmax(f - (double)i / N, (double)(i + 1) / N - f));
    }
    return most * sqrt(N);
}

static double exponential(double means)
{
    return 1 - exp(-means);
}

static double from_0_to_2(double means)
{
    return means / 2;
}

static double half_around_1(double means)
{
    return means - 0.5;
}

/* The gamma distribution of shape 4 is Erlang's. */
static double erlang_4(double means)
{
    double x = 4 * means;

    return 1 - exp(-x) * (1 + x + x * x / 2 + x * x * x / 6);
}

/* The gamma distribution of shape 1/2 is half the square of a normal variable. */
static double gamma_half(double means)
{
    return erf(sqrt(means / 2));
}

static const struct {
    const char *text;
    double (*below)(double means);
} kinds[] = {
    {"poisson", exponential}, {"uniform", from_0_to_2}, {"uniform:0.5", half_around_1},
    {"gamma:1", exponential}, {"gamma:4", erlang_4},    {"gamma:0.5", gamma_half},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

/* The number of refused draws. Even of the right distribution one in twenty is refused. */
static int refused(const char *text, double (*below)(double means))
{
    int n = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        draw(text, seed);
        n += ks(below) > 1.358;
    }
    return n;
}

Test(arrivals, gaps_follow_the_named_distribution)
{
    for (int k = 0; k < KINDS; k++) {
        int n = refused(kinds[k].text, kinds[k].below);
        cr_expect_leq(n, 4, "%s: %d of %d draws", kinds[k].text, n, SEEDS);
    }
}

Test(arrivals, ks_test_rejects_other_distributions)
{
    cr_expect_geq(refused("gamma:1.1", exponential), SEEDS - 1);
    cr_expect_geq(refused("uniform", exponential), SEEDS - 1);
    cr_expect_geq(refused("closed", exponential), SEEDS - 1);
}

/* The process has no memory: the length of a gap says nothing about the next one. */
Test(arrivals, successive_poisson_gaps_are_uncorrelated)
{
    double sum = 0;

    draw("poisson", 1);
    for (int i = 0; i + 1 < N; i++)
        sum += ((double)gap_ns[i] / MEAN_NS - 1) * ((double)gap_ns[i + 1] / MEAN_NS - 1);
    cr_expect_lt(fabs(sum / sqrt(N)), 3.3);
}

Test(arrivals, seed_determines_the_gaps)
{
    static uint64_t first[N];

    draw("poisson", 7);
    memcpy(first, gap_ns, sizeof(first));
    draw("poisson", 7);
    cr_expect_arr_eq(first, gap_ns, sizeof(first));
    draw("poisson", 8);
    cr_expect_arr_neq(first, gap_ns, sizeof(first));
}

Test(arrivals, uniform_without_spread_gives_equal_gaps)
{
    draw("uniform:0", 1);
    for (int i = 0; i < N; i++)
        cr_assert_eq(gap_ns[i], MEAN_NS);
}

Test(arrivals, only_closed_arrivals_are_a_closed_loop)
{
    static const char *const texts[ARRIVALS_KINDS] = {[ARRIVALS_POISSON] = "poisson",
                                                      [ARRIVALS_UNIFORM] = "uniform",
                                                      [ARRIVALS_GAMMA] = "gamma:2",
                                                      [ARRIVALS_TRACE] = "trace:a",
                                                      [ARRIVALS_CLOSED] = "closed"};

    for (int kind = 0; kind < ARRIVALS_KINDS; kind++) {
        struct arrivals a = parsed(texts[kind]);
        cr_expect_eq(a.kind, (enum arrivals_kind)kind, "%s", texts[kind]);
        cr_expect_eq(arrivals_is_open(&a), kind != ARRIVALS_CLOSED, "%s", texts[kind]);
    }
}

Test(arrivals, parsed_text_is_printed_unchanged)
{
    static const char *const texts[] = {"poisson", "uniform:0.5", "gamma:2.5", "trace:a:b",
                                        "closed"};
    char text[64];

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct arrivals a = parsed(texts[i]);
        cr_expect_str_eq(arrivals_text(&a, text, sizeof(text)), texts[i]);
    }
}

Test(arrivals, invalid_text_gives_one_line_error)
{
    static const char *const texts[] = {"",       "poison",  "poisson:1", "gamma",
                                        "gamma:", "gamma:0", "gamma:x",   "uniform:2",
                                        "trace",  "trace:",  "closed:1"};
    struct arrivals a;

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        why[0] = '\0';
        cr_expect_eq(arrivals_parse(&a, texts[i], why, sizeof(why)), -EINVAL, "%s", texts[i]);
        cr_expect(why[0] && !strchr(why, '\n'));
    }
}

static int draw_file(const char *text, uint32_t n)
{
    char path[] = "/tmp/cutin-arrivals-XXXXXX";
    int fd = mkstemp(path), rc;
    struct arrivals a = {.kind = ARRIVALS_TRACE, .path = path};

    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    rc = arrivals_draw(&a, MEAN_NS, 1, gap_ns, n, why, sizeof(why));
    unlink(path);
    return rc;
}

Test(arrivals, trace_gaps_come_from_lines_of_the_file)
{
    cr_assert_eq(draw_file("# ms\n0.5\n\n2\n2.25\n", 3), 0, "%s", why);
    cr_expect_eq(gap_ns[0], 500000);
    cr_expect_eq(gap_ns[1], 1500000);
    cr_expect_eq(gap_ns[2], 250000);
    cr_expect_eq(draw_file("1\n2\n", 3), -EINVAL);
    cr_expect_not_null(strstr(why, "has 2 arrivals"), "%s", why);
    cr_expect_eq(draw_file("1\n2 ms\n", 2), -EINVAL);
    cr_expect_not_null(strstr(why, "line 2"), "%s", why);
    cr_expect_eq(draw_file("2\n1\n", 2), -EINVAL);
}
