/*
 * pair.h - running programs bare and under cutin, side by side, and comparing what they saw.
 */
#ifndef ORACLE_PAIR_H
#define ORACLE_PAIR_H

#include <stddef.h>
#include <stdint.h>

#include "tests/oracle/worker/run.h"

struct pair_config {
    const char *preload;   /* libcutin.so to test, and what is preloaded beside it */
    const char *simulator; /* folder of the simulated libcuda.so.1; NULL: the real driver */
    const char *worker;    /* oracle-worker */
    const char *daemon;    /* cutind */
    const char *mutant;    /* deliberate bug that the library is to have; NULL: none */
    const char *gates;     /* auto, on, off, mirrored; NULL: auto */
    const char *distance;  /* CUTIN_DISTANCE_US; NULL: none */
    bool unkind;           /* settings of the simulated device are drawn, and holds are long */
    bool suspend;          /* CUTIN_SUSPEND=on, on the simulated driver */
    char id[64];           /* names everything this run makes */
    char directory[128];   /* private, removed by pair_close */
    unsigned hang_seconds; /* as its worker's beats count them (run.h) */
};

/* Starts a private daemon and a real-time client that holds best-effort work at random moments. */
int pair_open(struct pair_config *config, uint64_t seed);
void pair_close(void);

/* How many of `count` programs from `seed` on share a setting: a batch is no longer. */
unsigned pair_batch(uint64_t seed, unsigned count);

/* Runs `count` (BATCH_MAX at most) programs, seeds `seed`, `seed + step`, ...; outcomes land
 * in bare[] and cutin[] (bare may be NULL: only under cutin). Returns the number of programs that
 * finished on both sides; the next one hung or ended its process. */
unsigned pair_run(uint64_t seed, unsigned step, unsigned count, uint64_t mask,
                  const struct outcome **bare, const struct outcome **cutin);

/* Compares; returns 0, or 1 with one line about the first difference. `bare` may be NULL. */
int pair_compare(const struct program *p, const struct outcome *bare, const struct outcome *cutin,
                 char *why, size_t size);

#endif
