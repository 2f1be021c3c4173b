/*
 * program_names.c - a CUDA program whose kernels have the names and grids that its arguments say,
 * for names.c and kernel_times.c: `program_names [TIMES] NAME BLOCKS [NAME BLOCKS ...]`.
 *
 * Each pair is one kernel without parameters, with blocks of 256 threads. It is launched TIMES
 * times (64) in turn with the others. A real driver can compile it, too: it does nothing.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS = 32 };

static CUfunction load(const char *name)
{
    static const char form[] = ".version 7.0\n.target sm_52\n.address_size 64\n"
                               ".visible .entry %s()\n{\n    ret;\n}\n";
    char *ptx = NULL;
    CUmodule module;
    CUfunction function;

    if (asprintf(&ptx, form, name) < 0)
        exit(EXIT_FAILURE);
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&function, module, name));
    free(ptx);
    return function;
}

int main(int argc, char **argv)
{
    CUfunction function[KERNELS];
    unsigned int blocks[KERNELS], n = 0;
    int times = argc % 2 == 0 ? atoi(argv[1]) : 64;
    struct gpu gpu;
    CUstream stream;

    gpu_open(&gpu);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (int i = argc % 2 == 0 ? 2 : 1; i + 1 < argc && n < KERNELS; i += 2, n++) {
        function[n] = load(argv[i]);
        blocks[n] = (unsigned int)strtoul(argv[i + 1], NULL, 10);
    }
    for (int t = 0; t < times; t++) {
        for (unsigned int i = 0; i < n; i++)
            CHECK(cuLaunchKernel(function[i], blocks[i], 1, 1, 256, 1, 1, 0, stream, NULL, NULL));
        CHECK(cuStreamSynchronize(stream));
    }
    puts("done");
    return EXIT_SUCCESS;
}
