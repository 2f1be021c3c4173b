/*
 * sim.h - what all rooms of the simulated driver speak of: CUDA's types, works, and points in
 * streams.
 *
 * The rooms, top down; each knows those below it, and every one this (tests/arrows.c):
 *   graph      graphs, their executable forms, captures
 *   program    images, modules, functions, kernels and their launches
 *   memory     what the device may touch: allocations, pools, mappings, copies, memory operations
 *   stream     streams and events: a call becomes a `struct work`, and work_submit() hands it on;
 *              the engine, a thread, runs effects at their modelled completion, in order
 *   device     contexts, and the device that processes share: SMs, time slices, modelled time
 *              (shared memory, robust locks; device.h knows no CUDA and no pointers)
 */
#ifndef CUTIN_TOOLS_SIMGPU_FACE_SIM_H
#define CUTIN_TOOLS_SIMGPU_FACE_SIM_H

#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SIM_EXPORT __attribute__((visibility("default")))
/* A function of the driver: its statements; or what it returns. */
#define SIM_BODY(name, parameters, ...)                                                            \
    SIM_EXPORT CUresult name parameters;                                                           \
    SIM_EXPORT CUresult name parameters                                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
#define SIM_CALL(name, parameters, ...) SIM_BODY(name, parameters, return __VA_ARGS__)
/* One that tells `value` of what its statements find. */
#define SIM_TELL(name, parameters, out, value, ...)                                                \
    SIM_BODY(name, parameters, __VA_ARGS__; if (!(out)) return CUDA_ERROR_INVALID_VALUE;           \
             *(out) = (value); return CUDA_SUCCESS)
/* Another name of a function, with an address of its own, as in a real driver. */
#define SIM_ALIAS(name, parameters, of, ...) SIM_CALL(name, parameters, of(__VA_ARGS__))
/* Returns the call's error to the caller. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult try_rc = (call);                                                                  \
        if (try_rc != CUDA_SUCCESS)                                                                \
            return try_rc;                                                                         \
    } while (0)

/* Holds the mutex until the block ends, whichever way it is left. */
#define HOLD(mutex)                                                                                \
    pthread_mutex_t *held __attribute__((cleanup(hold_end), unused)) = hold_begin(mutex)

static inline pthread_mutex_t *hold_begin(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void hold_end(pthread_mutex_t **held)
{
    pthread_mutex_unlock(*held);
}

/* Room for one more behind `count` items, doubled at powers of two: there is no capacity to keep.
 * NULL: no memory, and the array is as it was. */
static inline void *array_grow(void *array, size_t count, size_t bytes)
{
    if (count & (count - 1))
        return array;
    return realloc(array, (count ? count * 2 : 1) * bytes);
}

enum work_kind {
    WORK_KERNEL, /* occupies SMs for cost_ns */
    WORK_COPY,   /* occupies its copy engine for cost_ns; memsets too */
    WORK_MARK,   /* takes no device time: event record, memory write, free */
    WORK_WAIT,   /* blocks its stream until poll() is true; its context may yield the device */
    WORK_HOST,   /* blocks its stream until effect() ran in the callback thread */
    WORK_GRAPH,  /* blocks its stream until poll() is true: what runs meanwhile is in other ones */
};

/* A point in a stream: complete once the stream's `seq`-th work is. stream 0 = nothing. */
struct point {
    uint32_t stream;
    uint64_t seq;
};

/*
 * One stream-ordered piece of work, by value. work_submit copies it, `blob` included, so it can be
 * built on the caller's stack and kept in graph nodes.
 */
struct work {
    enum work_kind kind;
    const char *
        name; /* kernel entry name or API noun, for the device event log; NULL: none; never freed */
    uint64_t cost_ns;         /* modelled solo duration, before SIMGPU_SPEED */
    uint32_t blocks, threads; /* per grid and per block: SM occupancy */
    uint32_t smem;            /* bytes per block */
    uint8_t engine;           /* of a copy: enum copy_engine */
    bool slight;              /* a kernel that leaves its multiprocessor to others */
    /* Runs at the modelled completion (WORK_HOST: in the callback thread), in the order of modelled
     * completion. May be NULL. Returns CUDA_SUCCESS or the asynchronous (sticky) error it
     * raises. */
    CUresult (*effect)(struct work *w);
    bool (*poll)(struct work *w); /* WORK_WAIT only */
    /* A resident kernel: it lives, and does things, while it runs. step() is called at the modelled
     * instants at_ns, first at the kernel's start, and says how long it runs until the next one
     * (ns, before SIMGPU_SPEED), that it waits for something and looks again (STEP_POLL), or that
     * it is over (STEP_OVER), by an error where it has set step_error. NULL: an ordinary kernel. */
    uint64_t (*step)(struct work *w, uint64_t at_ns);
    CUresult step_error;
    uint64_t poll_ns;       /* the engine's: from its last look to the next; 0: it does not wait */
    uint64_t poll_since_ns; /* the engine's: its first look at what it waits for */
    void *state;            /* step()'s own, of malloc(); NULL at first, freed behind the last */
    void (*drop)(
        struct work *w); /* gives back what args refer to; called exactly once; may be NULL */
    void (*hold)(
        struct work *w); /* takes what drop gives back once more, for a copy of w (a graph node is
                                   * launched many times); NULL when args refer to nothing */
    bool even_on_error;  /* run effect although the context has failed (cuStreamAddCallback) */
    uint64_t submit_ns, start_ns, end_ns; /* modelled, CLOCK_MONOTONIC; filled by the engine */
    CUcontext context;
    CUstream stream;
    /* arguments of effect/poll/drop: small ones here, long ones in blob */
    union {
        uint64_t u64[12];
        void *ptr[12];
    } args;
    void *blob; /* copied on submit and freed after drop; kernel parameters, batch arrays */
    size_t blob_bytes;
    /* What captures need to make a real graph node of it (kernel node params, ...): the node type,
     * and for kernels blob holds the packed parameters in the function's layout. */
    CUgraphNodeType node_type;
    void *func; /* kernel: struct sim_function * */
};

/*
 * What graphs read of works' args, by node type, beside what their effect needs:
 *   kernel        u64[0..2] grid, u64[3..5] block, u64[6] dynamic shared memory
 *   host          ptr[0] CUhostFn, ptr[1] its argument
 *   event record, event wait (external ones in a capture): ptr[0] CUevent
 *   batch memop   one operation per work; blob is its CUstreamBatchMemOpParams
 */

#define STEP_OVER 0
#define STEP_POLL UINT64_MAX

struct sim_context; /* device/context.h */
struct sim_stream;  /* stream/stream.h */
struct sim_event;   /* stream/event.h */

#endif
