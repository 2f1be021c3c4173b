/*
 * shared.h - the simulated devices that processes share: their state in one file of shared memory.
 * device.c says who takes part, timeline.c what runs when. The file has no CUDA types and no
 * pointers: a process keeps effects and arguments to itself, and tells the device only kinds,
 * costs, sizes and dependencies.
 *
 * Any process that holds the lock can advance the timeline to any time. So starts and ends are
 * computed, and it does not matter which process is awake. What can be found by looking (free SMs,
 * free copy engines, done streams) is never counted: a process that is killed at any instruction
 * leaves at most one step half done, and device_repair() completes it.
 *
 * Times are CLOCK_MONOTONIC nanoseconds. `clock` is the time of the last event, not the present. If
 * the owner notices late that work can start, it starts at the time at which it could have started.
 */
#ifndef CUTIN_TOOLS_SIMGPU_DEVICE_SHARED_H
#define CUTIN_TOOLS_SIMGPU_DEVICE_SHARED_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    DEVICE_GPUS = 8,
    DEVICE_CLIENTS = 64,
    DEVICE_CONTEXTS = 256,
    DEVICE_STREAMS = 1024, /* a power of two: ids are generation * DEVICE_STREAMS + slot */
    DEVICE_RING = 1024,    /* works a stream can hold: the real driver blocks past 1024 launches */
    DEVICE_DEPENDENCIES = 2, /* of an op; if it has more, empty ops go in front */
    SLOWED_ONE = 256,
};
#define DEVICE_NEVER UINT64_MAX

enum op_kind {
    OP_KERNEL, /* takes `sms` SMs for its cost, while its context has the GPU */
    OP_COPY,   /* takes its copy engine for its cost */
    OP_MARK,   /* takes only time, its cost; the record of an event costs none */
    OP_WAIT,   /* as OP_MARK, but ends when its owner says so: memop waits */
    OP_HOST,   /* as OP_WAIT: host functions */
};
/* One engine for each direction. Copies to the device and to the host share the link. */
enum copy_engine { ENGINE_WITHIN, ENGINE_TO_DEVICE, ENGINE_TO_HOST, DEVICE_COPY_ENGINES };
enum op_state { OP_QUEUED, OP_RUNNING, OP_PAUSED, OP_HANDED, OP_DONE };
enum op_flag {
    OP_ALWAYS = 1, /* is handed to its owner even in an aborted context */
    OP_TAKEN = 2,  /* its owner has noticed that it was handed */
    /* A kernel that its owner steers. At the end of each piece it is handed to the owner, keeps its
     * SMs, and device_resume gives it more to run. */
    OP_RESIDENT = 4,
    OP_AWAY = 8, /* of a handed resident kernel: its context does not have the GPU, and cost_ns is
                    for how long it had run past its end_ns */
};

/* Complete when the op with these low bits of `seq` is done. Stream 0: no dependency. */
struct op_point {
    uint32_t stream, seq;
};

struct op {
    uint64_t cost_ns; /* still to run */
    uint64_t submit_ns, start_ns, end_ns;
    uint64_t ticket; /* order of submission; once done, order of completion */
    struct op_point after[DEVICE_DEPENDENCIES];
    uint16_t sms;
    uint8_t kind, state, flags;
    uint8_t engine;  /* of a copy */
    uint16_t slowed; /* while it runs: its slowdown against running alone, times SLOWED_ONE */
};
static_assert(sizeof(struct op) == 64, "a ring of ops is 64 KiB");

struct device_stream {
    uint32_t id; /* 0 = free slot */
    uint32_t generation;
    uint32_t client, context; /* slots */
    int32_t priority;         /* lower is more urgent, as in CUDA */
    uint32_t queue;           /* hardware queue within the context; 0 = its own */
    uint64_t head;            /* the first op that is not done; tail + 1 when all are */
    uint64_t tail;            /* the last op submitted */
    uint64_t reaped;          /* the last op whose completion its owner has handled */
    uint64_t completed;       /* the last op whose effect has run, for other processes to see */
    uint64_t spare2;
};
static_assert(sizeof(struct device_stream) == 64, "one cache line");

struct device_context {
    uint32_t id; /* 0 = free slot */
    uint32_t generation;
    uint32_t client, gpu;
    uint32_t aborted;  /* a sticky error: what is queued ends at once */
    uint32_t off;      /* its channel group is off the run list: none of its work starts or runs */
    uint32_t sms;      /* the most SMs that its kernels take together; 0: all */
    uint64_t slice_ns; /* its group's time slice; 0: the device's */
};

struct device_gpu {
    uint32_t current; /* context slot + 1; 0 = none yet */
    uint32_t spare;
    uint64_t slice_end_ns;  /* 0: the current context was idle */
    uint64_t switch_end_ns; /* until then the GPU is switching to `current` */
};

struct device_client {
    pthread_mutex_t alive; /* robust; the client's engine thread holds it for life */
    uint32_t in_use;
    int32_t pid;
    uint32_t wake; /* futex on which the engine sleeps */
    uint32_t spare;
    uint64_t sleep_until_ns;      /* 0 = awake */
    uint64_t memory[DEVICE_GPUS]; /* bytes of each GPU's memory that the client has taken */
};

struct device_params {
    uint32_t gpus, sms;
    uint64_t timeslice_ns, switch_ns;
    uint32_t memory_percent;    /* of the memory bandwidth, that kernels on all SMs ask for */
    uint32_t link_percent;      /* of its speed, that each direction has while both work; 0: all */
    uint32_t waits_keep_slices; /* a context that waits at a memop wait still gets its slices */
};

struct device_shared {
    uint32_t magic, version;
    uint64_t bytes;
    pthread_mutex_t lock;
    struct device_params params;
    uint64_t clock, tickets;
    uint32_t streams_used; /* slots ever used; scans end there */
    uint32_t spare;
    struct device_gpu gpus[DEVICE_GPUS];
    struct device_client clients[DEVICE_CLIENTS];
    struct device_context contexts[DEVICE_CONTEXTS];
    struct device_stream streams[DEVICE_STREAMS];
    struct op rings[DEVICE_STREAMS][DEVICE_RING];
};

/* One process's view of the devices. */
struct device {
    struct device_shared *shared;
    int fd;
    uint32_t client; /* slot */
    char name[128];
};

static inline struct device_stream *device_stream(struct device *d, uint32_t id)
{
    return &d->shared->streams[id % DEVICE_STREAMS];
}

static inline struct op *stream_op(struct device_shared *sh, const struct device_stream *s,
                                   uint64_t seq)
{
    return &sh->rings[s - sh->streams][seq % DEVICE_RING];
}

/* How much of a GPU's memory is used. */
static inline uint64_t gpu_memory_used(const struct device_shared *sh, uint32_t gpu)
{
    uint64_t sum = 0;
    for (int i = 0; i < DEVICE_CLIENTS; i++)
        if (sh->clients[i].in_use)
            sum += sh->clients[i].memory[gpu];
    return sum;
}

/* A killed process leaves its stores in program order; the compiler must keep to that order. */
static inline void device_publish(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
