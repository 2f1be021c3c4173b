/*
 * machine.h - what a measuring thread asks of the machine: a processor, its memory, a class that
 * ordinary threads do not interrupt. Each may be refused; the figures say what was had.
 */
#ifndef CUTIN_TOOLS_CUTIN_WORKER_MACHINE_H
#define CUTIN_TOOLS_CUTIN_WORKER_MACHINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim {
    int32_t cpu;   /* the thread stays on this processor; -1: it may move */
    bool locked;   /* what the process has touched is never paged out */
    bool realtime; /* SCHED_FIFO, or the real-time class that the user had chosen */
};

/* For the calling thread; memory is the process's. After its helpers were started: they are not to
 * inherit any of it. */
void claim_make(struct claim *c);
/* "pinned to processor 1, locked in memory, SCHED_FIFO", and what is not so. Returns `out`. */
const char *claim_text(const struct claim *c, char *out, size_t size);

/*
 * What the machine itself adds to a latency, before anything shares the GPU: times in which the
 * measuring processor did not run us (as the kernel's hwlat tracer looks for them), and launches on
 * the idle GPU.
 */
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
