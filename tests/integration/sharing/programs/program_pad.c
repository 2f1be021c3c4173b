/*
 * program_pad.c - a CUDA program with a real-time and a best-effort stream, for pad.c: `program_pad
 * FOLDER`.
 *
 * For each file FOLDER/1, FOLDER/2 ... it launches kernels into the real-time stream, and behind
 * them into the best-effort stream what the file's letter says. It says the number when all are
 * done. At the letter e it ends, and prints "right" if the best-effort kernels, whose order shows
 * in the result, have done what they should.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ELEMENTS = 256, LEARNED = 4, RT_KERNELS = 200, RT_NS = 200000 };

/* Kinds have different sizes, so that each is learned separately. */
static const struct kind {
    char letter;
    bool wide;
    unsigned blocks;
    int kernels;
    uint64_t ns;
} kinds[] = {
    {.letter = 'n', .blocks = 1, .kernels = 200, .ns = 50000},
    {.letter = 'w', .wide = true, .kernels = 3, .ns = 90000},
    {.letter = 'l', .blocks = 16, .kernels = 2, .ns = 60000000},
};
enum { KINDS = sizeof(kinds) / sizeof(*kinds) };

static struct gpu gpu;
static CUfunction spin;
static CUstream rt, be;
static CUdeviceptr x;
static uint64_t launched;

static void launch_be(const struct kind *kind)
{
    uint32_t a = mix_a(launched), b = mix_b(launched), n = ELEMENTS;
    uint64_t ns = kind->ns;
    void *params[] = {&x, &a, &b, &n, &ns};

    CHECK(cuLaunchKernel(gpu.mix_spin, kind->wide ? gpu.full : kind->blocks, 1, 1, 256, 1, 1, 0, be,
                         params, NULL));
    launched++;
}

static void launch_rt(void)
{
    uint64_t ns = RT_NS;
    void *params[] = {&ns};

    CHECK(cuLaunchKernel(spin, 1, 1, 1, 256, 1, 1, 0, rt, params, NULL));
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static char letter_of(const char *folder, int round)
{
    char path[512];
    FILE *f;
    int letter;

    snprintf(path, sizeof(path), "%s/%d", folder, round);
    while (!(f = fopen(path, "r")) || (letter = fgetc(f)) == EOF) {
        if (f)
            fclose(f);
        nap();
    }
    fclose(f);
    return (char)letter;
}

static void said(int round)
{
    printf("round %d.\n", round);
    fflush(stdout);
}

static bool round_run(char letter)
{
    const struct kind *kind = kinds;

    while (kind < kinds + KINDS && kind->letter != letter)
        kind++;
    if (kind == kinds + KINDS)
        return false;
    for (int i = 0; i < RT_KERNELS; i++)
        launch_rt();
    for (int i = 0; i < kind->kernels; i++)
        launch_be(kind);
    CHECK(cuStreamSynchronize(rt));
    CHECK(cuStreamSynchronize(be));
    return true;
}

int main(int argc, char **argv)
{
    int least, greatest;

    if (argc != 2)
        return EXIT_FAILURE;
    gpu_open(&gpu);
    CHECK(cuModuleGetFunction(&spin, gpu.module, "spin"));
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    CHECK(cuStreamCreateWithPriority(&rt, CU_STREAM_NON_BLOCKING, greatest));
    CHECK(cuStreamCreateWithPriority(&be, CU_STREAM_NON_BLOCKING, least));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    for (int k = 0; k < KINDS; k++)
        for (int i = 0; i < LEARNED; i++) {
            launch_be(&kinds[k]);
            CHECK(cuStreamSynchronize(be));
        }
    said(0);
    for (int i = 1; round_run(letter_of(argv[1], i)); i++)
        said(i);
    mix_expect(x, ELEMENTS, launched);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
