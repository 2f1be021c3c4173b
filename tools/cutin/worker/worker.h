/*
 * worker.h - the processes with which `cutin latency` measures.
 *
 * The command runs itself as a worker: best effort keeps the GPU busy, real time launches when
 * requests arrive. Requests and replies use a socket pair, whose end tells each side that the other
 * is gone. Figures, parameters and the stop flag are in shared memory, so an interrupted run keeps
 * what it has.
 */
#ifndef CUTIN_TOOLS_CUTIN_WORKER_WORKER_H
#define CUTIN_TOOLS_CUTIN_WORKER_WORKER_H

#include "tools/cutin/paths.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- machine.c -----------------------------------------------------------------------------
 *
 * What a measuring thread asks of the machine: a processor, locked memory, and a scheduling class
 * that ordinary threads do not interrupt. Each may be refused; the figures say what it got. */

struct claim {
    int32_t cpu;   /* the thread stays on this processor; -1: it may move */
    bool locked;   /* what the process has touched stays in memory */
    bool realtime; /* SCHED_FIFO, or the user's own real-time class */
};

/* Claims for the calling thread, and memory for the process. Call this after helper threads were
 * started, because they must not inherit it. */
void claim_apply(struct claim *c);
/* Such as "pinned to processor 1, not locked in memory, in a real-time class". Returns `out`. */
const char *claim_text(const struct claim *c, char *out, size_t size);

/*
 * What the machine itself adds to a latency while nothing else uses the GPU: times in which the
 * measuring processor did not run this thread (as the kernel's hwlat tracer finds them), and
 * launches on the idle GPU.
 */
enum { FLOOR_GAP_NS = 10000, FLOOR_LAUNCHES = 1000 };

/* Of a thread that only reads the clock. */
struct floor_spin {
    uint64_t ns;                    /* for how long */
    uint64_t gaps, gap_ns, most_ns; /* gaps of FLOOR_GAP_NS or more: number, sum, longest */
};

/* Spins for `ns`. */
void floor_spin(struct floor_spin *f, uint64_t ns);
/* Takes two readings of the clock, one after the other. */
void floor_add(struct floor_spin *f, uint64_t before_ns, uint64_t now_ns);

/* Descriptors that a worker has from before its exec. */
enum { WORKER_SHARED_FD = 3, WORKER_SOCKET_FD = 4 };

enum { WORKER_WORDS = 256 }; /* words that best effort updates with every kernel */

enum worker_op {
    WORKER_RUN,    /* best effort: launch until `stop`; leaves kernels and elapsed_ns */
    WORKER_FLOOR,  /* real time: spin for `count` ms, then launch as often on the idle GPU */
    WORKER_SAMPLE, /* real time: take `count` samples; replies when done or stopped */
    WORKER_RESULT, /* best effort: leaves the checksum and the total of kernels */
};

/* The reply is an int32_t: 0, or an error that `why` in the shared memory explains. */
struct worker_request {
    uint32_t op;
    uint32_t count;
};

/* One request of real time; times of CLOCK_MONOTONIC. */
struct worker_sample {
    uint64_t gap_ns;     /* by the parent: from the previous arrival, in a closed loop its end */
    uint64_t arrival_ns; /* when it was planned */
    uint64_t start_ns;   /* when it was launched: later if another request ran before it */
    uint64_t end_ns;
};

struct worker_shared {
    /* Parameters, written before the worker starts. */
    uint32_t rt_kernel_us, rt_kernels, be_kernel_us;
    uint32_t be_graph; /* kernels in best effort's graph; 0: single kernels */
    uint32_t be_batch; /* kernels that best effort launches before it waits; 0: enough */
    uint32_t capacity; /* of `sample` */
    uint32_t warm_up;  /* requests before a block's samples, one after the other */
    uint64_t break_ns; /* the first answer that takes longer ends the block; 0: none does */
    bool closed;       /* the next request comes after the answer to the one before */
    /* Written by the parent. */
    _Atomic uint32_t stop;
    /* Written by the worker. */
    _Atomic uint32_t samples;  /* so far */
    _Atomic uint64_t launched; /* kernels of the current run */
    /* Of the request that was replied to last. */
    uint64_t kernels, elapsed_ns, checksum;
    struct claim claim; /* of the real-time worker */
    struct floor_spin floor;
    uint64_t floor_launch_ns[FLOOR_LAUNCHES];
    uint32_t floor_launches;
    uint64_t graph_ns; /* how long one graph takes by itself */
    int32_t driver_version;
    char gpu[96];
    char why[256];
    struct worker_sample sample[];
};

/* `cutin latency --worker be|rt`, which the command starts itself. Returns the exit status. */
int worker_main(const char *role);

/* The checksum of an undisturbed run: `kernels` updates of the words 0, 1, 2, ... With a graph of
 * `be_graph` kernels the updates repeat with the graph. */
uint64_t worker_expected_sum(uint64_t kernels, uint32_t be_graph);

/* ---- the parent's side --------------------------------------------------------------------- */

struct worker {
    const char *role; /* "be" or "rt" */
    pid_t pid;        /* 0: none */
    int socket, shared_fd;
    struct worker_shared *shared;
    size_t shared_bytes;
};

/* Makes zeroed memory to share with workers. Returns its descriptor, or -errno. */
int worker_memory(const char *name, size_t bytes, void **at);
/* Maps that memory in a worker. NULL: there is none, or it has fewer than `least` bytes. `least`
 * becomes its size. */
void *worker_map(size_t *least);
/* Turns a child into a worker with these descriptors (socket -1: none), as environment_setup
 * says. */
_Noreturn void worker_exec(const struct variable *rows, const char *library, const char *simulator,
                           int shared_fd, int socket, const char *program,
                           const char *const words[]);
/* The shared memory, zero but for its capacity; the caller fills in the parameters. 0 or -errno. */
int worker_prepare(struct worker *w, const char *role, uint32_t capacity);
int worker_ask(struct worker *w, enum worker_op op, uint32_t count);
/* Waits for a reply. -EPIPE: the worker is gone; -ETIMEDOUT; -ECANCELED: *cancel is set. */
int worker_reply(struct worker *w, uint32_t timeout_ms, const volatile sig_atomic_t *cancel);
/* Whether it has ended: nothing more will be read from it. */
bool worker_gone(const struct worker *w);
/* Explains an error of the functions above, in the worker's own words if it left some. */
const char *worker_error(const struct worker *w, int rc);
/* How long a worker may take to end. The first is for one that did its work, whatever else the
 * machine does; the second for one whose work is given up. */
enum { WORKER_ENDS_MS = 30000, WORKER_GIVEN_UP_MS = 1000 };
/* Asks the process to end, kills it by SIGKILL after `patience_ms`, and reaps it. The shared memory
 * stays. Returns the wait status; 0: it ended in order, or there was none. */
int worker_end(struct worker *w, uint32_t patience_ms);
void worker_free(struct worker *w);

#endif
