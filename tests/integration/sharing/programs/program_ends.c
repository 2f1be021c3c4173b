/*
 * program_ends.c - a service and a job for ends.c and stuck.c:
 *
 *   program_ends job              launches kernels of 100 us until it is told to end
 *   program_ends service ROUNDS   a kernel of 20 us every 9 ms, 20 times in each way to learn that
 *                                 it is complete; says "MODE FROM TO", CLOCK_MONOTONIC in ns
 */
#include "examples/common.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 256, PERIOD_NS = 9000000, REQUESTS = 20, AHEAD = 16 };

static struct gpu gpu;
static CUstream stream;
static CUdeviceptr x, device;
static _Atomic uint32_t *word;
static uint32_t turn;
static uint64_t updates;

static void synchronises(void)
{
    CHECK(cuStreamSynchronize(stream));
}

static void CUDA_CB called(void *user)
{
    atomic_store(word, turn);
}

static void word_await(void)
{
    while (atomic_load(word) != turn)
        sleep_until(now_ns() + 20000);
}

static void calls_a_host_function(void)
{
    CHECK(cuLaunchHostFunc(stream, called, NULL));
    word_await();
}

static void polls_a_word(void)
{
    CHECK(cuStreamWriteValue32(stream, device, turn, 0));
    word_await();
}

static const struct mode {
    const char *name;
    void (*learn)(void);
} modes[] = {{"synchronise", synchronises},
             {"host_function", calls_a_host_function},
             {"word", polls_a_word}};

static void requests(const struct mode *mode)
{
    uint64_t from = now_ns(), at = from;

    for (int i = 0; i < REQUESTS; i++) {
        turn++;
        gpu_mix(&gpu, stream, x, updates++, ELEMENTS, 20000);
        mode->learn();
        sleep_until(at += PERIOD_NS);
    }
    printf("%s %llu %llu\n", mode->name, (unsigned long long)from, (unsigned long long)now_ns());
    fflush(stdout);
}

static void job(void)
{
    while (!stopped) {
        for (int i = 0; i < AHEAD; i++)
            gpu_mix(&gpu, stream, x, updates++, ELEMENTS, 100000);
        CHECK(cuStreamSynchronize(stream));
    }
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return EXIT_FAILURE;
    stop_on_signals();
    gpu_open(&gpu);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&device, (void *)word, 0));
    CHECK(cuCtxSynchronize());
    printf("ready\n");
    fflush(stdout);
    if (strcmp(argv[1], "job") == 0)
        job();
    else
        for (int round = atoi(argv[2]); round > 0; round--)
            for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++)
                requests(&modes[m]);
    CHECK(cuStreamSynchronize(stream));
    mix_expect(x, ELEMENTS, updates);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
