/*
 * program_gates.c - a CUDA program with work in the driver that cannot begin yet, for gates.c:
 * `program_gates QUEUE BEGIN [CONTEXTS]`.
 *
 * It launches short kernels until there is a file QUEUE. Then it queues a host function and KERNELS
 * kernels behind it, and says "queued". The host function returns once there is a file BEGIN. In
 * the end it prints "right" if the kernels have done what they should; their order shows.
 *
 * First it makes and destroys CONTEXTS contexts, each with memory that is registered and never
 * unregistered. Then a stream writes a word of the device's memory.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* Drivers of CUDA 12 have this version, too, but newer headers do not declare it. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

enum { ELEMENTS = 256, KERNELS = 120, KERNEL_NS = 20000 };

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void CUDA_CB wait_for_file(void *path)
{
    while (access(path, F_OK) != 0)
        nap();
}

static void contexts_come_and_go(const struct gpu *gpu, int count)
{
    static char page[4096] __attribute__((aligned(4096)));
    CUcontext context;

    for (int i = 0; i < count; i++) {
        CHECK(cuCtxCreate_v2(&context, 0, gpu->device));
        CHECK(cuMemHostRegister(page, sizeof(page), 0));
        CHECK(cuCtxDestroy(context));
    }
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    CUstream stream;
    CUdeviceptr x;
    uint64_t k = 0;

    if (argc < 3)
        return EXIT_FAILURE;
    gpu_open(&gpu);
    contexts_come_and_go(&gpu, argc > 3 ? atoi(argv[3]) : 0);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuStreamWriteValue32(stream, x, 1, 0));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    for (; access(argv[1], F_OK) != 0; k++) {
        gpu_mix(&gpu, stream, x, k, ELEMENTS, KERNEL_NS);
        if (k % 16 == 15) {
            CHECK(cuStreamSynchronize(stream));
            nap();
        }
    }
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuLaunchHostFunc(stream, wait_for_file, argv[2]));
    for (int i = 0; i < KERNELS; i++, k++)
        gpu_mix(&gpu, stream, x, k, ELEMENTS, KERNEL_NS);
    printf("queued\n");
    fflush(stdout);
    CHECK(cuStreamSynchronize(stream));
    mix_expect(x, ELEMENTS, k);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
