/*
 * operations.c - operations of a program whose instructions tools/bench counts under callgrind.
 *
 *   operations                 prints the groups that there are
 *   operations GROUP           makes the operations of one
 *   operations --other LEVEL   a client that is only there, until its stdin ends
 *
 * Each operation is made so many times, and callgrind collects nothing else; the dump has its name.
 * The driver is the simulated one in its null mode, whose work is done in the call. The thread that
 * is counted has a clock of its own, which goes on by a microsecond when it is asked: what looks at
 * the time does the same in every run.
 */
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <valgrind/callgrind.h>

#include "common/record.h"
#include "kernels_ptx.h"
#include "scheduler/wire/query.h"
#include "shim/cutin.h"
#include "tests/scheduler/place.h"

enum {
    TIMES = 128,
    FEW = 16,   /* with more in flight, a thread that looks may take over when a call takes long */
    ROUNDS = 5, /* the cheapest counts: work that falls due now and then is no part of a launch */
    WARM = 6,
    TRIALS = 32,
    STREAMS = 1000,
    FUNCTIONS = 10000,
    OTHERS = 64,
    THREADS = 64
};

static void must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "operations: %s = %d\n", what, (int)r);
    exit(1);
}
#define MUST(call) must(call, #call)

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- counting -------------------------------------------------------------------------------- */

static _Thread_local uint64_t stepped_ns; /* 0: the machine's clock */
static _Atomic bool counting, parked;     /* the library's thread for the scheduler has stopped */
static _Atomic unsigned rounds;

__attribute__((noinline, visibility("default"))) int clock_gettime(clockid_t clock,
                                                                   struct timespec *at)
{
    if (!stepped_ns || clock != CLOCK_MONOTONIC)
        return (int)syscall(SYS_clock_gettime, clock, at);
    stepped_ns += 1000;
    at->tv_sec = (time_t)(stepped_ns / 1000000000);
    at->tv_nsec = (long)(stepped_ns % 1000000000);
    return 0;
}

static bool is_client_thread(void)
{
    static _Thread_local char name[16];

    if (!name[0])
        prctl(PR_GET_NAME, name);
    return strcmp(name, "cutin-client") == 0;
}

/* The library's own thread for the scheduler sleeps here, and looks after all streams in each
 * round: it stays here while something is counted. */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
    static _Atomic(long (*)(long, ...)) real;
    long a[6];
    va_list args;

    va_start(args, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (!real)
        real = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    long rc = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (number == SYS_futex && is_client_thread()) {
        rounds++;
        while (counting) {
            parked = true;
            usleep(1000);
        }
        parked = false;
    }
    return rc;
}

