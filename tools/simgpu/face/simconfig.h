/*
 * simconfig.h - the SIMGPU_* variables, which are read once. simconfig.c has the one table of
 * names, ranges and defaults; README.md explains them.
 */
#ifndef CUTIN_TOOLS_SIMGPU_FACE_SIMCONFIG_H
#define CUTIN_TOOLS_SIMGPU_FACE_SIMCONFIG_H

#include <stdbool.h>
#include <stdint.h>

enum { SIM_CONNECTIONS = 32 };

/* What the resource manager does if a process wants to stop its own channel groups. */
enum sim_rm {
    SIM_RM_OFF,       /* there is none */
    SIM_RM_ACCEPT,    /* does it */
    SIM_RM_IGNORE,    /* says success and does nothing */
    SIM_RM_REFUSE,    /* refuses: no permission */
    SIM_RM_TIMESLICE, /* has time slices and preemption, but no other run list */
};

enum sim_like { LIKE_IDEAL, LIKE_H100_580, LIKE_HOSTILE };

/* What differs between compute capabilities. Shared memory is in bytes. */
struct sim_compute {
    uint32_t arch; /* 86 for 8.6 */
    uint32_t sm_threads, sm_blocks, sm_smem;
    uint32_t block_smem; /* with CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
};

enum sim_waits { WAITS_HONOURED, WAITS_PASS, WAITS_STICK };

struct sim_config {
    enum sim_like like;  /* SIMGPU_LIKE: the device whose times are the defaults of others */
    char id[64];         /* SIMGPU_ID: processes that name the same id share the devices */
    int devices;         /* SIMGPU_DEVICES */
    int compute;         /* SIMGPU_COMPUTE: index of simconfig_compute's table */
    int sms;             /* SIMGPU_SMS: per device */
    int sm_share;        /* SIMGPU_SM_SHARE: percent of them that a context of this process has */
    int link_percent;    /* SIMGPU_LINK_PERCENT: of its speed, for each direction while both work */
    int within_gbps;     /* SIMGPU_WITHIN_GBPS: GB/s of copies and memsets within a device */
    int memory_percent;  /* SIMGPU_MEMORY_PERCENT: of the bandwidth, for kernels on all SMs */
    double speed;        /* SIMGPU_SPEED: modelled durations are divided by it */
    int timeslice_us;    /* SIMGPU_TIMESLICE_US */
    int switch_us;       /* SIMGPU_SWITCH_US */
    int launch_ns;       /* SIMGPU_LAUNCH_NS: host cost of a launch call */
    int load_us;         /* SIMGPU_LOAD_US: host cost of a function's first launch, in addition */
    int event_ns;        /* SIMGPU_EVENT_NS: host cost of recording an event */
    int depth;           /* SIMGPU_DEPTH: works in all streams of a hardware queue; 0: no bound */
    bool full_locks;     /* SIMGPU_FULL_LOCKS: a thread that waits for room keeps others out */
    int mem_mb;          /* SIMGPU_MEM_MB: per device */
    int kernel_us;       /* SIMGPU_KERNEL_US: kernels that the simulator does not know */
    int garbage;         /* SIMGPU_GARBAGE: the byte that new device memory begins with */
    int driver_version;  /* SIMGPU_DRIVER_VERSION */
    int write_ns;        /* SIMGPU_WRITE_NS: the device's front end, per memop write */
    int wait_ns;         /* SIMGPU_WAIT_NS: the same per memop wait, open or not */
    int graph_wait_ns;   /* SIMGPU_GRAPH_WAIT_NS: the same for one in a graph, in addition */
    int word_late_us;    /* SIMGPU_WORD_LATE_US: until a memop write to pinned memory is seen */
    bool acquire_yields; /* SIMGPU_ACQUIRE_YIELDS: a context that waits yields the device */
    int acquire_limit_ms;    /* SIMGPU_ACQUIRE_LIMIT_MS: of a memop wait; 0: there is none */
    int poll_us;             /* SIMGPU_POLL_US: time between looks at a wait that is not over */
    int connections;         /* CUDA_DEVICE_MAX_CONNECTIONS: hardware queues of a context */
    bool host_register;      /* SIMGPU_HOST_REGISTER */
    bool io_memory;          /* SIMGPU_IO_MEMORY */
    bool memops;             /* SIMGPU_MEMOPS */
    enum sim_waits waits;    /* SIMGPU_WAITS */
    enum sim_rm rm;          /* SIMGPU_RM */
    char rm_version[64];     /* SIMGPU_RM_VERSION: the driver's, as the resource manager has it */
    int preempt_us;          /* SIMGPU_PREEMPT_US: from a group's stop until the GPU is free */
    bool peers;              /* SIMGPU_PEERS: devices reach each other's memory */
    int clock;               /* SIMGPU_CLOCK: step: the time of libsimgpu_clock.so */
    bool null_mode;          /* SIMGPU_NULL */
    bool data;               /* SIMGPU_DATA: copies move their data */
    char log[256];           /* SIMGPU_LOG: file, or empty */
    char kernel_times[256];  /* SIMGPU_KERNEL_TIMES: file, "default", or empty */
    char fault_kernel[2048]; /* SIMGPU_FAULT: kernel=NAME:nth=N:error=CODE; empty = none */
    int fault_nth;
    int fault_error;
};

/* The configuration of this process: read and checked at the first call. Thread-safe. */
const struct sim_config *simconfig_get(void);
/* What SIMGPU_COMPUTE stands for. Thread-safe. */
const struct sim_compute *simconfig_compute(void);

/* The name in the simulator's own files. The library has another config_get, and `cutin` contains
 * parts of both. */
static inline const struct sim_config *config_get(void)
{
    return simconfig_get();
}

/* The multiprocessors of a context, at least one. */
static inline uint32_t config_context_sms(void)
{
    uint32_t sms = (uint32_t)config_get()->sms * (uint32_t)config_get()->sm_share / 100;
    return sms ? sms : 1;
}

#endif
