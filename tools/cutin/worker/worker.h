/*
 * worker.h - the processes that `cutin latency` measures with.
 *
 * The command runs itself again as a worker: best effort keeps the GPU busy, real time launches
 * when requests arrive. Requests and replies go over a socket pair (whose end tells either side
 * that the other is gone); figures, parameters and the stop flag lie in memory that both share, so
 * an interrupted run keeps what it has.
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
 * What a measuring thread asks of the machine: a processor, its memory, a class that ordinary
 * threads do not interrupt. Each may be refused; the figures say what was had. */

struct claim {
    int32_t cpu;   /* the thread stays on this processor; -1: it may move */
    bool locked;   /* what the process has touched is never paged out */
    bool realtime; /* SCHED_FIFO, or the real-time class that the user had chosen */
};

/* For the calling thread; memory is the process's. After its helpers were started: they are not to
 * inherit any of it. */
void claim_make(struct claim *c);
/* "pinned to processor 1, locked in memory, SCHED_FIFO", and what is not so. Returns `out`. */
const char *claim_text(const struct claim *c, char *out, size_t size);

/*
 * What the machine itself adds to a latency, before anything shares the GPU: times in which the
 * measuring processor did not run us (as the kernel's hwlat tracer looks for them), and launches on
 * the idle GPU.
 */
enum { FLOOR_GAP_NS = 10000, FLOOR_LAUNCHES = 1000 };

/* Of a thread that did nothing but read the clock. */
struct floor_spin {
    uint64_t ns;                    /* for so long */
    uint64_t gaps, gap_ns, most_ns; /* of FLOOR_GAP_NS and longer: how many, all, the longest */
};

/* Spins for so long. */
void floor_spin(struct floor_spin *f, uint64_t ns);
/* Two readings of the clock, one after the other. */
void floor_look(struct floor_spin *f, uint64_t before_ns, uint64_t now_ns);

/* Descriptors of a worker, from before its exec. */
enum { WORKER_SHARED_FD = 3, WORKER_SOCKET_FD = 4 };

enum { WORKER_WORDS = 256 }; /* that best effort updates with every kernel */

enum worker_op {
    WORKER_RUN,    /* best effort: launch until `stop`; replies kernels and elapsed_ns */
    WORKER_FLOOR,  /* real time: spin for `count` ms, then launch as often on the idle GPU */
    WORKER_SAMPLE, /* real time: take `count` samples; replies when done or stopped */
    WORKER_RESULT, /* best effort: replies the checksum and the total of kernels */
};

struct worker_request {
    uint32_t op;
    uint32_t count;
};

struct worker_reply {
    int32_t error; /* 0, or `why` in the shared memory says what */
    uint32_t pad;
    uint64_t kernels, elapsed_ns, checksum;
};

/* One request of real time, on CLOCK_MONOTONIC. */
struct worker_sample {
    uint64_t gap_ns;     /* by the parent: from the arrival, in a closed loop the end, before it */
    uint64_t arrival_ns; /* when it was to come */
    uint64_t start_ns;   /* when it was launched: later than that where one before it ran */
    uint64_t end_ns;
};

struct worker_shared {
    /* Parameters, written before the worker starts. */
    uint32_t rt_kernel_us, rt_kernels, be_kernel_us;
    uint32_t be_graph; /* kernels of the graph that best effort launches; 0: single kernels */
    uint32_t be_batch; /* kernels that best effort launches before it waits; 0: enough */
    uint32_t capacity; /* of the samples */
    uint32_t warm_up;  /* requests before those of a block, one after the other */
    uint64_t break_ns; /* a block ends with the first answer that takes longer; 0: none does */
    bool closed;       /* the next request comes when the one before is answered */
    /* By the parent. */
    _Atomic uint32_t stop;
    /* By the worker. */
    _Atomic uint32_t samples;  /* so far */
    _Atomic uint64_t launched; /* kernels of the current run */
    struct claim claim;        /* of real time */
    struct floor_spin floor;
    uint64_t floor_launch_ns[FLOOR_LAUNCHES];
    uint32_t floor_launches;
    uint64_t graph_ns; /* what one graph takes by itself */
    int32_t driver_version;
    char gpu[96];
    char why[256];
    struct worker_sample sample[];
};

/* `cutin latency --worker be|rt`: never by hand. Returns the exit status. */
int worker_main(const char *role);

/* What `kernels` updates make of the words 0, 1, 2, ...: the checksum an undisturbed run has. Those
 * of a graph of `be_graph` kernels repeat with it. */
uint64_t worker_expected(uint64_t kernels, uint32_t be_graph);

/* ---- crew.c: the parent's side ------------------------------------------------------------- */

struct worker {
    const char *role; /* "be" or "rt" */
    pid_t pid;        /* 0: none */
    int socket, shared_fd;
    struct worker_shared *shared;
    size_t shared_bytes;
};

/* Memory that the command shares with its workers, zero. Its descriptor, or -errno. */
int worker_memory(const char *name, size_t bytes, void **at);
/* In a worker: that memory. NULL: there is none, or it has fewer bytes than that; `least` becomes
 * how many it has. */
void *worker_map(size_t *least);
/* A child becomes a worker, as environment_of says, with these descriptors (socket -1: none). */
_Noreturn void worker_become(const struct variable *rows, const char *library,
                             const char *simulator, int shared_fd, int socket, const char *program,
                             const char *const words[]);
/* The shared memory, zero but for its capacity; the caller fills in the parameters. 0 or -errno. */
int worker_prepare(struct worker *w, const char *role, uint32_t capacity);
int worker_ask(struct worker *w, enum worker_op op, uint32_t count);
/* The reply to worker_ask. -EPIPE: the worker is gone; -ETIMEDOUT; -ECANCELED once *cancel. */
int worker_reply(struct worker *w, struct worker_reply *reply, uint32_t timeout_ms,
                 const volatile sig_atomic_t *cancel);
/* It has ended: nothing will be read from it any more. */
bool worker_gone(const struct worker *w);
/* What is behind an error of the functions above: the worker's own words where it left some. */
const char *worker_error(const struct worker *w, int rc);
/* How long a worker may take to end: one that did its work, beside whatever else the machine does,
 * and one that nobody waits for any more. */
enum { WORKER_ENDS_MS = 30000, WORKER_GIVEN_UP_MS = 1000 };
/* Ends the process (politely for `patience_ms`, then by SIGKILL) and reaps it; the shared memory
 * stays. Returns the wait status: 0 where it ended in order, or was none. */
int worker_end(struct worker *w, uint32_t patience_ms);
void worker_free(struct worker *w);

#endif