/* From now on, this thread's clock is stepped. */
static void clock_step(void)
{
    struct timespec now;

    stepped_ns = 0;
    clock_gettime(CLOCK_MONOTONIC, &now);
    stepped_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Before, the library's threads finish what they have to do. */
static void count_begin(void)
{
    unsigned until = rounds + 8;

    while ((int)(rounds - until) < 0)
        usleep(1000);
    counting = true;
    while (!parked)
        usleep(1000);
    CALLGRIND_ZERO_STATS;
}

static void count_end(const char *group, const char *name, unsigned times)
{
    char text[128];

    snprintf(text, sizeof(text), "%s: %s=%u", group, name, times);
    CALLGRIND_DUMP_STATS_AT(text);
    counting = false;
}

/* ---- the program ----------------------------------------------------------------------------- */

static CUcontext context;
static unsigned streams_count, functions_count, made; /* made: operations so far */
static CUstream streams[STREAMS], other_stream;
static CUfunction functions[FUNCTIONS];
static CUevent event, events[FUNCTIONS];
static CUkernel kernels[2];
static CUdeviceptr memory, block;
static CUgraphExec graph;
static CUmodule one;
static CUevent another;
static CUcontext whole;
static void *pinned;

static CUstream stream(void)
{
    return streams[made % streams_count];
}

/* The distance of markers depends on the measured cost of one. Here that is a constant, in a cache
 * that tools/bench has only for its runs. */
static void costs_record(CUdevice device)
{
    struct record r = {.way = "graphs"};
    char name[256];
    uint8_t key[16];
    int cuda;

    if (!getenv("XDG_CACHE_HOME"))
        return;
    MUST(cuDriverGetVersion(&cuda));
    MUST(cuDeviceGetName(name, sizeof(name), device));
    record_key(key, name);
    record_version(r.version, cuda);
    snprintf(r.why, sizeof(r.why), RECORD_GATE_COST RECORD_MARK_COST, 800, 500);
    if (record_write("gates", key, &r) != 0)
        die("record");
}

static void driver_open(void)
{
    CUdevice device;

    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    costs_record(device);
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
}

/* Loads `fill`, or so many functions that the simulator does not know. */
static void functions_load(void)
{
    enum { A_MODULE = 1000 };
    static char ptx[A_MODULE * 64 + 256];
    char name[16];
    CUmodule module;

    if (functions_count == 1) {
        MUST(cuModuleLoadData(&module, kernels_ptx));
        MUST(cuModuleGetFunction(&functions[0], module, "fill"));
    }
    for (unsigned i = 0; functions_count > 1 && i < functions_count; i++) {
        if (i % A_MODULE == 0) {
            char *at = ptx + sprintf(ptx, ".version 7.0\n.target sm_70\n.address_size 64\n");
            for (unsigned k = 0; k < A_MODULE; k++)
                at += sprintf(at, ".visible .entry k%u(.param .u64 a)\n{\nret;\n}\n", k);
            MUST(cuModuleLoadData(&module, ptx));
        }
        snprintf(name, sizeof(name), "k%u", i % A_MODULE);
        MUST(cuModuleGetFunction(&functions[i], module, name));
    }
}

/* Makes two kernels, and as many events as functions. */
static void objects_make(void)
{
    CUlibrary library;

    MUST(cuLibraryLoadData(&library, kernels_ptx, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernels[0], library, "fill"));
    MUST(cuLibraryGetKernel(&kernels[1], library, "mix"));
    for (unsigned i = 0; i < functions_count; i++)
        MUST(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
}

static void graph_make(void)
{
    uint64_t to = memory;
    uint32_t value = 1, n = 4;
    void *params[] = {&to, &value, &n};
    CUDA_KERNEL_NODE_PARAMS node = {functions[0], 1, 1, 1, 32, 1, 1, 0, params, NULL, NULL, NULL};
    CUgraph of;
    CUgraphNode first;

    MUST(cuGraphCreate(&of, 0));
    MUST(cuGraphAddKernelNode(&first, of, NULL, 0, &node));
    MUST(cuGraphInstantiateWithFlags(&graph, of, 0));
}

/* ---- operations ------------------------------------------------------------------------------ */

static void launch(void)
{
    uint64_t to = memory;
    uint32_t value = 1, n = 4;
    void *params[] = {&to, &value, &n};

    MUST(cuLaunchKernel(functions[made % functions_count], 1, 1, 1, 32, 1, 1, 0, stream(), params,
                        NULL));
}

static void launch_ex(void)
{
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream(), NULL, 0};
    uint64_t to = memory;
    uint32_t value = 1, n = 4;
    void *params[] = {&to, &value, &n};

    MUST(cuLaunchKernelEx(&config, functions[0], params, NULL));
}

static void launch_graph(void)
{
    MUST(cuGraphLaunch(graph, stream()));
}

static void copy(void)
{
    MUST(cuMemcpyHtoDAsync(memory, pinned, 64, stream()));
}

static void record(void)
{
    MUST(cuEventRecord(event, stream()));
}

static void wait_event(void)
{
    MUST(cuStreamWaitEvent(other_stream, event, 0));
}

static void event_synchronize(void)
{
    MUST(cuEventSynchronize(event));
}

static void event_query(void)
{
    cuEventQuery(event);
}

static void stream_synchronize(void)
{
    MUST(cuStreamSynchronize(stream()));
}

static void stream_query(void)
{
    cuStreamQuery(stream());
}

static void context_synchronize(void)
{
    MUST(cuCtxSynchronize());
}

static void allocate(void)
{
    MUST(cuMemAlloc(&block, 4096));
}

static void release(void)
{
    MUST(cuMemFree(block));
}

static void allocate_async(void)
{
    MUST(cuMemAllocAsync(&block, 4096, stream()));
}

static void release_async(void)
{
    MUST(cuMemFreeAsync(block, stream()));
}

static void load(void)
{
    uint64_t to = memory;
    uint32_t value = 1, n = 4;
    void *params[] = {&to, &value, &n};
    CUfunction function;

    MUST(cuModuleLoadData(&one, kernels_ptx));
    MUST(cuModuleGetFunction(&function, one, "fill"));
    MUST(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream(), params, NULL));
}

