/*
 * record.h - what a worker says of itself while it runs: memory that it shares with the command.
 */
#ifndef PURPOSE_RECORD_H
#define PURPOSE_RECORD_H

#include <stdatomic.h>
#include <stdint.h>

#include "workload.h"

/* Kernels of 3 us, for six seconds. */
enum { RECORD_CALLS = 1 << 21, RECORD_REQUESTS = 1 << 12, RECORD_FD = 3 };

struct request {
    uint64_t due_ns, called_ns, known_ns;
};

/* Sparse: pages that nobody writes are not there. */
struct record {
    _Atomic uint32_t failed; /* the driver's error, and where */
    uint32_t failed_line;
    uint64_t begun_ns;           /* the first call that asks for work */
    uint64_t done_ns;            /* a solo's last step is done; 0: not yet */
    uint64_t memory_high;        /* bytes of the GPU in use, the most that was seen */
    uint32_t per_call[STREAMS];  /* kernels of a launch */
    uint64_t stream_id[STREAMS]; /* cuStreamGetId */
    _Atomic uint32_t calls[STREAMS];
    _Atomic uint32_t requests;
    uint64_t call_ns[STREAMS][RECORD_CALLS]; /* of launches: before the call */
    struct request request[RECORD_REQUESTS];
};

#endif
