/*
 * pad_guard.c - does best effort beside real time slow real time's kernels down?
 *
 * Kernels of real time are timed while best effort goes beside them, and compared with what they
 * take without it. If more than a tenth of them take over 1.02 times as long (the 90th percentile
 * of the ratio is above that), padding stops for a second. It stops twice as long each time that
 * this happens again at once, up to 64 seconds.
 */
#include "shim/pace/pad.h"

#include "common/clock.h"

enum { SLACK_NS = 1000 }; /* each event of a pair is exact to half a microsecond */
#define PAUSE_LEAST_NS (1000ull * NS_PER_MS)
#define PAUSE_MOST_NS  (64 * PAUSE_LEAST_NS)

bool pad_guard_add(struct pad_guard *g, uint32_t ns, uint32_t learned_ns, uint64_t now_ns)
{
    if (now_ns < g->until_ns)
        return false; /* the sample is from before the pause */
    g->slow += ns > (uint64_t)learned_ns + learned_ns / 50 + SLACK_NS;
    if (++g->samples < PAD_GUARD_SAMPLES)
        return false;
    bool slow = g->slow > PAD_GUARD_SLOW_MOST;
    g->samples = g->slow = 0;
    if (!slow) {
        g->pause_ns = 0;
        return false;
    }
    g->pause_ns = g->pause_ns ? g->pause_ns * 2 : PAUSE_LEAST_NS;
    if (g->pause_ns > PAUSE_MOST_NS)
        g->pause_ns = PAUSE_MOST_NS;
    g->until_ns = now_ns + g->pause_ns;
    return true;
}
