/*
 * pad_guard.h - does best effort beside real time slow real time's kernels down?
 *
 * Kernels of real time are timed while best effort goes beside them, and compared with what they
 * take without it. If more than a tenth of them take over 1.02 times as long (the 90th percentile
 * of the ratio is above that), padding stops for a second. It stops twice as long each time that
 * this happens again at once, up to 64 seconds.
 */
#ifndef CUTIN_SHIM_PACE_PAD_GUARD_H
#define CUTIN_SHIM_PACE_PAD_GUARD_H

#include <stdbool.h>
#include <stdint.h>

enum { PAD_GUARD_SAMPLES = 64, PAD_GUARD_SLOW_MOST = PAD_GUARD_SAMPLES / 10 };

struct pad_guard {
    uint32_t samples, slow;
    uint64_t pause_ns; /* of the last pause; 0: there was none, or all was well since */
    uint64_t until_ns; /* no padding until then */
};

/* A kernel took `ns` beside best effort, and hardly more than `learned_ns` without. True: padding
 * stops now. */
bool pad_guard_add(struct pad_guard *g, uint32_t ns, uint32_t learned_ns, uint64_t now_ns);

#endif
