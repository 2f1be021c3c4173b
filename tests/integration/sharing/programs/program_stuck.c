/*
 * program_stuck.c - real-time work that completes nothing for two seconds, and until FILE exists,
 * for stuck.c: a kernel that waits for a word of the host.
 *
 *   program_stuck kept|destroyed FILE OVER   its stream still exists meanwhile, or not
 *
 * It says "waits FROM TO", CLOCK_MONOTONIC in ns. Then for almost a second it gets work and
 * completes some every tenth of one, and says "works FROM TO". It ends once OVER exists.
 */
#include "examples/common.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ELEMENTS = 256, KERNEL_NS = 1000000, KERNELS = 800, AHEAD = 100, LOOK_NS = 1000000 };
#define WAIT_NS UINT64_C(2000000000)

static struct gpu gpu;
static CUdeviceptr x;
static _Atomic uint32_t *word;

static CUstream stream_make(void)
{
    CUstream s;

    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static void say(const char *what, uint64_t from)
{
    printf("%s %llu %llu\n", what, (unsigned long long)from, (unsigned long long)now_ns());
    fflush(stdout);
}

static void await_file(const char *file)
{
    while (access(file, F_OK) != 0)
        sleep_until(now_ns() + LOOK_NS);
}

static void wait_for_the_host(bool destroyed, const char *file)
{
    uint32_t a = 1, b = 1, n = ELEMENTS, rounds = 1;
    void *args[] = {&x, &a, &b, &n, &word, &rounds};
    CUstream s = stream_make();
    CUfunction await;
    uint64_t from = now_ns();

    CHECK(cuModuleGetFunction(&await, gpu.module, "await_mix"));
    CHECK(cuLaunchKernel(await, 1, 1, 1, 256, 1, 1, 0, s, args, NULL));
    if (destroyed)
        CHECK(cuStreamDestroy(s));
    sleep_until(from + WAIT_NS);
    await_file(file);
    say("waits", from);
    atomic_store(word, 1);
    CHECK(cuCtxSynchronize());
}

static void work(void)
{
    CUstream s = stream_make();
    uint64_t from = now_ns();

    for (uint64_t i = 0; i < KERNELS; i++) {
        gpu_mix(&gpu, s, x, i, ELEMENTS, KERNEL_NS);
        if (i % AHEAD == 0)
            CHECK(cuStreamSynchronize(s));
    }
    CHECK(cuStreamSynchronize(s));
    say("works", from);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return EXIT_FAILURE;
    gpu_open(&gpu);
    CHECK(cuMemAllocHost((void **)&word, sizeof(*word)));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    wait_for_the_host(strcmp(argv[1], "destroyed") == 0, argv[2]);
    work();
    await_file(argv[3]);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
