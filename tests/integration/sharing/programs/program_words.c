/*
 * program_words.c - a CUDA program that makes contexts, one after another, for learned.c:
 * `program_words CONTEXTS`.
 */
#include "examples/common.h"

#include <stdlib.h>

/* Drivers of CUDA 12 have this version, too, but newer headers do not declare it. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

int main(int argc, char **argv)
{
    CUcontext context;
    CUstream stream;
    CUdevice device;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    for (int i = 0; i < atoi(argv[1]); i++) {
        CHECK(cuCtxCreate_v2(&context, 0, device));
        CHECK(cuStreamCreate(&stream, 0));
        CHECK(cuStreamDestroy(stream));
        CHECK(cuCtxDestroy(context));
    }
    return EXIT_SUCCESS;
}
