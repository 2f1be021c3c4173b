/*
 * figures.c - percentiles and histograms.
 */
#include "figures.h"

#include <math.h>
#include <stdlib.h>

int figures_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

double figures_percentile_us(const uint64_t *sorted_ns, size_t n, double percent)
{
    /* The product may lie a rounding error above a whole rank. */
    size_t rank = (size_t)ceil((double)n * percent / 100.0 - 1e-9);

    return (double)sorted_ns[rank < 1 ? 0 : rank - 1] / 1000.0;
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

/* ---- the histogram ------------------------------------------------------------------------- */

enum { BAR = 20, MOST_BUCKETS = 60 };

/* Lower bounds 1, 1.5, 2, 3, 5, 7, 10, 15, ... microseconds; bucket 0 begins at 0. */
static uint64_t bucket_ns(int bucket)
{
    static const uint64_t steps[] = {1000, 1500, 2000, 3000, 5000, 7000};
    const int n = sizeof(steps) / sizeof(steps[0]);
    uint64_t ns;

    if (bucket == 0)
        return 0;
    ns = steps[(bucket - 1) % n];
    for (int decade = (bucket - 1) / n; decade > 0; decade--)
        ns *= 10;
    return ns;
}

static size_t count_between(const struct histogram_column *c, uint64_t from_ns, uint64_t to_ns)
{
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
            if (count_between(&columns[i], bucket_ns(b), bucket_ns(b + 1)) > 0) {
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
            size_t count = count_between(&columns[i], bucket_ns(b), bucket_ns(b + 1)),
                   of = columns[i].n;
            int length = of ? (int)((count * BAR + of - 1) / of) : 0; /* one sample shows */

            /* No blanks behind the last column. */
            fprintf(out, "  %7zu %-*.*s", count, i + 1 == n ? 0 : BAR, length,
                    "####################");
        }
        fputc('\n', out);
    }
}
