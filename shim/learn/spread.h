/*
 * spread.h - the latest times of a kernel, and what they say: their mean, and what a launch will
 * hardly exceed.
 *
 * A pair of events times a kernel and whatever kept it from its multiprocessors, so a time may be
 * too long and hardly too short. It is *exact* where it has no wait in it: the kernel stood behind
 * another one of its stream and the process had nothing else at work (more in estimate.c). What
 * remains then are turns of other processes: a kernel meets the end of its own process's turn the
 * more often the longer it is, so times that are much longer than most are taken for that unless
 * there are too many of them, or one as long is sure. Knows no CUDA.
 */
#ifndef CUTIN_SHIM_LEARN_SPREAD_H
#define CUTIN_SHIM_LEARN_SPREAD_H

#include <stdbool.h>
#include <stdint.h>

enum { SPREAD_TIMES = 24, SPREAD_LOOSE = 8 };

struct spread {
    uint8_t times, next, loose, loose_next;
    uint8_t loose_of; /* times that the newest of those is the least of */
    uint32_t sure;    /* a bit for each of `time` */
    uint16_t time[SPREAD_TIMES], loose_time[SPREAD_LOOSE]; /* see spread.c */
};

enum spread_is {
    SPREAD_AT_MOST, /* the kernel takes as long at most; counts while none is exact */
    SPREAD_IS_EXACT,
    SPREAD_IS_SURE, /* that, and nobody else can have had a turn in it */
};
void spread_add(struct spread *s, uint32_t ns, enum spread_is is);
/* 0 both where nothing was added. */
void spread_read(const struct spread *s, uint32_t *mean_ns, uint32_t *upper_ns);
/* By how much the mean of times like these may be longer or shorter. 0 where none is exact. */
uint32_t spread_doubt(const struct spread *s);

#endif