static void unload(void)
{
    MUST(cuModuleUnload(one));
}

/* It sets another value each time. */
static void set_attribute(void)
{
    MUST(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)(made / 2 % 2),
                              kernels[made % 2], 0));
}

/* The first calls allocate, for which malloc may search everything that is free. */
static void set_attributes_first(void)
{
    static bool done;

    for (unsigned i = 0; i < 8 && !done; i++, made++)
        set_attribute();
    done = true;
}

static void event_create(void)
{
    MUST(cuEventCreate(&another, CU_EVENT_DISABLE_TIMING));
}

static void event_destroy(void)
{
    MUST(cuEventDestroy(another));
}

static void context_create(void)
{
    static CUevent its[FUNCTIONS];

#if CUDA_VERSION >= 13000
    MUST(cuCtxCreate(&whole, NULL, 0, 0));
#else
    MUST(cuCtxCreate(&whole, 0, 0));
#endif
    for (unsigned i = 0; i < functions_count / 10; i++)
        MUST(cuEventCreate(&its[i], CU_EVENT_DISABLE_TIMING));
    MUST(cuEventRecord(its[0], NULL));
}

static void context_destroy(void)
{
    MUST(cuCtxDestroy(whole));
}

static void all_idle(void)
{
    MUST(cuCtxSynchronize());
}

static void both_idle(void)
{
    MUST(cuStreamSynchronize(stream()));
    MUST(cuStreamSynchronize(other_stream));
}

struct operation {
    const char *name;
    void (*run)(void), (*before)(void), (*after)(void); /* only `run` is counted */
};

static const struct operation operations[] = {
    {"launch", launch, NULL, NULL},
    {"launch from idle", launch, both_idle, NULL},
    {"launch, cuLaunchKernelEx", launch_ex, NULL, NULL},
    {"launch of a graph", launch_graph, NULL, NULL},
    {"copy", copy, NULL, NULL},
    {"event record", record, NULL, NULL},
    {"event wait", wait_event, record, NULL},
    {"event synchronize", event_synchronize, record, NULL},
    {"event query", event_query, record, NULL},
    {"stream synchronize", stream_synchronize, launch, NULL},
    {"stream synchronize, idle", stream_synchronize, both_idle, NULL},
    {"stream query", stream_query, launch, NULL},
    {"context synchronize", context_synchronize, launch, NULL},
    {"allocate", allocate, NULL, release},
    {"free", release, allocate, NULL},
    {"allocate in stream order", allocate_async, NULL, release_async},
    {"free in stream order", release_async, allocate_async, NULL},
    {0},
};

/* For a process that cuts in: operations whose cost depends on the clients that it holds. */
static const struct operation cut_ins[] = {
    {"launch", launch, NULL, NULL},
    {"launch from idle", launch, both_idle, NULL},
    {"stream synchronize", stream_synchronize, launch, NULL},
    {0},
};

static const struct operation held[] = {
    {"launch", launch, NULL, NULL},
    {"launch, cuLaunchKernelEx", launch_ex, NULL, NULL},
    {"launch of a graph", launch_graph, NULL, NULL},
    {"copy", copy, NULL, NULL},
    {"event record", record, NULL, NULL},
    {"event wait", wait_event, record, NULL},
    {"event query", event_query, record, NULL},
    {"stream query", stream_query, launch, NULL},
    {0},
};

