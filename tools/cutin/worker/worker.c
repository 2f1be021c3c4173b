/*
 * worker.c - the worker processes of `cutin latency`, best effort or real time, and how their
 * parent makes, asks and ends them.
 */
#include "worker.h"
#include "tools/cutin/daemon.h"
#include "tools/cutin/subcommand.h"
#include "tools/facts/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels_ptx.h"
#include "common/clock.h"

enum {
    THREADS = 256,
    WARM_UP = 5, /* not sampled: first launches load the kernels */
    BATCHES = 4, /* batches of best-effort kernels in the queue */
    GRAPHS = 2,  /* graphs in the queue, if a batch is one graph */
    MOST_BATCH = 16,
    BATCH_US = 5000,
    SPIN_NS = 100000,
    SLICE_NS = 50000000, /* a stop is noticed after this at most, */
    SLICE_MS = 50,       /* and a signal by the parent */
};

struct gpu {
    struct driver cu;
    struct device device;
    CUmodule module;
    CUstream stream;
    CUfunction spin, mix_spin;
    CUevent done[BATCHES];
    CUdeviceptr words;
    CUgraph graph;
    CUgraphExec exec; /* NULL: best effort launches kernels one by one */
    uint32_t full;    /* blocks that fill the device */
    uint64_t updates;
};

static struct worker_shared *shared;

#define TRY(name, ...) DRIVER_TRY(&g->cu, shared->why, #name, name, __VA_ARGS__)

/* ---- the updates and their checksum -------------------------------------------------------- */

/* Odd factors lose no bits, so a lost, repeated or swapped update always shows. */
static uint32_t mix_a(uint64_t k)
{
    return (uint32_t)(k * 2654435761u) | 1u;
}

static uint32_t mix_b(uint64_t k)
{
    return (uint32_t)(k * 40503u + 12345u);
}

static uint64_t checksum(const uint32_t *words)
{
    uint64_t sum = 0xcbf29ce484222325u; /* FNV-1a over words */

    for (int i = 0; i < WORKER_WORDS; i++)
        sum = (sum ^ words[i]) * 0x100000001b3u;
    return sum;
}

uint64_t worker_expected_sum(uint64_t kernels, uint32_t be_graph)
{
    uint32_t words[WORKER_WORDS], a = 1, b = 0;

    /* Applies all updates in a row as one multiplication and one addition. */
    for (uint64_t i = 0; i < kernels; i++) {
        uint64_t k = be_graph ? i % be_graph : i;
        a *= mix_a(k);
        b = b * mix_a(k) + mix_b(k);
    }
    for (uint32_t i = 0; i < WORKER_WORDS; i++)
        words[i] = i * a + b;
    return checksum(words);
}

/* ---- the GPU ------------------------------------------------------------------------------- */

