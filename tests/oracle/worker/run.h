/*
 * run.h - executes a program through the CUDA Driver API.
 */
#ifndef ORACLE_RUN_H
#define ORACLE_RUN_H

#include "tests/oracle/program/program.h"

/* What one execution saw. */
struct outcome {
    uint32_t done;           /* 1 once every field below is final */
    int32_t code[MAX_OPS];   /* CUresult of each op; -1: the answer may vary */
    uint64_t value[MAX_OPS]; /* HOST_READ: the hash that was read */
    uint64_t final_hash[BUFFERS];
    char broken[96]; /* an invariant that was broken, in words; "": none */
};

enum { BATCH_MAX = 256, BEATS_A_SECOND = 100 };

/* What a worker shares with the oracle, which judges it. */
struct batch {
    /* How often a thread that only naps has woken since an op returned. It gets a processor as late
     * as others do, so a number of beats means the same on an idle machine as on a busy one. */
    _Atomic uint32_t beats;
    struct outcome out[BATCH_MAX];
};

/* Opens the device and its primary context once per process. Returns 0, or prints why not. */
int run_open(void);
/* Executes `p`, and destroys all that it has made. Each op that returns sets `beats` to 0. */
void run_program(const struct program *p, struct outcome *out, _Atomic uint32_t *beats);
void run_close(void);

#endif
