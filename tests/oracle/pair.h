/*
 * pair.h - runs programs bare and under cutin, side by side, and compares what they saw.
 */
#ifndef ORACLE_PAIR_H
#define ORACLE_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "tests/oracle/worker/run.h"

struct pair_config {
    const char *preload;   /* the libcutin.so to test, and other libraries to preload */
    const char *simulator; /* folder of the simulated libcuda.so.1; NULL: the real driver */
    const char *worker;    /* oracle-worker */
    const char *daemon;    /* cutind */
    const char *mutant;    /* the deliberate bug that the library shall have; NULL: none */
    const char *gates;     /* auto, on, off, mirrored; NULL: auto */
    const char *distance;  /* CUTIN_DISTANCE_US; NULL: none */
    bool unkind;           /* draw settings of the simulated device, with long holds */
    bool suspend;          /* CUTIN_SUSPEND=on, on the simulated driver */
    char id[64];           /* part of all names that this run uses */
    char directory[128];   /* private, removed by pair_close */
    unsigned hang_seconds; /* counted by the worker's beats (run.h) */
};

/* Starts a private daemon, and a real-time client that holds best-effort work at random moments. */
int pair_open(struct pair_config *config, uint64_t seed);
void pair_close(void);

/* How many of `count` programs from `seed` on share a setting. A batch is at most that long. */
unsigned pair_batch(uint64_t seed, unsigned count);

/* Runs `count` programs (at most BATCH_MAX) of seeds `seed`, `seed + step`, ... Their outcomes are
 * in bare[] and cutin[] afterwards; `bare` may be NULL: only under cutin. Returns how many programs
 * finished on both sides. The next one hung or ended its process. */
unsigned pair_run(uint64_t seed, unsigned step, unsigned count, uint64_t mask,
                  const struct outcome **bare, const struct outcome **cutin);

/* Compares. Returns 0, or 1 with a line about the first difference. `bare` may be NULL. */
int pair_compare(const struct program *p, const struct outcome *bare, const struct outcome *cutin,
                 char *why, size_t size);

#endif
