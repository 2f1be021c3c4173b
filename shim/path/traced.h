/*
 * traced.h - calls as records of a trace, and what the device took for them.
 *
 * All of this is used only while trace_on() says that a trace is written. Some calls (all calls, if
 * the trace keeps the first records) get a pair of timing events around them. Later calls or waits
 * read the results once these are complete; no thread waits for them.
 */
#ifndef CUTIN_SHIM_PATH_TRACED_H
#define CUTIN_SHIM_PATH_TRACED_H

#include "shim/lookup/shim.h"
#include "common/trace.h"

struct shim_context;
struct timing;

/* What records say about a call. */
struct traced_label {
    uint32_t stream, name, op; /* as records have them */
    uint16_t level;
};

/* Reads the timings that are complete: at exit, and after waits. */
void traced_read(void);

/* Around a driver call in `stream` of the context `ctx`. NULL: this call is not timed. */
struct timing *traced_begin(const struct shim_context *ctx, CUstream stream,
                            const struct traced_label *who);
void traced_end(struct timing *t, CUstream stream, CUresult result);

/* Around a call that waits, with the result `r`. traced_from: 0 where no trace is written. */
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