static const struct operation growing[] = {
    {"launch", launch, NULL, NULL},
    {"launch from idle", launch, all_idle, NULL},
    {"event record", record, NULL, NULL},
    {"event wait", wait_event, record, NULL},
    {"stream synchronize", stream_synchronize, launch, NULL},
    {"stream query", stream_query, launch, NULL},
    {"context synchronize", context_synchronize, launch, NULL},
    {"free", release, allocate, NULL},
    {0},
};

/* Objects that are made and destroyed in a program that has many others. */
static const struct operation ends[] = {
    {"module unload", unload, load, NULL},
    {"attribute of a kernel", set_attribute, set_attributes_first, NULL},
    {"event create", event_create, NULL, event_destroy},
    {"event destroy", event_destroy, event_create, NULL},
    {"context destroy", context_destroy, context_create, NULL},
    {0},
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void lock_once(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_once(void)
{
    pthread_mutex_unlock(&lock);
}

static void clock_once(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
}

/* The cost of one of these, by which tools/bench knows how many there are. */
static const struct operation units[] = {
    {"pthread_mutex_lock", lock_once, NULL, unlock_once},
    {"clock_gettime", clock_once, NULL, NULL},
    {0},
};

static void count(const char *group, const struct operation *o)
{
    count_begin();
    for (unsigned i = 0; i < TIMES; i++, made++) {
        if (o->before)
            o->before();
        CALLGRIND_TOGGLE_COLLECT;
        o->run();
        CALLGRIND_TOGGLE_COLLECT;
        if (o->after)
            o->after();
    }
    count_end(group, o->name, TIMES);
}

/* ---- what one thread does for another -------------------------------------------------------- */

static _Atomic bool begun, released, submitted;

/* These run in the dispatcher: it submits a host function, which the driver calls at once. What
 * became due while the dispatcher waited is done before anything is counted. */
static void collect_wait(void *unused)
{
    begun = true;
    while (!released)
        usleep(1000);
    clock_step();
}

static void collect_begin(void *unused)
{
    CALLGRIND_TOGGLE_COLLECT;
}

static void collect_end(void *unused)
{
    CALLGRIND_TOGGLE_COLLECT;
    stepped_ns = 0;
    submitted = true;
}

/* Counts the way of buffered launches from the queue to the driver: of one stream, while the others
 * have later work buffered; or of all streams in turns, which needs every kind of look that the
 * dispatcher makes. With `stays` one stream is held, and has the earliest command. */
static void count_submitted(const char *group, unsigned count, bool all, bool stays)
{
    CUstream s = streams[0];

    begun = released = submitted = false;
    for (unsigned i = 0; i < streams_count; i++)
        MUST(cutin_stream_hold(streams[i]));
    count_begin();
    made = streams_count - 1;
    if (stays)
        launch();
    MUST(cuLaunchHostFunc(s, collect_wait, NULL));
    made = 0;
    launch();
    MUST(cuLaunchHostFunc(s, collect_begin, NULL));
    for (unsigned i = 0; i < count; i++, made = all ? i % (streams_count - stays) : 0)
        launch();
    MUST(cuLaunchHostFunc(s, collect_end, NULL));
    for (made = 1; !all && made < streams_count; made++)
        launch();
    MUST(cutin_stream_release(s));
    while (!begun)
        usleep(1000);
    for (unsigned i = 1; i < streams_count - stays; i++)
        MUST(cutin_stream_release(streams[i]));
    released = true;
    while (!submitted)
        usleep(1000);
    count_end(group, "launch submitted", count);
    MUST(cutin_stream_release(streams[streams_count - 1]));
    MUST(cuCtxSynchronize());
}

static pthread_barrier_t warm;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *thread_run(void *unused)
{
    uint64_t to = memory;
    uint32_t value = 1, n = 4;
    void *params[] = {&to, &value, &n};
    CUstream s;

    clock_step();
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < WARM + TIMES / THREADS; i++) {
        if (i == WARM) {
            pthread_barrier_wait(&warm);
            pthread_mutex_lock(&turn);
        }
        if (i >= WARM)
            CALLGRIND_TOGGLE_COLLECT;
        MUST(cuLaunchKernel(functions[0], 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
        if (i >= WARM)
            CALLGRIND_TOGGLE_COLLECT;
    }
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&warm);
    return NULL;
}

/* Counts launches in many threads, each with its own stream; then operations beside those. */
static void count_threads(const char *group, const struct operation *o)
{
    static pthread_t threads[THREADS];

    pthread_barrier_init(&warm, NULL, THREADS + 1);
    pthread_mutex_lock(&turn);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread_run, NULL) != 0)
            die("thread");
    pthread_barrier_wait(&warm);
    count_begin();
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&warm);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    count_end(group, "launch in each thread", TIMES);
    for (; o->name; o++)
        count(group, o);
}

