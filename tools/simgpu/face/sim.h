/*
 * sim.h - what all folders of the simulated driver use: CUDA's types, works, and points in streams.
 *
 * The folders from top to bottom. Each knows those below it, and all know this file
 * (tests/arrows.c):
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
/* A function of the driver: SIM_BODY takes its statements, SIM_CALL what it returns. */
#define SIM_BODY(name, parameters, ...)                                                            \
    SIM_EXPORT CUresult name parameters;                                                           \
    SIM_EXPORT CUresult name parameters                                                            \
    {                                                                                              \
        __VA_ARGS__;                                                                               \
    }
#define SIM_CALL(name, parameters, ...) SIM_BODY(name, parameters, return __VA_ARGS__)
/* A function that puts `value` into `out`; its statements find the value. */
#define SIM_GETTER(name, parameters, out, value, ...)                                              \
    SIM_BODY(name, parameters, __VA_ARGS__; if (!(out)) return CUDA_ERROR_INVALID_VALUE;           \
             *(out) = (value); return CUDA_SUCCESS)
/* Another name of a function. It has its own address, as in a real driver. */
#define SIM_ALIAS(name, parameters, of, ...) SIM_CALL(name, parameters, of(__VA_ARGS__))
/* Returns the error of the call to the caller. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        CUresult try_rc = (call);                                                                  \
        if (try_rc != CUDA_SUCCESS)                                                                \
            return try_rc;                                                                         \
    } while (0)

/* Locks the mutex until the block ends, however it is left. */
#define SCOPED_LOCK(mutex)                                                                         \
    pthread_mutex_t *held __attribute__((cleanup(scope_unlock), unused)) = scope_lock(mutex)

static inline pthread_mutex_t *scope_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void scope_unlock(pthread_mutex_t **held)
{
    pthread_mutex_unlock(*held);
}

/* Room for one more behind `count` items. It doubles at powers of two, so no capacity has to be
 * kept. NULL: no memory, and the array is unchanged. */
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
    WORK_HOST,   /* blocks its stream until effect() has run in the callback thread */
    WORK_GRAPH,  /* blocks its stream until poll() is true; what it runs is in other streams */
};

/* A point in a stream. It is complete when the stream's work number `seq` is. Stream 0: nothing. */
struct point {
    uint32_t stream;
    uint64_t seq;
};

/*
 * One stream-ordered piece of work, by value. work_submit copies it, with its `blob`. So callers
 * can build it on their stack, and graph nodes can keep it.
 */
struct work {
    enum work_kind kind;
    const char *
        name; /* kernel entry name or API noun, for the device event log; NULL: none; never freed */
    uint64_t cost_ns;         /* modelled duration when it runs alone, before SIMGPU_SPEED */
    uint32_t blocks, threads; /* per grid and per block: SM occupancy */
    uint32_t smem;            /* bytes per block */
    uint8_t engine;           /* of a copy: enum copy_engine */
    bool zero_sms;            /* a kernel that leaves its multiprocessor to other kernels */
    /* Runs at the modelled completion (WORK_HOST: in the callback thread), in the order of these.
     * May be NULL. Returns CUDA_SUCCESS, or the asynchronous (sticky) error that it raises. */
    CUresult (*effect)(struct work *w);
    bool (*poll)(struct work *w); /* WORK_WAIT only */
    /* For a resident kernel, which acts while it runs; NULL: an ordinary kernel. step() is called
     * at modelled instants at_ns, first at the kernel's start. It returns how long the kernel runs
     * until the next one (ns, before SIMGPU_SPEED), or RUN_POLL: it waits for something and looks
     * again, or RUN_OVER: it is over, with an error if it has set step_error. */
    uint64_t (*step)(struct work *w, uint64_t at_ns);
    CUresult step_error;
    uint64_t poll_ns;       /* of the engine: from its last look to the next; 0: it does not wait */
    uint64_t poll_since_ns; /* of the engine: its first look at what the kernel waits for */
    void *state;            /* of step(), by malloc(); NULL at first, freed after the last one */
    void (*drop)(
        struct work *w); /* gives back what args refer to; called exactly once; may be NULL */
    void (*retain)(
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
    /* For captures, which make a graph node of the work: the node's type. Of kernels, blob has the
     * packed parameters in the function's layout. */
    CUgraphNodeType node_type;
    void *func; /* kernel: struct sim_function * */
};

/*
 * What graphs read in the args of works, by node type, besides what their effects need:
 *   kernel        u64[0..2] grid, u64[3..5] block, u64[6] dynamic shared memory
 *   host          ptr[0] CUhostFn, ptr[1] its argument
 *   event record, event wait (external ones in a capture): ptr[0] CUevent
 *   batch memop   one operation per work; blob is its CUstreamBatchMemOpParams
 */

#define RUN_OVER 0
#define RUN_POLL UINT64_MAX

struct sim_context; /* device/context.h */
struct sim_stream;  /* stream/stream.h */
struct sim_event;   /* stream/event.h */

#endif
