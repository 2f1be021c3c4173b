/*
 * join_bench.c - what best effort gets beside 100 requests a second, each in two streams that are
 * joined by events. To be run with cutin preloaded, CUTIN_PRIORITY=rt and
 * CUTIN_STREAM_PRIORITY=inherit:
 *
 *   join_bench [SECONDS]
 */
#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static CUcontext context;
static CUfunction spin;
static _Atomic bool stop;
static _Atomic unsigned steps;

static void must(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    fprintf(stderr, "%s = %d\n", what, (int)r);
    exit(1);
}
#define MUST(call) must(call, #call)

static void launch(CUstream s, uint64_t us)
{
    uint64_t ns = us * 1000;
    void *params[] = {&ns};
    MUST(cuLaunchKernel(spin, 1, 1, 1, 32, 1, 1, 0, s, params, NULL));
}

static void *best_effort(void *arg)
{
    CUstream s;
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    while (!atomic_load(&stop)) {
        for (int i = 0; i < 16; i++)
            launch(s, 50);
        MUST(cuStreamSynchronize(s));
        atomic_fetch_add(&steps, 16);
    }
    return NULL;
}

static void request(CUstream front, CUstream side, CUevent fork, CUevent join)
{
    launch(front, 200);
    MUST(cuEventRecord(fork, front));
    MUST(cuStreamWaitEvent(side, fork, 0));
    launch(side, 200);
    launch(front, 200);
    MUST(cuEventRecord(join, side));
    MUST(cuStreamWaitEvent(front, join, 0));
    MUST(cuStreamSynchronize(front));
}

static void real_time(int seconds, bool requests)
{
    CUstream front, side;
    CUevent fork, join;
    int least, greatest;
    struct timespec next;
    MUST(cuCtxGetStreamPriorityRange(&least, &greatest));
    MUST(cuStreamCreateWithPriority(&front, CU_STREAM_NON_BLOCKING, greatest));
    MUST(cuStreamCreateWithPriority(&side, CU_STREAM_NON_BLOCKING, greatest));
    MUST(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    MUST(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int i = 0; i < seconds * 100; i++) {
        next.tv_nsec += 10000000;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        if (requests)
            request(front, side, fork, join);
    }
}

static unsigned steps_beside(int seconds, bool requests)
{
    pthread_t t;
    atomic_store(&stop, false);
    atomic_store(&steps, 0);
    if (pthread_create(&t, NULL, best_effort, NULL) != 0)
        exit(1);
    real_time(seconds, requests);
    atomic_store(&stop, true);
    pthread_join(t, NULL);
    return atomic_load(&steps) / (unsigned)seconds;
}

int main(int argc, char **argv)
{
    int seconds = argc > 1 ? atoi(argv[1]) : 5;
    static char ptx[1 << 20];
    FILE *f = fopen(SOURCE_DIR "/examples/kernels.ptx", "r");
    CUdevice device;
    CUmodule module;
    if (seconds < 1 || !f || fread(ptx, 1, sizeof(ptx) - 1, f) == 0)
        return 2;
    fclose(f);
    MUST(cuInit(0));
    MUST(cuDeviceGet(&device, 0));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuModuleLoadData(&module, ptx));
    MUST(cuModuleGetFunction(&spin, module, "spin"));
    unsigned alone = steps_beside(seconds, false), beside = steps_beside(seconds, true);
    printf("best effort: %u kernels/s alone, %u beside requests: %u %%\n", alone, beside,
           alone ? beside * 100 / alone : 0);
    return 0;
}
