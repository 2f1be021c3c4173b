/*
 * arrivals.h - when requests are to come: gaps that are drawn before anything runs.
 *
 * In an open loop the next request comes when its time is there, whether the one before is answered
 * or not, and latency counts from then. A closed loop waits for the answer first: what would have
 * come meanwhile is not in its figures (coordinated omission).
 */
#ifndef CUTIN_TOOLS_CUTIN_STATISTICS_ARRIVALS_H
#define CUTIN_TOOLS_CUTIN_STATISTICS_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arrivals_kind {
    ARRIVALS_POISSON, /* exponential gaps */
    ARRIVALS_UNIFORM, /* gaps from 1 - parameter to 1 + parameter of the mean */
    ARRIVALS_GAMMA,   /* gaps of this shape: below 1 in bursts, above 1 more even than Poisson */
    ARRIVALS_TRACE,   /* the times in a file */
    ARRIVALS_CLOSED,  /* pauses after the answer: half of the mean fixed, the rest exponential */
    ARRIVALS_KINDS
};

struct arrivals {
    enum arrivals_kind kind;
    double parameter;
    const char *path; /* of a trace */
};

/* "poisson", "uniform", "uniform:SPREAD", "gamma:SHAPE", "trace:FILE", "closed". The text is kept.
 * 0, or -EINVAL with one line in `why`. */
int arrivals_parse(struct arrivals *a, const char *text, char *why, size_t why_bytes);
static inline bool arrivals_open(const struct arrivals *a)
{
    return a->kind != ARRIVALS_CLOSED;
}
/* As arrivals_parse takes it. Returns `out`. */
const char *arrivals_text(const struct arrivals *a, char *out, size_t size);

/*
 * Draws the gaps before `n` requests, in nanoseconds. A trace has a time in milliseconds on each
 * line, rising; lines that begin with # say nothing; its mean is its own. 0, -EINVAL (a line that
 * is no such time, or fewer than `n`) or -errno, with one line in `why`.
 */
int arrivals_draw(const struct arrivals *a, double mean_ns, uint64_t seed, uint64_t *gap_ns,
                  uint32_t n, char *why, size_t why_bytes);

#endif
