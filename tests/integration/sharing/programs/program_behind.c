/*
 * program_behind.c - best effort for learned.c: a short kernel that another stream keeps waiting.
 *
 * In rounds without a stop, long kernels that fill the device go into one stream. In another one a
 * copy of a few words waits by an event for what a host function prepares, and then, in three
 * rounds of four, for the multiprocessors. The long kernels are shorter than the budget. So the
 * driver has the copy beside one of them, whatever holds came before, and only the round itself
 * keeps the copy from the multiprocessors.
 */
#include "examples/common.h"

#include <stdlib.h>
#include <time.h>

enum { ELEMENTS = 256, LONG_NS = 150 * 1000, PREPARE_NS = 20 * 1000, FREE = 4 };

struct behind {
    struct gpu gpu;
    CUstream ahead, prepare, behind;
    CUevent prepared, copied;
    CUdeviceptr x, y;
};

static void CUDA_CB prepare(void *data)
{
    nanosleep(&(struct timespec){.tv_nsec = PREPARE_NS}, NULL);
}

static void round_of(struct behind *b, uint64_t k)
{
    b->gpu.blocks = b->gpu.full;
    if (k % FREE)
        gpu_mix(&b->gpu, b->ahead, b->x, k, ELEMENTS, LONG_NS);
    CHECK(cuLaunchHostFunc(b->prepare, prepare, NULL));
    CHECK(cuEventRecord(b->prepared, b->prepare));
    CHECK(cuStreamWaitEvent(b->behind, b->prepared, 0));
    b->gpu.blocks = 1;
    gpu_copy(&b->gpu, b->behind, b->y, b->x, ELEMENTS);
    CHECK(cuEventRecord(b->copied, b->behind));
    CHECK(cuEventSynchronize(b->copied));
    CHECK(cuStreamSynchronize(b->ahead));
}

int main(void)
{
    struct behind b;

    stop_on_signals();
    gpu_open(&b.gpu);
    CHECK(cuStreamCreate(&b.ahead, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b.prepare, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&b.behind, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&b.prepared, CU_EVENT_DISABLE_TIMING));
    CHECK(cuEventCreate(&b.copied, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&b.x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAlloc(&b.y, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(b.x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    for (uint64_t k = 0; !stopped; k++)
        round_of(&b, k);
    CHECK(cuCtxSynchronize());
    gpu_close(&b.gpu);
    return EXIT_SUCCESS;
}
