/*
 * machine.h - the driver's objects that a program uses: slots of program.h to handles and
 * addresses.
 */
#ifndef ORACLE_MACHINE_H
#define ORACLE_MACHINE_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <pthread.h>

#include "run.h"

enum { BYTES = WORDS * 4, ARENA = MAX_OPS * GRAPH_OPS };

struct host_call { /* argument of a host function */
    uint32_t *x, a, b;
    uint64_t *answer; /* not NULL: calls CUDA, and this is what the driver said */
};

struct funcs {
    CUfunction mix, mix_spin, fill, copy, spin, await_mix;
};

struct machine {
    const struct program *p;
    struct outcome *out;
    _Atomic uint32_t *beats;
    CUdevice device, second_device; /* the same one where there is no second */
    CUcontext ctx, other;           /* the primary context; the second one, NULL in most programs */
#if CUDA_VERSION >= 12050
    CUgreenCtx green;
#endif
    CUcontext green_ctx; /* the green context as one to be current; NULL in most programs */
    pthread_mutex_t green_current;   /* it is so in one thread at a time */
    CUmodule module, second, others; /* `second` is unloaded and loaded again by programs */
    CUlibrary library;
    struct funcs f, g, o, k; /* of module, second, others, and the library's kernels */
    struct funcs l;          /* the library's functions, by way of its module */
    bool allowed;            /* some attribute of its kernels was set */
    CUstream stream[STREAMS], side[THREADS];
    uint64_t stream_id[STREAMS]; /* as far as asked for; 0: not yet */
    CUevent event[EVENTS], fork_event[THREADS];
    CUdeviceptr device_buffer[PINNED], pooled[OTHER_DEVICE - POOLED];
    CUdeviceptr other_buffer[BUFFERS - OTHER_DEVICE];
    void *pinned[PAGEABLE - PINNED];
    void *pageable[POOLED - PAGEABLE]; /* a page each */
    bool registered[POOLED - PAGEABLE];
    CUdeviceptr flags, managed;
    _Atomic uint64_t *order;   /* ORDER_WORDS, in pinned memory */
    _Atomic uint32_t *awaited; /* likewise: how far each op's resident kernel may go */
    CUmemoryPool pool;         /* the program's own; half of the allocations come from it */
    _Atomic uint32_t told[RACES];
    CUgraph graph[EXECS];
    CUgraphNode node[EXECS][GRAPH_OPS]; /* of graphs that were built */
    CUgraphExec exec[EXECS];
    pthread_barrier_t meet;
    struct host_call arena[ARENA];
    _Atomic unsigned arena_used;
    pthread_rwlock_t functions; /* reloads of `second` and the library against launches of it */
};

/* The one of this process. */
extern struct machine m;

/* What every program finds: streams, events, memory with its first contents. */
CUresult machine_set_up(void);
void machine_take_down(void);
/* Makes, ends the second context and all that is in it. It is current in no thread afterwards. */
CUresult machine_other_open(void);
CUresult machine_other_close(void);
/* The same for the green one. */
CUresult machine_green_open(void);
CUresult machine_green_close(void);
/* What CREATED stream slots are made as. */
CUresult machine_stream_create(int slot);
CUresult machine_load_functions(CUmodule module, struct funcs *f);
CUresult machine_load_library(void);

/* Notes an invariant that did not hold. */
void broken(const char *what);
/* What was given to a call is the caller's again afterwards: whoever kept a pointer reads
 * rubbish. */
void spoil(void *data, size_t bytes);

void *host_address(int buffer);
/* Unified addressing: every buffer has one address that all calls accept. */
CUdeviceptr address(int buffer);
/* The context that a buffer is in. */
CUcontext buffer_context(int buffer);
/* Makes the context of an op current, or the one that it is to be called from; and back. */
struct place {
    CUcontext popped[4];
    int count;
    bool pushed, set, green;
};
void place_enter(struct place *at, const struct op *o, enum where where);
void place_leave(struct place *at);

/* Kernels for this op, in its context. */
const struct funcs *functions(const struct op *o);

/* How this op names its stream: NULL through the per-thread symbol, or an explicit handle. */
bool use_ptsz(const struct op *o);
CUstream handle(const struct op *o);
/* cuStreamGetId of this op's stream. */
uint64_t stream_id(const struct op *o);
/* Does this COPY_BATCH go as two copies? Batches refuse the NULL streams; old headers have none. */
bool copy_batches(const struct op *o);
#define CALL(fn, o, ...) (use_ptsz(o) ? fn##_ptsz(__VA_ARGS__) : fn(__VA_ARGS__))

struct host_call *host_call_new(uint32_t *x, uint32_t a, uint32_t b);
void host_function(void *data);

/* How each kind of op runs. `index` is its place in the program. */
#define X(name, lower, run) CUresult run_##run(const struct op *o, uint32_t index);
OP_KINDS(X)
#undef X

#endif