static int gpu_open(struct gpu *g)
{
    uint32_t words[WORKER_WORDS];
    const struct device *d = &g->device;
    int rc = driver_open(&g->cu, &g->device, shared->why, sizeof(shared->why));

    if (rc != 0)
        return rc;
    shared->driver_version = d->driver_version;
    snprintf(shared->gpu, sizeof(shared->gpu), "%s", d->name);
    g->full = (uint32_t)(d->processors * d->threads_per_processor / THREADS);
    TRY(cuModuleLoadData, &g->module, kernels_ptx);
    TRY(cuModuleGetFunction, &g->spin, g->module, "spin");
    TRY(cuModuleGetFunction, &g->mix_spin, g->module, "mix_spin");
    TRY(cuStreamCreate, &g->stream, CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < BATCHES; i++)
        TRY(cuEventCreate, &g->done[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    TRY(cuMemAlloc, &g->words, sizeof(words));
    for (uint32_t i = 0; i < WORKER_WORDS; i++)
        words[i] = i;
    TRY(cuMemcpyHtoDAsync, g->words, words, sizeof(words), g->stream);
    TRY(cuStreamSynchronize, g->stream);
    return 0;
}

static int gpu_close(struct gpu *g)
{
    if (g->exec) {
        TRY(cuGraphExecDestroy, g->exec);
        TRY(cuGraphDestroy, g->graph);
    }
    for (int i = 0; i < BATCHES; i++)
        TRY(cuEventDestroy, g->done[i]);
    TRY(cuMemFree, g->words);
    TRY(cuStreamDestroy, g->stream);
    TRY(cuDevicePrimaryCtxRelease, g->device.id);
    return 0;
}

/* ---- best effort --------------------------------------------------------------------------- */

/* One update: x = x * a + b. */
static int launch_update(struct gpu *g, uint32_t a, uint32_t b)
{
    uint64_t ns = shared->be_kernel_us * NS_PER_US;
    uint32_t n = WORKER_WORDS;
    void *args[] = {&g->words, &a, &b, &n, &ns};

    TRY(cuLaunchKernel, g->mix_spin, g->full, 1, 1, THREADS, 1, 1, 0, g->stream, args, NULL);
    return 0;
}

static int launch_next(struct gpu *g)
{
    uint64_t k = g->updates;

    g->updates += g->exec ? shared->be_graph : 1;
    if (!g->exec)
        return launch_update(g, mix_a(k), mix_b(k));
    TRY(cuGraphLaunch, g->exec, g->stream);
    return 0;
}

/* Warms up before making the graph, as programs do, so that the kernel's time is known then. The
 * graph's time is that of its shortest launch. */
static int graph_warm_up(struct gpu *g)
{
    uint64_t ns = shared->be_kernel_us * NS_PER_US;
    CUgraphNode last = NULL;
    int rc;

    for (int i = 0; i < 2 * WARM_UP; i++) {
        if ((rc = launch_update(g, 1, 0)) != 0) /* changes nothing */
            return rc;
        TRY(cuStreamSynchronize, g->stream);
    }
    /* A chain: each kernel follows the one before. */
    TRY(cuGraphCreate, &g->graph, 0);
    for (uint32_t k = 0; k < shared->be_graph; k++) {
        uint32_t a = mix_a(k), b = mix_b(k), n = WORKER_WORDS;
        void *args[] = {&g->words, &a, &b, &n, &ns};
        CUDA_KERNEL_NODE_PARAMS node = driver_kernel_node(g->mix_spin, g->full, THREADS, args);
        CUgraphNode after = last;

        TRY(cuGraphAddKernelNode, &last, g->graph, k ? &after : NULL, k ? 1 : 0, &node);
    }
    TRY(cuGraphInstantiateWithFlags, &g->exec, g->graph, 0);
    for (int i = 0; i < GRAPHS; i++) {
        uint64_t start_ns = clock_ns(), took_ns;
        if ((rc = launch_next(g)) != 0)
            return rc;
        TRY(cuStreamSynchronize, g->stream);
        took_ns = clock_ns() - start_ns;
        if (i == 0 || took_ns < shared->graph_ns)
            shared->graph_ns = took_ns;
    }
    return 0;
}

/* Queues enough to keep any GPU busy, and at most about 20 ms of it if kernels are that short.
 * Counts what was done before the stop: the rest of the queue runs without real time. */
static int best_effort(struct gpu *g)
{
    uint32_t batches = g->exec ? GRAPHS : shared->be_batch ? 1 : BATCHES;
    uint32_t batch = BATCH_US / shared->be_kernel_us;
    uint64_t start_ns = clock_ns(), first = g->updates, launched[BATCHES] = {0};
    int rc;

    batch = batch < 1 ? 1 : batch > MOST_BATCH ? MOST_BATCH : batch;
    if (g->exec || shared->be_batch)
        batch = g->exec ? 1 : shared->be_batch;
    for (uint32_t i = 0; !atomic_load_explicit(&shared->stop, memory_order_relaxed); i++) {
        TRY(cuEventSynchronize, g->done[i % batches]);
        if (i >= batches) {
            shared->kernels = launched[i % batches];
            shared->elapsed_ns = clock_ns() - start_ns;
        }
        for (uint32_t k = 0; k < batch; k++)
            if ((rc = launch_next(g)) != 0)
                return rc;
        TRY(cuEventRecord, g->done[i % batches], g->stream);
        launched[i % batches] = g->updates - first;
        atomic_store_explicit(&shared->launched, g->updates - first, memory_order_relaxed);
    }
    TRY(cuStreamSynchronize, g->stream);
    return 0;
}

/* ---- real time ----------------------------------------------------------------------------- */

/* Sleeps, then spins, so that a late timer does not count as the GPU's latency. False: stop. */
static bool await_arrival(uint64_t arrival_ns)
{
    uint64_t now;

    while ((now = clock_ns()) < arrival_ns) {
        if (atomic_load_explicit(&shared->stop, memory_order_relaxed))
            return false;
        if (arrival_ns - now <= SPIN_NS)
            continue;
        now += SLICE_NS;
        clock_sleep_until(now < arrival_ns - SPIN_NS ? now : arrival_ns - SPIN_NS);
    }
    return !atomic_load_explicit(&shared->stop, memory_order_relaxed);
}

static int launch_and_wait(struct gpu *g, struct worker_sample *s)
{
    uint64_t ns = (uint64_t)shared->rt_kernel_us * 1000;
    void *args[] = {&ns};

    s->start_ns = clock_ns();
    for (uint32_t k = 0; k < shared->rt_kernels; k++)
        TRY(cuLaunchKernel, g->spin, 1, 1, 1, 32, 1, 1, 0, g->stream, args, NULL);
    TRY(cuStreamSynchronize, g->stream);
    s->end_ns = clock_ns();
    return 0;
}

/* Leaves no request out: one that came while another was served is served next. */
static int real_time(struct gpu *g, uint32_t count)
{
    uint32_t have = atomic_load_explicit(&shared->samples, memory_order_relaxed);
    struct worker_sample ignored;
    uint64_t last_ns;
    int rc;

    for (uint32_t i = 0; i < shared->warm_up; i++)
        if ((rc = launch_and_wait(g, &ignored)) != 0)
            return rc;
    last_ns = clock_ns();
    for (uint32_t i = 0; i < count && have < shared->capacity; i++) {
        struct worker_sample *s = &shared->sample[have];
        s->arrival_ns = last_ns + s->gap_ns;
        if (!await_arrival(s->arrival_ns))
            break;
        if ((rc = launch_and_wait(g, s)) != 0)
            return rc;
        last_ns = shared->closed ? s->end_ns : s->arrival_ns;
        /* Pairs with the parent's acquire: a sample that is counted has been written. */
        atomic_store_explicit(&shared->samples, ++have, memory_order_release);
        if (shared->break_ns && s->end_ns - s->arrival_ns > shared->break_ns)
            break;
    }
    return 0;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int warm_up(struct gpu *g, bool rt)
{
    struct worker_sample ignored;
    int rc = 0;

    if (!rt && shared->be_graph)
        return graph_warm_up(g);
    for (int i = 0; i < WARM_UP && rc == 0; i++)
        rc = rt ? launch_and_wait(g, &ignored) : launch_next(g);
    if (rc == 0)
        TRY(cuStreamSynchronize, g->stream);
    return rc;
}

static int answer(struct gpu *g, const struct worker_request *request)
{
    uint32_t words[WORKER_WORDS], *launches = &shared->floor_launches;
    struct worker_sample s;
    int rc;

    switch (request->op) {
    case WORKER_RUN:
        return best_effort(g);
    case WORKER_FLOOR: /* best effort does not run on the GPU yet */
        floor_spin(&shared->floor, request->count * NS_PER_MS);
        for (*launches = 0; *launches < request->count && *launches < FLOOR_LAUNCHES &&
                            await_arrival(clock_ns() + NS_PER_MS);) {
            if ((rc = launch_and_wait(g, &s)) != 0)
                return rc;
            shared->floor_launch_ns[(*launches)++] = s.end_ns - s.start_ns;
        }
        return 0;
    case WORKER_SAMPLE:
        return real_time(g, request->count);
    case WORKER_RESULT:
        TRY(cuMemcpyDtoHAsync, words, g->words, sizeof(words), g->stream);
        TRY(cuStreamSynchronize, g->stream);
        shared->checksum = checksum(words);
        shared->kernels = g->updates;
        return 0;
    default:
        snprintf(shared->why, sizeof(shared->why), "unknown request %u", request->op);
        return -EINVAL;
    }
}

void *worker_map(size_t *least)
{
    struct stat st;
    void *at;

    if (fstat(WORKER_SHARED_FD, &st) != 0 || st.st_size < (off_t)*least)
        return NULL;
    *least = (size_t)st.st_size;
    at = mmap(NULL, *least, PROT_READ | PROT_WRITE, MAP_SHARED, WORKER_SHARED_FD, 0);
    return at != MAP_FAILED ? at : NULL;
}

int worker_main(const char *role)
{
    static struct gpu gpu;
    bool rt = strcmp(role, "rt") == 0;
    struct worker_request request;
    size_t bytes = sizeof(*shared);
    int32_t rc;

    shared = worker_map(&bytes);
    if (!shared || bytes < sizeof(*shared) + shared->capacity * sizeof(struct worker_sample)) {
        fprintf(stderr, "cutin latency: --worker is for cutin itself\n");
        return 2;
    }
    prctl(PR_SET_TIMERSLACK, 1000);
    rc = gpu_open(&gpu);
    if (rc == 0)
        rc = warm_up(&gpu, rt);
    if (rc == 0 && rt)
        claim_apply(&shared->claim);
    /* The first reply says that the worker is ready, or why not. */
    while (send(WORKER_SOCKET_FD, &rc, sizeof(rc), MSG_NOSIGNAL) == sizeof(rc) && rc == 0) {
        if (TEMP_FAILURE_RETRY(recv(WORKER_SOCKET_FD, &request, sizeof(request), 0)) !=
            sizeof(request))
            break; /* the parent is done */
        shared->kernels = shared->elapsed_ns = 0;
        rc = answer(&gpu, &request);
    }
    return rc == 0 && gpu_close(&gpu) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the parent's side ---------------------------------------------------------------------- */

int worker_memory(const char *name, size_t bytes, void **at)
{
    int fd = memfd_create(name, MFD_CLOEXEC);

    if (fd < 0)
        return -errno;
    *at = ftruncate(fd, (off_t)bytes) == 0
              ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
              : MAP_FAILED;
    if (*at != MAP_FAILED)
        return fd;
    close(fd);
    return -ENOMEM;
}

int worker_prepare(struct worker *w, const char *role, uint32_t capacity)
{
    size_t bytes = sizeof(*w->shared) + capacity * sizeof(struct worker_sample);
    void *at;
    int fd = worker_memory("cutin-latency", bytes, &at);

    if (fd < 0)
        return fd;
    *w = (struct worker){
        .role = role, .socket = -1, .shared_fd = fd, .shared = at, .shared_bytes = bytes};
    w->shared->capacity = capacity;
    return 0;
}

/* After fork it may call what is not async-signal-safe, because the command has one thread. */
void worker_exec(const struct variable *rows, const char *library, const char *simulator,
                 int shared_fd, int socket, const char *program, const char *const words[])
{
    /* Moves the descriptors away from the two fixed numbers first. */
    int m = fcntl(shared_fd, F_DUPFD, WORKER_SOCKET_FD + 1);
    int s = socket < 0 ? m : fcntl(socket, F_DUPFD, WORKER_SOCKET_FD + 1);

    if (s < 0 || m < 0 || dup2(m, WORKER_SHARED_FD) < 0 || dup2(s, WORKER_SOCKET_FD) < 0 ||
        environment_setup(rows, library, simulator) != 0)
        _exit(EXIT_CANNOT_RUN);
    close_range(socket < 0 ? WORKER_SOCKET_FD : WORKER_SOCKET_FD + 1, ~0U, 0);
    /* stdout is for the command's own figures only. */
    dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(program, (char *const *)(uintptr_t)words);
    _exit(EXIT_CANNOT_RUN);
}

int worker_ask(struct worker *w, enum worker_op op, uint32_t count)
{
    struct worker_request request = {.op = op, .count = count};

    atomic_store_explicit(&w->shared->stop, 0, memory_order_relaxed);
    atomic_store_explicit(&w->shared->launched, 0, memory_order_relaxed);
    return send(w->socket, &request, sizeof(request), MSG_NOSIGNAL) == sizeof(request) ? 0 : -EPIPE;
}

int worker_reply(struct worker *w, uint32_t timeout_ms, const volatile sig_atomic_t *cancel)
{
    struct pollfd pfd = {.fd = w->socket, .events = POLLIN};
    int32_t error;

    for (uint32_t waited = 0; poll(&pfd, 1, SLICE_MS) <= 0; waited += SLICE_MS) {
        if (cancel && *cancel)
            return -ECANCELED;
        if (waited >= timeout_ms)
            return -ETIMEDOUT;
    }
    return recv(w->socket, &error, sizeof(error), MSG_DONTWAIT) == sizeof(error) ? error : -EPIPE;
}

bool worker_gone(const struct worker *w)
{
    char byte;

    return recv(w->socket, &byte, sizeof(byte), MSG_PEEK | MSG_DONTWAIT) == 0;
}

const char *worker_error(const struct worker *w, int rc)
{
    if (w->shared->why[0])
        return w->shared->why;
    return rc == -EPIPE       ? "it ended unexpectedly"
           : rc == -ETIMEDOUT ? "it does not answer"
                              : strerror(-rc);
}

int worker_end(struct worker *w, uint32_t patience_ms)
{
    int status;

    if (w->pid <= 0)
        return 0;
    atomic_store_explicit(&w->shared->stop, 1, memory_order_relaxed);
    close(w->socket); /* the worker reads the end of the socket and exits */
    w->socket = -1;
    status = reap_or_kill(w->pid, clock_ns() + patience_ms * UINT64_C(1000000));
    w->pid = 0;
    return status;
}

void worker_free(struct worker *w)
{
    worker_end(w, WORKER_GIVEN_UP_MS);
    if (!w->shared)
        return;
    munmap(w->shared, w->shared_bytes);
    close(w->shared_fd);
    w->shared = NULL;
}
