/*
 * bench_figures.c - makes figures of the samples of `cutin latency`.
 */
#include "bench.h"
#include "common/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const bench_mode_names[] = {"alone", "native", "ungated", "cutin", NULL};

uint64_t bench_latency_ns(const struct bench *b, const struct worker_sample *s)
{
    return s->end_ns - (arrivals_is_open(&b->plan.arrivals) ? s->arrival_ns : s->start_ns);
}

uint64_t bench_since_1970_ns(uint64_t monotonic_ns)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - clock_ns() + monotonic_ns;
}

typedef double drawn[BENCH_ESTIMATES][BOOTSTRAP_RESAMPLES];

/* Also draws from the samples for estimates. False: no memory for that. */
static bool describe_mode(struct bench *b, int mode, drawn *out)
{
    const struct figures *alone = &b->mode[BENCH_ALONE].figures;
    struct bench_result *r = &b->mode[mode];
    struct bootstrap_set set = {r->latency_ns, r->n, r->block_end, r->blocks};
    double percent[BENCH_ESTIMATES] = {50, 99, b->plan.percentile}, bound_us = b->plan.bound_us;
    uint64_t most_ns = 0;
    bool known;

    for (uint32_t i = 0; i < r->n; i++) {
        r->latency_ns[i] = bench_latency_ns(b, &r->sample[i]);
        r->late += bound_us > 0 && (double)r->latency_ns[i] > bound_us * 1000;
        if (r->latency_ns[i] >= most_ns) {
            most_ns = r->latency_ns[i];
            r->max_at_ns = bench_since_1970_ns(r->sample[i].arrival_ns);
        }
    }
    /* How many requests of its block have come when one is begun, and wait behind it. */
    for (uint32_t block = 0, from = 0; block < r->blocks; from = r->block_end[block++]) {
        const struct worker_sample *s = r->sample;
        uint32_t to = r->block_end[block];

        for (uint32_t i = from, come = from; i < to; i++) {
            while (come < to && s[come].arrival_ns <= s[i].start_ns)
                come++;
            if (come > i + 1 && come - i - 1 > r->backlog.most)
                r->backlog.most = come - i - 1;
            r->backlog.mean += come > i ? come - i - 1 : 0;
            r->backlog.late += i > from && s[i].arrival_ns < s[i - 1].end_ns;
        }
    }
    if (r->n)
        r->backlog.mean /= r->n;
    for (int k = 0; k < BENCH_ESTIMATES; k++)
        r->estimate[k].percent = percent[k];
    known = r->n == 0 || (out && bootstrap_percentiles(&set, percent, BENCH_ESTIMATES, b->plan.seed,
                                                       (uint64_t)mode + 1, *out) == 0);
    figures_make(&r->figures, r->latency_ns, r->n); /* sorts them */
    r->in_floor = b->floor.launch.samples && r->n && r->figures.p99_us <= b->floor.p99_us;
    r->p99_known = bench_enough(b, mode, 99) && bench_enough(b, BENCH_ALONE, 99);
    r->added_p50_us = r->figures.p50_us - alone->p50_us;
    r->added_p99_us = r->figures.p99_us - alone->p99_us;
    return known;
}

/* Compares with alone, resample by resample: both drew the same rounds. */
static void estimate(struct bench *b, int mode, drawn *all)
{
    const struct bench_result *alone = &b->mode[BENCH_ALONE];
    struct bench_result *r = &b->mode[mode];
    uint32_t n = bootstrap_resamples(r->n);
    double values[BOOTSTRAP_RESAMPLES];

    for (int k = 0; k < BENCH_ESTIMATES; k++) {
        struct bench_estimate *e = &r->estimate[k];
        double percent = e->percent, *own = all[mode][k], *base = all[BENCH_ALONE][k], alone_us;

        if (percent <= 0 || !bench_enough(b, mode, percent))
            continue;
        e->known = true;
        e->us = figures_percentile_us(r->latency_ns, r->n, percent);
        memcpy(values, own, n * sizeof(*values));
        e->us_within = bootstrap_interval(values, n);
        if (mode == BENCH_ALONE || !bench_enough(b, BENCH_ALONE, percent) ||
            bootstrap_resamples(alone->n) != n)
            continue;
        alone_us = figures_percentile_us(alone->latency_ns, alone->n, percent);
        e->compared = alone_us > 0;
        e->ratio = e->us / alone_us;
        e->added_us = e->us - alone_us;
        for (uint32_t i = 0; i < n; i++) {
            values[i] = own[i] - base[i];
            own[i] /= base[i] > 0 ? base[i] : 1;
        }
        e->ratio_within = bootstrap_interval(own, n);
        e->added_within = bootstrap_interval(values, n);
    }
}

void bench_describe(struct bench *b)
{
    struct worker_shared *native = b->rt[BENCH_NATIVE].shared;
    const struct worker_shared *cutin = b->rt[BENCH_CUTIN].shared;
    struct bench_engagement *e = &b->engagement;
    drawn *all = calloc(BENCH_MODES, sizeof(*all));
    bool known = true;

    b->floor.spin = &native->floor;
    figures_make(&b->floor.launch, native->floor_launch_ns, native->floor_launches);
    b->floor.p99_us = b->floor.launch.p99_us + (double)native->floor.most_ns / 1000;
    b->on = native;
    b->claim = native->claim;
    if (cutin->gpu[0]) { /* cutin ran */
        b->on = cutin;
        b->claim.cpu = cutin->claim.cpu < 0 ? -1 : b->claim.cpu;
        b->claim.locked &= cutin->claim.locked;
        b->claim.realtime &= cutin->claim.realtime;
    }
    for (int side = BENCH_NATIVE; side <= BENCH_CUTIN; side++) {
        double graph_us = (double)b->be[side].shared->graph_ns / 1e3;

        if (graph_us > 0 && (b->graph_us <= 0 || graph_us < b->graph_us))
            b->graph_us = graph_us;
    }
    for (int m = 0; m < BENCH_MODES; m++)
        known &= describe_mode(b, m, all ? &all[m] : NULL);
    /* Without memory there are no intervals. Alone comes last, because the other modes are compared
     * with what it drew. */
    for (int m = BENCH_MODES - 1; m >= 0 && known; m--)
        if (bench_has(b, m))
            estimate(b, m, all);
    free(all);
    for (uint32_t i = 0; i < STAGE_COUNT && b->stages.ns; i++)
        figures_make(&b->stages.figures[i], b->stages.ns + (size_t)i * b->plan.samples,
                     b->stages.known[i]);
    e->gate_us = e->gates ? (double)e->gpu_ns / 1e3 / (double)e->gates : 0;
    e->engaged = e->cut_ins > 0 && (e->holds > 0 || e->gates > 0);
}

double bench_late_limit(uint32_t late, uint32_t n)
{
    double low = (double)late / n, high = 1;

    if (late >= n)
        return 100;
    for (int i = 0; i < 60; i++) {
        double p = (low + high) / 2, sum = 0;

        /* The probability that at most `late` of `n` are late, each with probability p. */
        for (uint32_t k = 0; k <= late; k++)
            sum += exp(lgamma(n + 1.0) - lgamma(k + 1.0) - lgamma(n - k + 1.0) + k * log(p) +
                       (n - k) * log1p(-p));
        if (sum > 0.01)
            low = p;
        else
            high = p;
    }
    return 100 * high;
}

double bench_rate(const struct bench_work *work)
{
    return work->elapsed_ns ? (double)work->kernels * 1e9 / (double)work->elapsed_ns : 0;
}
