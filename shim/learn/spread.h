/*
 * spread.h - the latest times of a kernel, their mean, and the time that a launch hardly exceeds.
 *
 * A pair of events times a kernel and whatever kept it from its multiprocessors, so a time may be
 * too long and is hardly too short. It is *exact* if it contains no wait: the kernel was behind
 * another one of its stream, and the process had nothing else at work (more in estimate.c). What
 * remains are time slices of other processes. The longer a kernel is, the more often it meets the
 * end of its own process's slice. So times much longer than most are taken for that, unless there
 * are too many of them, or one as long is sure. Knows no CUDA.
 */
#ifndef CUTIN_SHIM_LEARN_SPREAD_H
#define CUTIN_SHIM_LEARN_SPREAD_H

#include <stdint.h>

enum { SPREAD_TIMES = 24, SPREAD_BOUNDS = 8 };

struct spread {
    uint8_t times, next, bounds, bound_next;
    uint8_t slices;   /* how often of late an exact time seemed to contain one, by SLICE_COUNTS */
    uint8_t bound_of; /* number of times of which the newest of `bound_time` is the least */
    uint32_t sure;    /* one bit for each of `time`: SPREAD_IS_SURE */
    uint16_t time[SPREAD_TIMES], bound_time[SPREAD_BOUNDS]; /* packed, see spread.c */
};

enum spread_is {
    SPREAD_AT_MOST, /* the kernel takes at most that long; counts while none is exact */
    SPREAD_IS_EXACT,
    SPREAD_BESIDE_SLICES, /* exact, and another process has half of the device by time slices */
    SPREAD_IS_SURE,       /* exact, and no other process can have had a time slice in it */
};
void spread_add(struct spread *s, uint32_t ns, enum spread_is is);
/* All are 0 if nothing was added. `doubt_ns`: the likely error of the mean of exact times; 0 if
 * none is exact. */
void spread_read(const struct spread *s, uint32_t *mean_ns, uint32_t *upper_ns, uint32_t *doubt_ns);

#endif
