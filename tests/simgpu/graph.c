/*
 * graph.c - graphs and captures in several threads: for all of them a launch is one item of its
 * stream, and threads capture side by side.
 */
#include <cuda.h>

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define OK(call) cr_assert_eq((call), CUDA_SUCCESS, "%s", #call)

enum { WORDS = 256, ROUNDS = 40 };

static CUcontext ctx;
static CUfunction mix;
static CUstream stream;
static CUdeviceptr left, right;

static void graph_open(void)
{
    char id[32];
    CUmodule module;
    snprintf(id, sizeof(id), "graph-%d", (int)getpid());
    setenv("SIMGPU_ID", id, 1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&ctx, 0));
    OK(cuCtxSetCurrent(ctx));
    OK(cuModuleLoad(&module, SOURCE_DIR "/examples/kernels.ptx"));
    OK(cuModuleGetFunction(&mix, module, "mix"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&left, WORDS * 4));
    OK(cuMemAlloc(&right, WORDS * 4));
    OK(cuMemsetD32(left, 1, WORDS));
    OK(cuMemsetD32(right, 1, WORDS));
    OK(cuCtxSynchronize());
}

TestSuite(graph_threads, .init = graph_open);

static CUresult launch_mix(CUstream s, CUdeviceptr p, uint32_t a, uint32_t b)
{
    uint32_t n = WORDS;
    return cuLaunchKernel(mix, 1, 1, 1, WORDS, 1, 1, 0, s, (void *[]){&p, &a, &b, &n}, NULL);
}

static uint32_t word_of(CUdeviceptr p)
{
    uint32_t word;
    OK(cuMemcpyDtoH(&word, p, 4));
    return word;
}

/* left *= 3 and right *= 3 on two branches. What ran between them would see only one done. */
static CUgraphExec branches_new(void)
{
    CUgraph g;
    CUgraphExec x;
    CUstream side;
    CUevent fork, join;
    OK(cuStreamCreate(&side, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuEventRecord(fork, stream));
    OK(cuStreamWaitEvent(side, fork, 0));
    OK(launch_mix(stream, left, 3, 0));
    OK(launch_mix(side, right, 3, 0));
    OK(cuEventRecord(join, side));
    OK(cuStreamWaitEvent(stream, join, 0));
    OK(cuStreamEndCapture(stream, &g));
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphDestroy(g));
    OK(cuStreamDestroy(side));
    OK(cuEventDestroy(fork));
    OK(cuEventDestroy(join));
    return x;
}

static void *launch_graphs(void *exec)
{
    OK(cuCtxSetCurrent(ctx));
    for (int i = 0; i < ROUNDS; i++)
        OK(cuGraphLaunch(exec, stream));
    return NULL;
}

static void *launch_copies(void *unused)
{
    OK(cuCtxSetCurrent(ctx));
    for (int i = 0; i < ROUNDS; i++)
        OK(cuMemcpyDtoDAsync(left, right, WORDS * 4,
                             stream)); /* changes nothing between launches */
    return NULL;
}

Test(graph_threads, other_threads_work_does_not_split_a_launch)
{
    pthread_t graphs, copies;
    CUgraphExec x = branches_new();
    uint32_t expected = 1;
    cr_assert_eq(pthread_create(&graphs, NULL, launch_graphs, x), 0);
    cr_assert_eq(pthread_create(&copies, NULL, launch_copies, NULL), 0);
    pthread_join(graphs, NULL);
    pthread_join(copies, NULL);
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < ROUNDS; i++)
        expected *= 3;
    cr_assert_eq(word_of(left), expected);
    cr_assert_eq(word_of(right), expected);
    OK(cuGraphExecDestroy(x));
}

static void *capture_and_run(void *arg)
{
    CUdeviceptr p = *(CUdeviceptr *)arg;
    CUstream s;
    OK(cuCtxSetCurrent(ctx));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ROUNDS; i++) {
        CUgraph g;
        CUgraphExec x;
        OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
        OK(launch_mix(s, p, 2, 1));
        OK(launch_mix(s, p, 1, 1));
        OK(cuStreamEndCapture(s, &g));
        OK(cuGraphInstantiate(&x, g, 0));
        OK(cuGraphDestroy(g));
        OK(cuGraphLaunch(x, s));
        OK(cuGraphExecDestroy(x));
    }
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
    return NULL;
}

Test(graph_threads, two_threads_capture_concurrently)
{
    pthread_t threads[2];
    CUdeviceptr *args[2] = {&left, &right};
    uint32_t expected = 1;
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, capture_and_run, args[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < ROUNDS; i++)
        expected = expected * 2 + 2;
    cr_assert_eq(word_of(left), expected);
    cr_assert_eq(word_of(right), expected);
}

Test(graph_threads, graph_longer_than_a_queue_runs)
{
    CUgraph g;
    CUgraphExec x;
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    for (int i = 0; i < 2500; i++)
        OK(launch_mix(stream, left, 1, 1));
    OK(cuStreamEndCapture(stream, &g));
    OK(cuGraphInstantiate(&x, g, 0));
    OK(cuGraphLaunch(x, stream));
    OK(cuStreamSynchronize(stream));
    cr_assert_eq(word_of(left), 2501);
    OK(cuGraphExecDestroy(x));
    OK(cuGraphDestroy(g));
}
