/*
 * traced.h - calls as records of a trace, and what the device took for them.
 *
 * Everything here is asked for only where trace_on() says that a trace is written. Some calls (all,
 * where the trace keeps the first records) get a pair of timing events around them, whose results
 * are read when later calls or waits find them complete: no thread waits for one.
 */
#ifndef CUTIN_SHIM_PATH_TRACED_H
#define CUTIN_SHIM_PATH_TRACED_H

#include "shim/lookup/shim.h"
#include "common/trace.h"

struct shim_context;
struct timing;

/* Whose call it is. */
struct traced_who {
    uint32_t stream, name, op; /* as records have them */
    uint16_t level;
};

/* At exit: read what is complete. */
void traced_finish(void);

/* Around a driver call in `stream` of the current context. NULL: this one is not timed. */
struct timing *traced_begin(const struct shim_context *ctx, CUstream stream,
                            const struct traced_who *who);
void traced_end(struct timing *t, CUstream stream, CUresult result);

/* Around a call that waits: 0 where no trace is written; the result is `r`. */
static inline uint64_t traced_from(void)
{
    return trace_on() ? trace_clock() : 0;
}
void traced_wait(const char *name, uint64_t from_ns);
static inline CUresult traced_waited(const char *name, uint64_t from_ns, CUresult r)
{
    if (unlikely(from_ns != 0) && r == CUDA_SUCCESS)
        traced_wait(name, from_ns);
    return r;
}

#endif
