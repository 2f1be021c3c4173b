/*
 * program_alone.c - a CUDA program that launches when it is told to, for alone.c and idle.c:
 * `program_alone FOLDER [KERNELS [MICROSECONDS [per-thread | green | failing]]]`.
 *
 * It says when it has a context, and waits for the file FOLDER/0 before it uses it. For each file
 * FOLDER/1, FOLDER/2 ... it launches the next row of `steps`, the last of them again and again, and
 * then says the number. With KERNELS it launches as many each time, of 5 us or MICROSECONDS, in a
 * stream of its own, its thread's or a green context's default stream, and waits for none;
 * `failing` asks the driver until there is an answer, and says that. A host function in its stream
 * returns once there is a file FOLDER/begin. With FOLDER/end it prints "right" if the kernels,
 * whose order shows in the result, have done what they should.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 256, WARM = 8 };

static const struct step {
    int kernels;
    uint64_t ns;
    bool behind_host, waits;
} steps[] = {
    {.kernels = 10000, .ns = 5000, .waits = true},
    {.kernels = 100, .ns = 5000, .behind_host = true},
    {.kernels = 200, .ns = 20000},
    {.kernels = 1000, .ns = 5000, .waits = true},
};
enum { STEPS = sizeof(steps) / sizeof(*steps) };

static const char *folder;

static bool file_there(const char *name)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void CUDA_CB wait_to_begin(void *unused)
{
    while (!file_there("begin"))
        nap();
}

static bool wait_for_step(int step)
{
    char name[16];

    snprintf(name, sizeof(name), "%d", step);
    while (!file_there(name) && !file_there("end"))
        nap();
    return !file_there("end");
}

static void said(int step)
{
    printf("launched %d.\n", step);
    fflush(stdout);
}

/* From then on the default stream is that of a green context. */
static void green_open(const struct gpu *gpu)
{
#if CUDA_VERSION >= 12050
    CUdevResource all, part;
    CUdevResourceDesc desc;
    CUgreenCtx green;
    CUcontext context;
    unsigned int parts = 1;

    CHECK(cuDeviceGetDevResource(gpu->device, &all, CU_DEV_RESOURCE_TYPE_SM));
    CHECK(cuDevSmResourceSplitByCount(&part, &parts, &all, NULL, 0, 16));
    CHECK(cuDevResourceGenerateDesc(&desc, &part, 1));
    CHECK(cuGreenCtxCreate(&green, desc, gpu->device, CU_GREEN_CTX_DEFAULT_STREAM));
    CHECK(cuCtxFromGreenCtx(&context, green));
    CHECK(cuCtxSetCurrent(context));
#endif
}

static bool is(const char *word, int argc, char **argv)
{
    return argc > 4 && strcmp(argv[4], word) == 0;
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    CUstream stream = NULL;
    CUdeviceptr x;
    uint64_t k = 0;

    if (argc < 2)
        return EXIT_FAILURE;
    folder = argv[1];
    const struct step given = {.kernels = argc > 2 ? atoi(argv[2]) : 0,
                               .ns = argc > 3 ? 1000 * strtoull(argv[3], NULL, 10) : 5000};
    gpu_open(&gpu);
    printf("opened.\n");
    fflush(stdout);
    if (!wait_for_step(0)) {
        gpu_close(&gpu);
        return EXIT_SUCCESS;
    }
    if (is("per-thread", argc, argv))
        stream = CU_STREAM_PER_THREAD;
    else if (is("green", argc, argv))
        green_open(&gpu);
    else
        CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    for (; k < WARM; k++) /* the first launches of a kernel are timed */
        gpu_mix(&gpu, stream, x, k, ELEMENTS, 5000);
    CHECK(cuStreamSynchronize(stream));
    said(0);
    for (int i = 1; wait_for_step(i); i++) {
        const struct step *s = argc > 2 ? &given : &steps[i < STEPS ? i - 1 : STEPS - 1];

        if (s->behind_host)
            CHECK(cuLaunchHostFunc(stream, wait_to_begin, NULL));
        for (int n = 0; n < s->kernels; n++, k++)
            gpu_mix(&gpu, stream, x, k, ELEMENTS, s->ns);
        if (is("failing", argc, argv)) {
            CUresult r;

            while ((r = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
                nap();
            printf("error %d.\n", (int)r);
        }
        if (s->waits)
            CHECK(cuStreamSynchronize(stream));
        said(i);
    }
    CHECK(cuCtxSynchronize());
    mix_expect(x, ELEMENTS, k);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
