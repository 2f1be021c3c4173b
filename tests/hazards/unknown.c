/*
 * unknown.c - a stream-ordered driver function that is in no table, found in every way, does not
 * overtake what was deferred. Only the simulated driver has it.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>

typedef CUresult copy_fn(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);
typedef CUresult get4_fn(const char *, void **, int, cuuint64_t);
typedef CUresult get5_fn(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);

#define NAME "cuSimgpuMemcpyAsync"

static void *driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle)
        give_up("libcuda.so.1");
    return handle;
}

static copy_fn *as_copy(void *found)
{
    copy_fn *copy;
    if (!found)
        give_up(NAME);
    *(void **)&copy = found;
    return copy;
}

static void *by_dlsym(void)
{
    return dlsym(driver(), NAME);
}

static void *by_default(void)
{
    dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    return dlsym(RTLD_DEFAULT, NAME);
}

static void *by_get4(void)
{
    get4_fn *get;
    void *found = NULL;
    *(void **)&get = dlsym(driver(), "cuGetProcAddress");
    MUST(get(NAME, &found, 12000, 0));
    return found;
}

static void *by_get5(void)
{
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    get5_fn *get;
    void *found = NULL;
    *(void **)&get = dlsym(driver(), "cuGetProcAddress_v2");
    MUST(get(NAME, &found, 12000, 0, &status));
    printf("status %d\n", (int)status);
    return found;
}

/* y must get what the deferred kernel makes of x, and not what the kernel behind it makes. */
static void copy_behind_a_kernel(copy_fn *copy, CUstream s)
{
    CUdeviceptr x = buffer_new(3), y = buffer_new(0);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(copy(y, x, BYTES, s));
    SAY(launch_mix(x, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copy", y);
    show("source", x);
}

static void in_order(void *found)
{
    copy_behind_a_kernel(as_copy(found), stream_new(CU_STREAM_NON_BLOCKING));
}

HAZARD(unknown_function_from_dlsym_keeps_its_order)
{
    in_order(by_dlsym());
}

HAZARD(unknown_function_in_the_global_scope_keeps_its_order)
{
    in_order(by_default());
}

HAZARD(unknown_function_from_get_proc_address_keeps_its_order)
{
    in_order(by_get4());
}

HAZARD(unknown_function_from_get_proc_address_v2_keeps_its_order)
{
    in_order(by_get5());
}

HAZARD(unknown_function_on_the_default_stream_keeps_its_order)
{
    copy_behind_a_kernel(as_copy(by_get5()), NULL);
}

HAZARD(every_lookup_finds_the_same_function)
{
    void *found = by_dlsym();
    printf("%d %d %d %d\n", found == by_dlsym(), found == by_default(), found == by_get4(),
           found == by_get5());
}

/* The context is that of the stream, not the one that is current. */
HAZARD(unknown_function_from_another_context_keeps_its_order)
{
    copy_fn *copy = as_copy(by_get5());
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = buffer_new(0);
    CUcontext other;
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    other = context_new(); /* it is current now */
    SAY(copy(y, x, BYTES, s));
    MUST(cuCtxSetCurrent(context));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copy", y);
    SAY(cuCtxDestroy(other));
}

HAZARD(unknown_function_in_a_capture_becomes_a_node)
{
    copy_fn *copy = as_copy(by_get5());
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), t = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = buffer_new(0);
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    warm(s);
    warm(t);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamBeginCapture(t, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(launch_mix(x, 2, 1, t));
    SAY(copy(y, x, BYTES, t));
    SAY(cuStreamEndCapture(t, &graph));
    SAY(cuGraphGetNodes(graph, NULL, &nodes));
    printf("%d nodes\n", (int)nodes);
    release(s);
    SAY(cuStreamSynchronize(s));
    SAY(cuGraphInstantiate(&exec, graph, 0));
    SAY(cuGraphLaunch(exec, t));
    SAY(cuStreamSynchronize(t));
    show("copy", y);
}

static copy_fn *in_callback;
static CUdeviceptr in_callback_x;

static void CUDA_CB calls_it(void *stream)
{
    SAY(in_callback(in_callback_x, in_callback_x, BYTES, stream)); /* not permitted: no wait */
}

HAZARD(unknown_function_in_a_host_function_gets_the_drivers_answer)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), t = stream_new(CU_STREAM_NON_BLOCKING);
    in_callback = as_copy(by_get5());
    in_callback_x = buffer_new(3);
    warm(s);
    warm(t);
    hold(t);
    SAY(launch_mix(in_callback_x, 5, 7, t));
    MUST(cuLaunchHostFunc(s, calls_it, s));
    SAY(cuStreamSynchronize(s));
    release(t);
    SAY(cuStreamSynchronize(t));
}

enum { THREADS = 8 };
static void *found_by[THREADS];

static void find_it(void *slot)
{
    *(void **)slot = dlsym(driver(), NAME);
}

HAZARD(concurrent_lookups_find_the_same_function)
{
    struct thread *t[THREADS];
    int same = 0;
    for (int i = 0; i < THREADS; i++)
        t[i] = thread_start(find_it, &found_by[i]);
    for (int i = 0; i < THREADS; i++)
        thread_join(t[i]);
    for (int i = 0; i < THREADS; i++)
        same += found_by[i] == found_by[0];
    printf("%d same\n", same);
    in_order(found_by[0]);
}