/* ---- groups ---------------------------------------------------------------------------------- */

enum kind { PLAIN, HELD, SUBMITTED, OF_ALL, BESIDE_HELD, IN_THREADS };

static const struct group {
    const char *name, *level, *others_level;
    unsigned others, streams, functions;
    enum kind kind;
    const struct operation *operations;
} groups[] = {
    {"unit", "be", NULL, 0, 1, 1, PLAIN, units},
    {"real time", "rt", NULL, 0, 1, 1, PLAIN, operations},
    {"real time above 1", "rt", "be", 1, 1, 1, PLAIN, cut_ins},
    {"real time above 8", "rt", "be", 8, 1, 1, PLAIN, cut_ins},
    {"real time above 64", "rt", "be", 64, 1, 1, PLAIN, cut_ins},
    {"alone", "be", NULL, 0, 1, 1, PLAIN, operations},
    {"contended", "be", "rt", 1, 1, 1, PLAIN, operations},
    {"held", "be", "rt", 1, 1, 1, HELD, held},
    {"queue, alone", "be", NULL, 0, 1, 1, SUBMITTED, NULL},
    {"queue, contended", "be", "rt", 1, 1, 1, SUBMITTED, NULL},
    {"queue, alone, 100 streams", "be", NULL, 0, 100, 1, SUBMITTED, NULL},
    {"queue, alone, 1000 streams", "be", NULL, 0, 1000, 1, SUBMITTED, NULL},
    {"queue, contended, 1000 streams", "be", "rt", 1, 1000, 1, SUBMITTED, NULL},
    {"queue of all, alone", "be", NULL, 0, 1, 1, OF_ALL, NULL},
    {"queue of all, alone, 100 streams", "be", NULL, 0, 100, 1, OF_ALL, NULL},
    {"queue of all, alone, 1000 streams", "be", NULL, 0, 1000, 1, OF_ALL, NULL},
    {"queue of all, contended", "be", "rt", 1, 1, 1, OF_ALL, NULL},
    {"queue of all, contended, 1000 streams", "be", "rt", 1, 1000, 1, OF_ALL, NULL},
    {"queue beside held, alone, 10 streams", "be", NULL, 0, 10, 1, BESIDE_HELD, NULL},
    {"queue beside held, alone, 1000 streams", "be", NULL, 0, 1000, 1, BESIDE_HELD, NULL},
    {"real time, 100 streams", "rt", NULL, 0, 100, 1, PLAIN, growing},
    {"real time, 1000 streams", "rt", NULL, 0, 1000, 1, PLAIN, growing},
    {"alone, 100 streams", "be", NULL, 0, 100, 1, PLAIN, growing},
    {"alone, 1000 streams", "be", NULL, 0, 1000, 1, PLAIN, growing},
    {"contended, 100 streams", "be", "rt", 1, 100, 1, PLAIN, growing},
    {"contended, 1000 streams", "be", "rt", 1, 1000, 1, PLAIN, growing},
    {"alone, 10 functions", "be", NULL, 0, 1, 10, PLAIN, growing},
    {"alone, 10000 functions", "be", NULL, 0, 1, 10000, PLAIN, growing},
    {"alone, with 10", "be", NULL, 0, 1, 10, PLAIN, ends},
    {"alone, with 10000", "be", NULL, 0, 1, 10000, PLAIN, ends},
    {"real time, 64 threads", "rt", NULL, 0, 1, 1, IN_THREADS, growing},
    {"alone, 64 threads", "be", NULL, 0, 1, 1, IN_THREADS, growing},
    {"contended, 64 threads", "be", "rt", 1, 1, 1, IN_THREADS, growing},
};

