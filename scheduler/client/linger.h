/*
 * linger.h - how long to hold on after real-time work, learned from the pauses between its pieces.
 *
 * A process pauses for a short while inside a request, when the processor works between two kernels,
 * and longer between requests. One rule serves both: hold while the chance that work comes before
 * best effort's next kernel would be done is above 10 %. Inside a request it comes soon, so best
 * effort stays out; once the short pauses are over, nothing comes for long, and it is let in; and
 * where requests are regular it is held again just before the next one.
 *
 * The chance is read from a histogram of pauses, which halves from time to time and so forgets.
 * linger_add may be called from any thread; the rest by one at a time.
 */
#ifndef CUTIN_LINGER_H
#define CUTIN_LINGER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    LINGER_PER_OCTAVE = 16,
    LINGER_OCTAVES = 20, /* from 1 us to 1 s; what is longer counts as that */
    LINGER_BINS = LINGER_PER_OCTAVE * LINGER_OCTAVES,
    LINGER_LEAST = 32,  /* pauses before anything is known */
    LINGER_MOST = 1024, /* then all bins are halved */
};

struct linger {
    _Atomic uint32_t pauses, bin[LINGER_BINS];
};

/* What the rule says along one pause. */
struct linger_view {
    float longer[LINGER_BINS + 1]; /* pauses longer than a bin's beginning */
    uint64_t kernel_ns;
    bool known;
};

void linger_add(struct linger *l, uint64_t pause_ns);
/* The rule as of now, with best-effort kernels of that length. */
void linger_look(const struct linger *l, uint64_t kernel_ns, struct linger_view *v);
/* Is best effort to be held when a pause has lasted for `at_ns`? */
bool linger_holds(const struct linger_view *v, uint64_t at_ns);
/* The next time in the pause, after `at_ns`, when that changes; 0: it does not. */
uint64_t linger_change(const struct linger_view *v, uint64_t at_ns);

#endif
