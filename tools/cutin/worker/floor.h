/*
 * floor.h - what the machine itself adds to a latency, before anything shares the GPU: times in
 * which the measuring processor did not run us (as the kernel's hwlat tracer looks for them), and
 * launches on the idle GPU.
 */
#ifndef CUTIN_TOOLS_CUTIN_WORKER_FLOOR_H
#define CUTIN_TOOLS_CUTIN_WORKER_FLOOR_H

#include <stdint.h>

enum { FLOOR_GAP_NS = 10000, FLOOR_LAUNCHES = 1000 };

/* Of a thread that did nothing but read the clock. */
struct floor_spin {
    uint64_t ns;                    /* for so long */
    uint64_t gaps, gap_ns, most_ns; /* of FLOOR_GAP_NS and longer: how many, all, the longest */
};

/* Spins for so long. */
void floor_spin(struct floor_spin *f, uint64_t ns);
/* Two readings of the clock, one after the other. */
void floor_look(struct floor_spin *f, uint64_t before_ns, uint64_t now_ns);

#endif
