/*
 * devices.c - a graph with nodes on two devices, in a process with real time and best effort. Its
 * launch waits for the holds of both devices, and its level is active on both.
 */
#include "tests/shim/wrap/rig.h"

#include <stdlib.h>

static struct device {
    CUcontext ctx;
    CUmodule module;
    CUfunction mix, spin, await;
    CUstream be, rt;
    CUdeviceptr x;
} one, two;

static void device_open(struct device *d, CUdevice device)
{
    int least, greatest;
    ok(cuDevicePrimaryCtxRetain(&d->ctx, device));
    ok(cuCtxSetCurrent(d->ctx));
    ok(cuModuleLoad(&d->module, SOURCE_DIR "/examples/kernels.ptx"));
    ok(cuModuleGetFunction(&d->mix, d->module, "mix"));
    ok(cuModuleGetFunction(&d->spin, d->module, "spin"));
    ok(cuModuleGetFunction(&d->await, d->module, "await_mix"));
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    ok(cuStreamCreateWithPriority(&d->rt, CU_STREAM_NON_BLOCKING, greatest));
    ok(cuStreamCreateWithPriority(&d->be, CU_STREAM_NON_BLOCKING, least));
    d->x = rig_buffer(1);
}

static void devices_open(void)
{
    rig_open();
    device_open(&two, 1);
    device_open(&one, 0);
}

TestSuite(devices, .init = devices_open, .fini = rig_close);

/* Keeps real time busy on a device until the gate is opened. It is a kernel: work that waits for
 * something outside soon counts as real time no more, and a host function ends a hold. The device
 * is current. */
struct gate {
    _Atomic uint32_t *word;
};

static void gate(struct gate *g, const struct device *d)
{
    uint32_t a = 1, b = 0, none = 0, rounds = 1;
    void *params[] = {(void *)&d->x, &a, &b, &none, &g->word, &rounds};
    ok(cuMemHostAlloc((void **)&g->word, sizeof(*g->word), CU_MEMHOSTALLOC_PORTABLE));
    atomic_store(g->word, 0);
    ok(cuLaunchKernel(d->await, 1, 1, 1, 1, 1, 1, 0, d->rt, params, NULL));
}

static void gate_open(struct gate *g)
{
    atomic_store(g->word, 1);
}

static CUgraphNode kernel_add(CUgraph graph, const CUgraphNode *after, CUfunction f, void **params)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = f,
                                 .gridDimX = N / 256,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 256,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    CUgraphNode node;
    ok(cuGraphAddKernelNode(&node, graph, after, !!after, &p));
    return node;
}

static CUgraphNode mix_add(CUgraph graph, const CUgraphNode *after, const struct device *d,
                           uint32_t a, uint32_t b)
{
    CUdeviceptr x = d->x;
    uint32_t n = N;
    return kernel_add(graph, after, d->mix, (void *[]){&x, &a, &b, &n});
}

/* Makes one.x = one.x * 3 + 1, then two.x = two.x * 5 + 2. */
static CUgraphExec wide_new(uint64_t spin_ns)
{
    CUgraph graph;
    CUgraphExec exec;
    ok(cuGraphCreate(&graph, 0));
    CUgraphNode first = mix_add(graph, NULL, &one, 3, 1);
    CUgraphNode second = mix_add(graph, &first, &two, 5, 2);
    if (spin_ns)
        kernel_add(graph, &second, two.spin, (void *[]){&spin_ns});
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    return exec;
}

static void expect(const struct device *d, uint32_t value)
{
    ok(cuCtxSetCurrent(d->ctx));
    rig_expect(d->x, value, NULL);
    ok(cuCtxSetCurrent(one.ctx));
}

static void launch_one(void *exec)
{
    ok(cuCtxSetCurrent(one.ctx));
    ok(cuGraphLaunch(exec, one.be));
}

static void launches_wait_for(struct device *held)
{
    static struct gate g;
    CUgraphExec exec = wide_new(0);
    struct rig_thread t;
    ok(cuGraphLaunch(exec, one.be));
    expect(&two, 7);
    ok(cuCtxSetCurrent(held->ctx));
    gate(&g, held);
    rig_start(&t, launch_one, exec);
    rig_blocked(&t);
    gate_open(&g);
    rig_join(&t);
    expect(&one, 13);
    expect(&two, 37);
    ok(cuGraphExecDestroy(exec));
}

Test(devices, graph_launch_waits_for_hold_of_its_device)
{
    launches_wait_for(&one);
}

Test(devices, graph_launch_waits_for_hold_of_other_device)
{
    launches_wait_for(&two);
}

