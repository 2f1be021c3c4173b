/*
 * callbacks.c - host functions and callbacks: each runs in its place and once, and may call CUDA as
 * far as the driver allows.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>

static CUstream s;
static CUdeviceptr x;

static void open_stream(void)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
}

static char order[64];

static void append(void *user)
{
    static size_t n;
    order[n++] = *(char *)user;
}

static void append_callback(CUstream stream, CUresult status, void *user)
{
    if (stream != s || status != CUDA_SUCCESS)
        printf("callback: %d %d\n", stream == s, (int)status);
    append(user);
}

HAZARD(callbacks_do_not_overtake_buffered_kernels)
{
    open_stream();
    hold(s);
    SAY(cuLaunchHostFunc(s, append, "a"));
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamAddCallback(s, append_callback, "b", 0));
    SAY(cuLaunchHostFunc(s, append, "c"));
    SAY(cuLaunchHostFunc(s, append, "d"));
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamAddCallback(s, append_callback, "e", 0));
    SAY(cuLaunchHostFunc(s, append, "f"));
    release(s);
    SAY(cuStreamSynchronize(s));
    printf("order %s\n", order);
    show("x", x);
}

static CUresult answers[6];

static void call_cuda(void *user)
{
    CUstream made = NULL;
    CUdeviceptr p = 0;
    answers[0] = cuStreamCreate(&made, 0);
    answers[1] = cuMemAlloc(&p, BYTES);
    answers[2] = launch_mix(x, 1, 0, s);
    answers[3] = cuStreamSynchronize(s);
    answers[4] = cuStreamQuery(s);
    answers[5] = cuCtxSynchronize();
}

HAZARD(host_function_that_calls_cuda_gets_the_drivers_answers)
{
    open_stream();
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuLaunchHostFunc(s, call_cuda, NULL));
    SAY(launch_mix(x, 5, 7, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    for (int i = 0; i < 6; i++)
        printf("%d\n", (int)answers[i]);
    show("x", x);
}

static _Atomic int calls, open_door;

static void wait_for_door(void *user)
{
    while (!atomic_load(&open_door))
        nap();
    atomic_fetch_add(&calls, 1);
}

/* The launches behind the function must not block: the same thread opens the door afterwards. */
HAZARD(host_function_may_wait_for_the_launching_thread)
{
    open_stream();
    SAY(cuLaunchHostFunc(s, wait_for_door, NULL));
    for (uint32_t i = 0; i < 150; i++)
        MUST(launch_mix(x, 3, i, s));
    atomic_store(&open_door, 1);
    SAY(cuStreamSynchronize(s));
    printf("calls %d\n", atomic_load(&calls));
    show("x", x);
}

static void count(void *user)
{
    atomic_fetch_add(&calls, 1);
    free(user);
}

HAZARD(each_host_function_runs_once_and_frees_its_data)
{
    open_stream();
    for (uint32_t i = 0; i < 300; i++) {
        if (i % 100 == 0) {
            hold_ms = 5;
            hold(s);
        }
        MUST(cuLaunchHostFunc(s, count, malloc(16)));
        MUST(launch_mix(x, 3, i, s));
        if (i % 100 == 60)
            release(s);
    }
    SAY(cuStreamSynchronize(s));
    printf("calls %d\n", atomic_load(&calls));
    show("x", x);
}

HAZARD(buffered_callback_of_a_destroyed_stream_runs)
{
    open_stream();
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuLaunchHostFunc(s, count, NULL));
    SAY(cuStreamDestroy(s));
    release(s);
    SAY(cuCtxSynchronize());
    printf("calls %d\n", atomic_load(&calls));
    show("x", x);
}

static CUevent asked;

static void tell(void *user)
{
    answers[0] = cuEventQuery(asked);
    atomic_fetch_add(&calls, 1);
}

HAZARD(buffered_callback_runs_without_another_cuda_call)
{
    open_stream();
    asked = event_new();
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuEventRecord(asked, s));
    SAY(cuLaunchHostFunc(s, tell, NULL));
    UNTIL(atomic_load(&calls) == 1); /* no CUDA call while it waits */
    printf("%d\n", (int)answers[0]);
    show("x", x);
    release(s);
}

HAZARD(host_function_of_a_captured_graph_runs_at_every_launch)
{
    CUgraph graph;
    CUgraphExec exec;
    open_stream();
    SAY(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuLaunchHostFunc(s, count, NULL));
    SAY(cuStreamEndCapture(s, &graph));
    MUST(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 5; i++) {
        hold_ms = 3;
        hold(s);
        SAY(cuGraphLaunch(exec, s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    printf("calls %d\n", atomic_load(&calls));
    show("x", x);
}
