/*
 * record.h - what a worker reports while it runs, in memory that it shares with the command.
 */
#ifndef PURPOSE_RECORD_H
#define PURPOSE_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#include "workload.h"

/* Enough for kernels of 3 us during six seconds. */
enum { RECORD_CALLS = 1 << 21, RECORD_REQUESTS = 1 << 12, RECORD_FD = 3 };

struct request {
    uint64_t due_ns, called_ns, known_ns;
};

/* Sparse: pages that are never written take no memory. */
struct record {
    _Atomic uint32_t failed; /* the driver's error; the next says where */
    uint32_t failed_line;
    uint64_t begun_ns;           /* when the first call asked for work */
    uint64_t done_ns;            /* when a solo's last step was done; 0: not yet */
    uint64_t memory_high;        /* the most bytes of the GPU that were seen in use */
    uint32_t per_call[STREAMS];  /* kernels of one launch */
    uint64_t stream_id[STREAMS]; /* cuStreamGetId */
    _Atomic uint32_t calls[STREAMS];
    _Atomic uint32_t requests;
    uint64_t call_ns[STREAMS][RECORD_CALLS]; /* of each launch: before the call */
    struct request request[RECORD_REQUESTS];
};

#endif
