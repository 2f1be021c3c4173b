/*
 * subscriber.c - a profiler that CUPTI, or the driver itself, tells of driver calls while they are
 * made, in the thread that makes them, and that calls the driver from there.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

typedef void subscriber(const char *function, int behind);

enum { LAUNCHES = 8, WORDS = 4 };
static CUstream s, other;
static CUdeviceptr x, y, z;
static uint32_t seen[LAUNCHES][WORDS];
static CUresult answer[LAUNCHES];

/* What is done in which calls, and how often. Calling threads change it, so under `lock`. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *of;
static void (*act)(void);
static int when;
static uint32_t most, times, done;
static _Thread_local bool inside;
static _Thread_local uint32_t at; /* which of the `times` this is */

static bool begins(const char *function, int behind)
{
    pthread_mutex_lock(&lock);
    bool mine = behind == when && strcmp(function, of) == 0 && times < most;
    if (mine)
        at = times++;
    pthread_mutex_unlock(&lock);
    return mine;
}

/* Calls that the profiler itself makes are not told. */
static void in_a_call(const char *function, int behind)
{
    if (inside || !begins(function, behind))
        return;
    inside = true;
    act();
    inside = false;
    pthread_mutex_lock(&lock);
    done++;
    pthread_mutex_unlock(&lock);
}

static void watch(const char *function, uint32_t how_often)
{
    pthread_mutex_lock(&lock);
    of = function;
    most = how_often;
    times = done = 0;
    pthread_mutex_unlock(&lock);
}

static bool all_done(void)
{
    pthread_mutex_lock(&lock);
    bool all = done == most;
    pthread_mutex_unlock(&lock);
    return all;
}

/* Also waits for what is done behind a call that was submitted, in the thread that submitted it. */
static void finish(void)
{
    SAY(cuStreamSynchronize(s));
    UNTIL(all_done());
    SAY(cuCtxSynchronize());
}

static void subscribe(subscriber *to)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    _Atomic(subscriber *) *word =
        handle ? (_Atomic(subscriber *) *)dlsym(handle, "cuSimgpuSubscriber") : NULL;

    if (!word)
        give_up("the driver has no word for a subscriber");
    *word = to;
}

static void opened(void (*what)(void), int behind)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    other = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    y = buffer_new(5);
    z = buffer_new(7);
    warm(s);
    warm(other);
    act = what;
    when = behind;
    hang_watch("a call inside a call does not return");
}

static void launches_with(void (*what)(void), int behind)
{
    opened(what, behind);
    watch("cuLaunchKernel", LAUNCHES);
    subscribe(in_a_call);
    for (uint32_t i = 0; i < LAUNCHES; i++) {
        if (i == LAUNCHES / 2)
            hold(s);
        SAY(launch_mix(x, 3, i, s));
        if (i == LAUNCHES / 2)
            release(s);
    }
    finish();
    subscribe(NULL);
    printf("%u times\n", times);
    for (uint32_t i = 0; i < times; i++)
        printf("%d %u\n", (int)answer[i], seen[i][0]);
    show("x", x);
    show("y", y);
}

static void synchronize(void)
{
    answer[at] = cuStreamSynchronize(s);
    cuMemcpyDtoH(seen[at], x, sizeof(seen[0]));
}

static void synchronize_its_context(void)
{
    answer[at] = cuCtxSynchronize();
    cuMemcpyDtoH(seen[at], x, sizeof(seen[0]));
}

static void launch(void)
{
    answer[at] = launch_mix(x, 5, 1, s);
}

static void launch_in_another_stream(void)
{
    CUevent e = event_new();

    answer[at] = launch_mix(y, 5, at, other);
    cuEventRecord(e, other);
    cuStreamWaitEvent(s, e, 0);
    cuEventDestroy(e);
}

static void copy_to_the_host(void)
{
    answer[at] = cuMemcpyDtoHAsync(seen[at], x, sizeof(seen[0]), s);
    cuStreamSynchronize(s);
}

static void copy_to_the_device(void)
{
    uint32_t word = 17 + at;

    answer[at] = cuMemcpyHtoD(y, &word, sizeof(word));
}

static void query(void)
{
    while ((answer[at] = cuStreamQuery(s)) == CUDA_ERROR_NOT_READY)
        nap();
}

