/*
 * machine.h - the driver's objects that a program uses: from slots of program.h to handles and
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
    uint64_t *answer; /* NULL: no calls of CUDA; else for what the driver answered */
};

struct funcs {
    CUfunction mix, mix_spin, fill, copy, spin, await_mix;
};

struct machine {
    const struct program *p;
    struct outcome *out;
    _Atomic uint32_t *beats;
    CUdevice device, second_device; /* the same device twice if there is no second one */
    CUcontext ctx, other;           /* the primary context; the second one, in most programs NULL */
#if CUDA_VERSION >= 12050
    CUgreenCtx green;
#endif
    CUcontext green_ctx; /* the green context, to be made current; in most programs NULL */
    pthread_mutex_t green_current;   /* held while it is current: only one thread may have it so */
    CUmodule module, second, others; /* programs unload `second` and load it again */
    CUlibrary library;
    struct funcs f, g, o, k; /* of module, second, others, and the library's kernels */
    struct funcs l;          /* the library's functions, from its module */
    bool allowed;            /* an attribute of its kernels was set */
    CUstream stream[STREAMS], side[THREADS];
    uint64_t stream_id[STREAMS]; /* 0: not asked for yet */
    CUevent event[EVENTS], fork_event[THREADS];
    CUdeviceptr device_buffer[PINNED], pooled[OTHER_DEVICE - POOLED];
    CUdeviceptr other_buffer[BUFFERS - OTHER_DEVICE];
    void *pinned[PAGEABLE - PINNED];
    void *pageable[POOLED - PAGEABLE]; /* a page each */
    bool registered[POOLED - PAGEABLE];
    CUdeviceptr flags, managed;
    _Atomic uint64_t *order;   /* ORDER_WORDS, in pinned memory */
    _Atomic uint32_t *awaited; /* also pinned: how far each op's resident kernel may go */
    CUmemoryPool pool;         /* the program's own; half of the allocations come from it */
    _Atomic uint32_t told[RACES];
    CUgraph graph[EXECS];
    CUgraphNode node[EXECS][GRAPH_OPS]; /* of graphs that were built */
    CUgraphExec exec[EXECS];
    pthread_barrier_t meet;
    struct host_call arena[ARENA];
    _Atomic unsigned arena_used;
    pthread_rwlock_t functions; /* guards reloads of `second` and the library against launches */
};

/* The one of this process. */
extern struct machine m;

/* Makes what every program finds: streams, events, memory with its first contents. */
CUresult machine_set_up(void);
void machine_take_down(void);
/* Makes and ends the second context with all in it. No thread has it current afterwards. */
CUresult machine_other_open(void);
CUresult machine_other_close(void);
/* The same for the green context. */
CUresult machine_green_open(void);
CUresult machine_green_close(void);
/* Makes the stream of a CREATED slot, with the slot's flags. */
CUresult machine_stream_create(int slot);
CUresult machine_load_functions(CUmodule module, struct funcs *f);
CUresult machine_load_library(void);

/* Notes an invariant that was broken. */
void broken(const char *what);
/* Overwrites what was given to a call, as the caller may afterwards. Code that has kept a pointer
 * then reads rubbish. */
void spoil(void *data, size_t bytes);

void *host_address(int buffer);
/* With unified addressing every buffer has one address, which all calls accept. */
CUdeviceptr address(int buffer);
/* The context that a buffer is in. */
CUcontext buffer_context(int buffer);
/* Makes the context of an op current, or the one to call it from; and goes back. */
struct place {
    CUcontext popped[4];
    int count;
    bool pushed, set, green;
};
void place_enter(struct place *at, const struct op *o, enum where where);
void place_leave(struct place *at);

/* Kernels for this op, in its context. */
const struct funcs *functions(const struct op *o);

/* Whether this op names a NULL stream by the per-thread symbol, and not by an explicit handle. */
bool use_ptsz(const struct op *o);
CUstream handle(const struct op *o);
/* cuStreamGetId of this op's stream. */
uint64_t stream_id(const struct op *o);
/* Whether this COPY_BATCH is a batch of two. Batches refuse NULL streams; old headers lack them. */
bool copy_batches(const struct op *o);
#define CALL(fn, o, ...) (use_ptsz(o) ? fn##_ptsz(__VA_ARGS__) : fn(__VA_ARGS__))

struct host_call *host_call_new(uint32_t *x, uint32_t a, uint32_t b);
void host_function(void *data);

/* Each kind of op has a function that runs it. `index` is the op's place in the program. */
#define X(name, lower, run) CUresult run_##run(const struct op *o, uint32_t index);
OP_KINDS(X)
#undef X

#endif
