/*
 * claim.h - what a measuring thread asks of the machine: a processor, its memory, a class that
 * ordinary threads do not interrupt. Each may be refused; the figures say what was had.
 */
#ifndef CUTIN_TOOLS_CUTIN_WORKER_CLAIM_H
#define CUTIN_TOOLS_CUTIN_WORKER_CLAIM_H

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

#endif
