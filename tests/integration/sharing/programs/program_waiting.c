/*
 * program_waiting.c - a CUDA program for storage.c. Its kernel in one stream waits for a word that
 * it gets only when kernels in another stream are complete. First the kernel's time is learned:
 * three times it waits half a second, and the library may look at its samples. Prints how long the
 * other kernels took, and "right" when all is done.
 */
#include "examples/common.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 256, LESSONS = 3, LESSON_NS = 500000000, LOOK_NS = 100000000, BESIDE = 40 };

static struct gpu gpu;
static CUfunction await_mix;
static _Atomic uint32_t *word;

static void await(CUstream stream, CUdeviceptr x)
{
    uint32_t a = 1, b = 1, n = ELEMENTS, rounds = 1;
    void *args[] = {&x, &a, &b, &n, &word, &rounds};

    *word = 0;
    CHECK(cuLaunchKernel(await_mix, 1, 1, 1, 256, 1, 1, 0, stream, args, NULL));
}

static CUstream stream_make(void)
{
    CUstream s;

    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

int main(void)
{
    CUdeviceptr x, y;
    uint32_t first;

    gpu_open(&gpu);
    CHECK(cuModuleGetFunction(&await_mix, gpu.module, "await_mix"));
    CUstream waits = stream_make(), beside = stream_make();
    CHECK(cuMemAllocHost((void **)&word, sizeof(*word)));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAlloc(&y, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 0, ELEMENTS));
    CHECK(cuMemsetD32(y, 0, ELEMENTS));
    for (int i = 0; i < LESSONS; i++) {
        await(waits, x);
        sleep_until(now_ns() + LESSON_NS);
        *word = 1;
        CHECK(cuStreamSynchronize(waits));
        sleep_until(now_ns() + LOOK_NS);
    }
    await(waits, x);
    uint64_t start = now_ns();
    for (uint64_t k = 0; k < BESIDE; k++)
        gpu_mix(&gpu, beside, y, k, ELEMENTS, 0);
    CHECK(cuStreamSynchronize(beside));
    printf("beside_ms=%.1f\n", (double)(now_ns() - start) / 1e6);
    *word = 1;
    CHECK(cuStreamSynchronize(waits));
    CHECK(cuMemcpyDtoH(&first, x, sizeof(first)));
    puts(first == LESSONS + 1 ? "right" : "wrong");
    gpu_close(&gpu);
    return first == LESSONS + 1 ? EXIT_SUCCESS : EXIT_FAILURE;
}