#define BOTH_SIDES(what)                                                                           \
    HAZARD(callback_before_a_launch_may_##what)                                                    \
    {                                                                                              \
        launches_with(what, 0);                                                                    \
    }                                                                                              \
    HAZARD(callback_after_a_launch_may_##what)                                                     \
    {                                                                                              \
        launches_with(what, 1);                                                                    \
    }
BOTH_SIDES(synchronize)
BOTH_SIDES(synchronize_its_context)
BOTH_SIDES(launch)
BOTH_SIDES(launch_in_another_stream)
BOTH_SIDES(copy_to_the_host)
BOTH_SIDES(copy_to_the_device)
BOTH_SIDES(query)

/* ---- in calls of other kinds ----------------------------------------------------------------- */

static uint32_t page[N];
static CUevent event;
static CUgraphExec graph;

static CUresult memset_call(void)
{
    return cuMemsetD32Async(x, 3, N, s);
}
static CUresult upload_call(void)
{
    return cuMemcpyHtoDAsync(x, page, BYTES, s);
}
static CUresult upload_sync_call(void)
{
    return cuMemcpyHtoD(z, page, BYTES); /* nothing orders it with the stream */
}
static CUresult download_call(void)
{
    return cuMemcpyDtoHAsync(page, x, BYTES, s);
}
static CUresult record_call(void)
{
    return cuEventRecord(event, s);
}
static CUresult wait_call(void)
{
    return cuStreamWaitEvent(s, event, 0);
}
static CUresult graph_call(void)
{
    return cuGraphLaunch(graph, s);
}
static CUresult free_call(void)
{
    CUdeviceptr p;

    MUST(cuMemAllocAsync(&p, BYTES, other));
    MUST(cuStreamSynchronize(other));
    return cuMemFreeAsync(p, s);
}

static const struct {
    const char *function;
    CUresult (*call)(void);
} call[] = {{"cuMemsetD32Async", memset_call},     {"cuMemcpyHtoDAsync_v2", upload_call},
            {"cuMemcpyHtoD_v2", upload_sync_call}, {"cuMemcpyDtoHAsync_v2", download_call},
            {"cuEventRecord", record_call},        {"cuStreamWaitEvent", wait_call},
            {"cuGraphLaunch", graph_call},         {"cuMemFreeAsync", free_call}};

static void calls_with(void (*what)(void), int behind)
{
    struct mix_node m;
    CUgraph g;
    CUgraphNode node;

    MUST(cuGraphCreate(&g, 0));
    opened(what, behind);
    event = event_new();
    MUST(cuGraphAddKernelNode(&node, g, NULL, 0, mix_node(&m, y, 3, 1)));
    MUST(cuGraphInstantiateWithFlags(&graph, g, 0));
    watch("", 0);
    subscribe(in_a_call);
    for (size_t i = 0; i < sizeof(call) / sizeof(call[0]); i++) {
        const char *function = call[i].function;
        /* See docs/hazards.md. Records that time a kernel are told, too. */
        if ((what == launch && behind == 0 && strncmp(function, "cuMemcpy", 8) == 0) ||
            ((what == launch || what == launch_in_another_stream) &&
             strcmp(function, "cuEventRecord") == 0))
            continue;
        for (int k = 0; k < 2; k++) {
            watch(function, 1);
            if (k)
                hold(s);
            SAY(launch_mix(x, 3, (uint32_t)i, s));
            SAY(call[i].call());
            if (k)
                release(s);
            finish();
            printf("%s: callback %d, result %d\n", function, times > 0, (int)answer[0]);
        }
    }
    subscribe(NULL);
    show("x", x);
    show("y", y);
}

#define IN_CALLS(what)                                                                             \
    HAZARD(callback_before_other_calls_may_##what)                                                 \
    {                                                                                              \
        calls_with(what, 0);                                                                       \
    }                                                                                              \
    HAZARD(callback_after_other_calls_may_##what)                                                  \
    {                                                                                              \
        calls_with(what, 1);                                                                       \
    }
IN_CALLS(synchronize)
IN_CALLS(synchronize_its_context)
IN_CALLS(launch)
IN_CALLS(launch_in_another_stream)