Test(devices, graph_launch_waits_for_holds_of_both)
{
    static struct gate here, there;
    CUgraphExec exec = wide_new(0);
    struct rig_thread t;
    ok(cuCtxSetCurrent(two.ctx));
    gate(&there, &two);
    ok(cuCtxSetCurrent(one.ctx));
    gate(&here, &one);
    rig_start(&t, launch_one, exec);
    rig_blocked(&t);
    gate_open(&here);
    rig_blocked(&t);
    gate_open(&there);
    rig_join(&t);
    expect(&one, 4);
    expect(&two, 7);
}

static unsigned buffered(CUstream s)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(s, &state));
    return state.buffered;
}

static void mix_there(uint32_t a, uint32_t b)
{
    uint32_t n = N;
    ok(cuCtxSetCurrent(two.ctx));
    ok(cuLaunchKernel(two.mix, N / 256, 1, 1, 256, 1, 1, 0, two.be, (void *[]){&two.x, &a, &b, &n},
                      NULL));
}

Test(devices, real_time_graph_holds_other_device)
{
    CUgraphExec exec = wide_new(300000000);
    mix_there(1, 0);
    ok(cuStreamSynchronize(two.be));
    ok(cuCtxSetCurrent(one.ctx));
    ok(cuGraphLaunch(exec, one.rt));
    mix_there(1, 1);
    cr_assert_eq(buffered(two.be), 1);
    ok(cuStreamSynchronize(one.rt));
    rig_expect(two.x, 8, two.be);
}

/* It is known complete with the stream of the graph's launch, not only at the next look. */
Test(devices, real_time_graph_releases_other_device)
{
    CUgraphExec exec = wide_new(0);
    uint32_t expected = 1;
    mix_there(1, 0);
    ok(cuStreamSynchronize(two.be));
    for (int i = 0; i < 20; i++) {
        ok(cuCtxSetCurrent(one.ctx));
        ok(cuGraphLaunch(exec, one.rt));
        ok(cuStreamSynchronize(one.rt));
        expected = expected * 5 + 2;
        mix_there(1, 1);
        expected++;
        rig_expect(two.x, expected, two.be);
    }
}

/* More launches than may be in flight: all of them become known complete on both devices. */
Test(devices, many_graph_launches_complete_on_both)
{
    CUgraphExec exec = wide_new(0);
    uint32_t here = 1, there = 1;
    for (int i = 0; i < 500; i++) {
        ok(cuGraphLaunch(exec, one.be));
        here = here * 3 + 1;
        there = there * 5 + 2;
    }
    expect(&one, here);
    expect(&two, there);
    ok(cuGraphExecDestroy(exec));
}

/* Each of two threads launches, into its own device, a graph that reaches the other device. */
static void launch_often(void *user)
{
    const struct device *d = user;
    CUgraph graph;
    CUgraphExec exec;
    ok(cuCtxSetCurrent(d->ctx));
    ok(cuGraphCreate(&graph, 0));
    mix_add(graph, NULL, &one, 1, 1);
    mix_add(graph, NULL, &two, 1, 1);
    ok(cuGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 100; i++) {
        ok(cuGraphLaunch(exec, d->be));
        ok(cuStreamSynchronize(d->be));
    }
}

Test(devices, launches_from_both_do_not_deadlock)
{
    struct rig_thread t[2];
    rig_start(&t[0], launch_often, &one);
    rig_start(&t[1], launch_often, &two);
    rig_join(&t[0]);
    rig_join(&t[1]);
}

Test(devices, graph_can_be_destroyed_after_reset_of_other_device)
{
    CUgraphExec exec = wide_new(0);
    ok(cuGraphLaunch(exec, one.be));
    expect(&one, 4);
    ok(cuDevicePrimaryCtxReset(1));
    ok(cuGraphExecDestroy(exec));
    ok(cuCtxSynchronize());
}

/* one.rt waits for two.be, which waits for a value that one.be writes; one.rt holds one.be. */
Test(devices, cross_device_wait_lets_held_stream_answer)
{
    CUevent there;
    void *word;
    ok(cuMemHostAlloc(&word, 64, CU_MEMHOSTALLOC_PORTABLE));
    *(uint32_t *)word = 0;
    ok(cuCtxSetCurrent(two.ctx));
    ok(cuEventCreate(&there, CU_EVENT_DISABLE_TIMING));
    ok(cuStreamWaitValue32(two.be, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    ok(cuEventRecord(there, two.be));
    ok(cuCtxSetCurrent(one.ctx));
    ok(cuStreamWaitEvent(one.rt, there, 0));
    ok(cuStreamWriteValue32(one.be, (CUdeviceptr)(uintptr_t)word, 1, 0));
    ok(cuStreamSynchronize(one.rt));
    ok(cuEventDestroy(there));
    ok(cuMemFreeHost(word));
}
