/*
 * arrivals.h - draws when requests come, before anything runs.
 *
 * In an open loop the next request comes at its time, whether the one before is answered or not,
 * and its latency counts from then. A closed loop waits for the answer first, so its figures lack
 * the requests that would have come meanwhile (coordinated omission).
 */
#ifndef CUTIN_TOOLS_CUTIN_STATISTICS_ARRIVALS_H
#define CUTIN_TOOLS_CUTIN_STATISTICS_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arrivals_kind {
    ARRIVALS_POISSON, /* exponential gaps */
    ARRIVALS_UNIFORM, /* gaps of the mean times 1 - parameter to 1 + parameter */
    ARRIVALS_GAMMA,   /* gamma gaps of this shape: below 1 bursty, above 1 more even than Poisson */
    ARRIVALS_TRACE,   /* the times in a file */
    ARRIVALS_CLOSED,  /* pauses after the answer: half of the mean fixed, the rest exponential */
    ARRIVALS_KINDS
};

struct arrivals {
    enum arrivals_kind kind;
    double parameter;
    const char *path; /* the file of a trace */
};

/* Parses "poisson", "uniform", "uniform:SPREAD", "gamma:SHAPE", "trace:FILE" or "closed". Keeps the
 * pointer `text`. Returns 0, or -EINVAL with one line in `why`. */
int arrivals_parse(struct arrivals *a, const char *text, char *why, size_t why_bytes);
static inline bool arrivals_is_open(const struct arrivals *a)
{
    return a->kind != ARRIVALS_CLOSED;
}
/* Writes the text that arrivals_parse takes. Returns `out`. */
const char *arrivals_text(const struct arrivals *a, char *out, size_t size);

/*
 * Draws the gaps before `n` requests, in nanoseconds. A trace's lines are rising times in
 * milliseconds; lines that begin with # are ignored; it has its own mean. Returns 0, -EINVAL (a
 * line is no such time, or there are fewer than `n`) or -errno, with one line in `why`.
 */
int arrivals_draw(const struct arrivals *a, double mean_ns, uint64_t seed, uint64_t *gap_ns,
                  uint32_t n, char *why, size_t why_bytes);

#endif
