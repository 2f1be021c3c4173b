/*
 * run_fault.c - a fault of the second context, and what calls answer before and after it is known.
 *
 * A fault is asynchronous. Until a call has waited, any call may report it or not. After one call
 * of a thread has reported it, all its calls do (unless that one does not queue, ask or wait). Once
 * a synchronisation has reported it, every call must answer as it does bare.
 */
#include "machine.h"

#include <stdio.h>

/* Calls of every kind, on what the failed context has. `scratch` is what the caller uses. */
struct scratch {
    uint32_t words[WORDS];
    CUstream stream;
    CUevent event;
};

static CUresult call_launch(struct scratch *t)
{
    uint64_t x = m.other_buffer[0];
    uint32_t a = 3, b = 1, n = WORDS;
    return cuLaunchKernel(m.o.mix, 1, 1, 1, WORDS, 1, 1, 0, t->stream, (void *[]){&x, &a, &b, &n},
                          NULL);
}

static CUresult call_copy(struct scratch *t)
{
    return cuMemcpyDtoDAsync_v2(m.other_buffer[0], m.other_buffer[1], BYTES, t->stream);
}

static CUresult call_copy_sync(struct scratch *t)
{
    return cuMemcpyDtoH_v2(t->words, m.other_buffer[0], BYTES);
}

static CUresult call_memset(struct scratch *t)
{
    return cuMemsetD32Async(m.other_buffer[1], 7, WORDS, t->stream);
}

static CUresult call_record(struct scratch *t)
{
    return cuEventRecord(t->event, t->stream);
}

static CUresult call_wait(struct scratch *t)
{
    return cuStreamWaitEvent(t->stream, t->event, 0);
}

static CUresult call_event_query(struct scratch *t)
{
    return cuEventQuery(t->event);
}

static CUresult call_event_sync(struct scratch *t)
{
    return cuEventSynchronize(t->event);
}

static CUresult call_query(struct scratch *t)
{
    return cuStreamQuery(t->stream);
}

static CUresult call_sync(struct scratch *t)
{
    return cuStreamSynchronize(t->stream);
}

static CUresult call_context_sync(struct scratch *t)
{
    (void)t;
    return cuCtxSynchronize();
}

static CUresult call_alloc(struct scratch *t)
{
    (void)t;
    CUdeviceptr p = 0;
    CUresult r = cuMemAlloc_v2(&p, 256);
    return r ? r : cuMemFree_v2(p);
}

static CUresult call_host_function(struct scratch *t)
{
    return cuLaunchHostFunc(t->stream, host_function, host_call_new(NULL, 0, 0));
}

static CUresult call_memory_info(struct scratch *t)
{
    (void)t;
    size_t bytes[2];
    return cuMemGetInfo_v2(&bytes[0], &bytes[1]);
}

static const struct {
    const char *name;
    CUresult (*call)(struct scratch *t);
    bool passes; /* cutin passes the call on and does not see the answer */
} calls[] = {
    {"launch", call_launch, false},
    {"copy", call_copy, false},
    {"copy sync", call_copy_sync, false},
    {"memset", call_memset, false},
    {"record", call_record, false},
    {"wait", call_wait, false},
    {"event query", call_event_query, false},
    {"event sync", call_event_sync, false},
    {"query", call_query, false},
    {"sync", call_sync, false},
    {"context sync", call_context_sync, false},
    {"alloc", call_alloc, true},
    {"host function", call_host_function, false},
    {"memory info", call_memory_info, true},
};
enum { CALLS = sizeof(calls) / sizeof(*calls), BURST = 12 };

/* The launch may only be refused for something that happened before it, and nothing has. */
static CUresult fault_launch(const struct op *o)
{
    uint64_t x = 16; /* an address outside of all allocations */
    uint32_t a = 1, b = 1, n = WORDS;
    uint64_t ns = o->ns;
    return ns ? cuLaunchKernel(m.o.mix_spin, 1, 1, 1, WORDS, 1, 1, 0, handle(o),
                               (void *[]){&x, &a, &b, &n, &ns}, NULL)
              : cuLaunchKernel(m.o.mix, 1, 1, 1, WORDS, 1, 1, 0, handle(o),
                               (void *[]){&x, &a, &b, &n}, NULL);
}

/* Returns the answer of the last call, a synchronisation. */
static CUresult burst_before(uint64_t state, struct scratch *t)
{
    CUresult seen = CUDA_SUCCESS;
    const char *first = "";
    for (int i = 0; i < BURST; i++) {
        size_t k = random_next(&state) % CALLS;
        CUresult r = calls[k].call(t);
        if (r == CUDA_ERROR_NOT_READY)
            r = CUDA_SUCCESS;
        if (r != seen && seen) {
            char text[96];
            snprintf(text, sizeof(text), "\"%s\" forgot the fault that \"%s\" had reported",
                     calls[k].name, first);
            broken(text);
        }
        if (!r || seen || calls[k].passes)
            continue;
        first = calls[k].name;
        seen = r;
    }
    return cuCtxSynchronize();
}

/* A digest of the answers of all calls. */
static uint64_t burst_after(uint64_t state, struct scratch *t)
{
    uint64_t digest = 0;
    for (int i = 0; i < BURST; i++)
        digest = digest * 1000003u + (uint64_t)calls[random_next(&state) % CALLS].call(t);
    return digest;
}

CUresult run_fault(const struct op *o, uint32_t index)
{
    if (o->kind == OP_FAULT)
        return fault_launch(o);
    struct scratch t = {.stream = m.stream[OTHER + CREATED + o->b % OTHER_CREATED],
                        .event = m.event[MAIN_EVENTS + o->b / 2 % (EVENTS - MAIN_EVENTS)]};
    if (o->kind == OP_FAULT_SEEN)
        return burst_before(o->b, &t);
    m.out->value[index] = burst_after(o->b, &t);
    return cuCtxSynchronize();
}
