/*
 * figures.c - percentiles and histograms.
 */
#include "figures.h"
#include "random.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

int figures_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Of `n` samples, from 1 on. A rounding error may put the product just above a whole rank. */
static size_t rank_of(double percent, size_t n)
{
    return (size_t)fmax(ceil((double)n * percent / 100 - 1e-9), 1);
}

double figures_percentile_us(const uint64_t *sorted_ns, size_t n, double percent)
{
    return (double)sorted_ns[rank_of(percent, n) - 1] / 1000;
}

void figures_make(struct figures *f, uint64_t *ns, size_t n)
{
    *f = (struct figures){.samples = n};
    if (n == 0)
        return;
    qsort(ns, n, sizeof(*ns), figures_compare);
#define FIGURES_FILL(field, heading, percent) f->field = figures_percentile_us(ns, n, percent);
    FIGURES(FIGURES_FILL)
#undef FIGURES_FILL
    for (int percent = 0; percent < FIGURES_CDF; percent++)
        f->cdf_us[percent] = figures_percentile_us(ns, n, percent);
}

size_t figures_least_samples(double percent)
{
    if (percent <= 0 || percent >= 100)
        return 1;
    return (size_t)ceil(log(0.05) / log(percent / 100) - 1e-9);
}

enum { BAR = 20, MOST_BUCKETS = 60 };

/* Lower bounds 1, 1.5, 2, 3, 5, 7, 10, 15, ... microseconds; bucket 0 begins at 0. */
static uint64_t bucket_ns(int bucket)
{
    static const uint64_t steps[] = {0, 1000, 1500, 2000, 3000, 5000, 7000};
    uint64_t factor = 1;

    for (; bucket > 6; bucket -= 6)
        factor *= 10;
    return steps[bucket] * factor;
}

static size_t count_in(const struct histogram_column *c, int bucket)
{
    uint64_t from_ns = bucket_ns(bucket), to_ns = bucket_ns(bucket + 1);
    size_t count = 0;

    for (size_t i = 0; i < c->n; i++)
        count += c->ns[i] >= from_ns && c->ns[i] < to_ns;
    return count;
}

void histogram_print(FILE *out, const struct histogram_column *columns, size_t n)
{
    int first = MOST_BUCKETS - 1, last = first;

    for (int b = 0; b < MOST_BUCKETS; b++)
        for (size_t i = 0; i < n; i++)
            if (count_in(&columns[i], b) > 0) {
                first = first < b ? first : b;
                last = b;
            }
    fprintf(out, "%17s", "us");
    for (size_t i = 0; i < n; i++)
        fprintf(out, "  %7s %-*s", columns[i].name, i + 1 < n ? BAR : 0, "");
    fputc('\n', out);
    for (int b = first; b <= last; b++) {
        fprintf(out, "%7g - %7g", (double)bucket_ns(b) / 1000, (double)bucket_ns(b + 1) / 1000);
        for (size_t i = 0; i < n; i++) {
            size_t count = count_in(&columns[i], b), of = columns[i].n;
            int length = of ? (int)((count * BAR + of - 1) / of) : 0; /* so that one sample shows */

            /* Pads no column after the last. */
            fprintf(out, "  %7zu %-*.*s", count, i + 1 == n ? 0 : BAR, length,
                    "####################");
        }
        fputc('\n', out);
    }
}

struct ranked {
    uint64_t ns;
    uint32_t at; /* its place among the samples */
};

int bootstrap_percentiles(const struct bootstrap_set *s, const double *percent, size_t percents,
                          uint64_t seed, uint64_t salt, double (*out)[BOOTSTRAP_RESAMPLES])
{
    uint32_t *times = calloc(s->n, sizeof(*times));
    struct ranked *sorted = times ? malloc(s->n * sizeof(*sorted)) : NULL;
    uint64_t rounds = seed, inside = seed * 1000003 + salt;

    for (uint32_t i = 0; sorted && i < s->n; i++)
        sorted[i] = (struct ranked){s->ns[i], i};
    if (sorted)
        qsort(sorted, s->n, sizeof(*sorted), figures_compare);
    for (uint32_t i = 0; sorted && i < bootstrap_resamples(s->n); i++) {
        uint32_t n = 0;

        memset(times, 0, s->n * sizeof(*times)); /* how often each sample is in the resample */
        for (uint32_t b = 0; b < s->blocks; b++) {
            uint32_t block = random_below(&rounds, s->blocks);
            uint32_t from = block ? s->block_end[block - 1] : 0, size = s->block_end[block] - from;

            for (uint32_t k = 0; k < size; k++)
                times[from + random_below(&inside, size)]++;
            n += size;
        }
        for (size_t k = 0; k < percents; k++) {
            const struct ranked *at = sorted;
            size_t rank = rank_of(percent[k], n), sum = times[at->at];

            while (n && sum < rank)
                sum += times[(++at)->at];
            out[k][i] = n ? (double)at->ns / 1000 : 0;
        }
    }
    free(times);
    free(sorted);
    return sorted ? 0 : -ENOMEM;
}

static int rising(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct interval bootstrap_interval(double *values, uint32_t n)
{
    uint32_t beyond = n * (100 - BOOTSTRAP_PERCENT) / 200;

    qsort(values, n, sizeof(*values), rising);
    return (struct interval){values[beyond], values[n - 1 - beyond]};
}