static struct place place;
static pid_t others[OTHERS];
static int others_end[2];

static void others_start(const struct group *g)
{
    if (pipe(others_end) != 0)
        die("pipe");
    for (unsigned i = 0; i < g->others; i++) {
        others[i] = fork();
        if (others[i] < 0)
            die("fork");
        if (others[i] > 0)
            continue;
        dup2(others_end[0], 0);
        close(others_end[1]);
        setenv("CUTIN_PRIORITY", g->others_level, 1);
        execl(BIN_DIR "/tests/operations", "operations", "--other", (char *)NULL);
        _exit(127);
    }
}

/* Waits until the clients below have been told of those above, and those above have their pages. */
static void others_await(const struct group *g)
{
    bool above = strcmp(g->level, "rt") == 0;
    struct message_row *rows;
    size_t n, told, stopped;

    do {
        usleep(10000);
        launch();
        told = stopped = 0;
        if (query_clients(place.socket, &rows, &n) != 0)
            continue;
        for (size_t i = 0; i < n; i++) {
            told += rows[i].above > 0;
            stopped += row_held(&rows[i]);
        }
        free(rows);
        both_idle();
    } while (told < g->others || (above && stopped < g->others));
}

static void others_close(const struct group *g)
{
    close(others_end[1]);
    for (unsigned i = 0; i < g->others; i++)
        waitpid(others[i], NULL, 0);
}

static int other(void)
{
    char byte;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    driver_open();
    return read(0, &byte, 1) == 0 ? 0 : 1;
}

static void group_open(const struct group *g)
{
    clock_step();
    place_new(&place);
    place_start(&place);
    setenv("CUTIN_SOCKET", place.socket, 1);
    setenv("CUTIN_GATES", "off", 1);
    others_start(g);
    setenv("CUTIN_PRIORITY", g->level, 1);
    driver_open();
    streams_count = g->streams;
    functions_count = g->functions;
    functions_load();
    for (unsigned i = 0; i < streams_count; i++)
        MUST(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
    MUST(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAlloc(&memory, 4096));
    MUST(cuMemAllocHost(&pinned, 4096));
    graph_make();
    objects_make();
    others_await(g);
}

/* Does all that is done once for a stream or a function. */
static void group_warm(void)
{
    unsigned most = streams_count > functions_count ? streams_count : functions_count;

    for (unsigned i = 0; i < TRIALS; i++) { /* until the process counts as alone, if it does */
        launch();
        both_idle();
    }
    launch_graph();
    launch_ex();
    for (made = 0; made < most * WARM; made++)
        launch();
    for (made = 0; made < streams_count; made++)
        both_idle();
    record();
    wait_event();
    both_idle();
}

static void group_run(const struct group *g)
{
    const struct operation *o = g->operations;

    group_open(g);
    group_warm();
    CALLGRIND_START_INSTRUMENTATION;
    for (int i = 0; g->kind == SUBMITTED && i < ROUNDS; i++)
        count_submitted(g->name, FEW, false, false);
    for (int i = 0; (g->kind == OF_ALL || g->kind == BESIDE_HELD) && i < ROUNDS; i++)
        count_submitted(g->name, g->streams < 12 ? 48 : g->streams * 4, true,
                        g->kind == BESIDE_HELD);
    if (g->kind == IN_THREADS)
        count_threads(g->name, o);
    for (; g->kind == PLAIN && o->name; o++)
        count(g->name, o);
    for (; g->kind == HELD && o->name; o++) {
        MUST(cutin_stream_hold(streams[0]));
        count(g->name, o);
        MUST(cutin_stream_release(streams[0]));
        both_idle();
    }
    others_close(g);
    place_free(&place);
}

int main(int argc, char **argv)
{
    bool found = argc == 1;

    if (argc == 2 && strcmp(argv[1], "--other") == 0)
        return other();
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
        bool this = argc == 2 && strcmp(groups[i].name, argv[1]) == 0;

        found |= this;
        if (argc == 1)
            puts(groups[i].name);
        else if (this)
            group_run(&groups[i]);
    }
    return found ? 0 : 2;
}
