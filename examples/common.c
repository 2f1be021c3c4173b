/*
 * common.c - what the example programs share.
 */
#include "common.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels_ptx.h"

void check(CUresult result, const char *call)
{
    const char *text = NULL;

    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorString(result, &text);
    fprintf(stderr, "%.60s: %s (%d)\n", call, text ? text : "unknown error", (int)result);
    exit(EXIT_FAILURE);
}

enum { THREADS = 256 };

void gpu_open(struct gpu *gpu)
{
    gpu_open_on(gpu, 0);
}

void gpu_open_on(struct gpu *gpu, int ordinal)
{
    int processors, threads;

    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&gpu->device, ordinal));
    CHECK(cuDeviceGetName(gpu->name, sizeof(gpu->name), gpu->device));
    CHECK(cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, gpu->device));
    CHECK(cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                               gpu->device));
    gpu->full = (uint32_t)(processors * threads / THREADS);
    gpu->blocks = 1;
    CHECK(cuDevicePrimaryCtxRetain(&gpu->context, gpu->device));
    CHECK(cuCtxSetCurrent(gpu->context));
    CHECK(cuModuleLoadData(&gpu->module, kernels_ptx));
    CHECK(cuModuleGetFunction(&gpu->mix, gpu->module, "mix"));
    CHECK(cuModuleGetFunction(&gpu->mix_spin, gpu->module, "mix_spin"));
    CHECK(cuModuleGetFunction(&gpu->copy, gpu->module, "copy"));
}

void gpu_close(struct gpu *gpu)
{
    CHECK(cuModuleUnload(gpu->module));
    CHECK(cuDevicePrimaryCtxRelease(gpu->device));
}

static void launch(const struct gpu *gpu, CUfunction function, CUstream stream, uint32_t n,
                   void **args)
{
    uint32_t blocks = (n + THREADS - 1) / THREADS;

    CHECK(cuLaunchKernel(function, blocks < gpu->blocks ? gpu->blocks : blocks, 1, 1, THREADS, 1, 1,
                         0, stream, args, NULL));
}

void gpu_mix(const struct gpu *gpu, CUstream stream, CUdeviceptr x, uint64_t k, uint32_t n,
             uint64_t ns)
{
    uint32_t a = mix_a(k), b = mix_b(k);
    void *args[] = {&x, &a, &b, &n, &ns};

    launch(gpu, ns ? gpu->mix_spin : gpu->mix, stream, n, args);
}

void gpu_copy(const struct gpu *gpu, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint32_t n)
{
    void *args[] = {&to, &from, &n};

    launch(gpu, gpu->copy, stream, n, args);
}

void mix_chain(uint64_t count, uint32_t *a, uint32_t *b)
{
    *a = 1;
    *b = 0;
    for (uint64_t k = 0; k < count; k++) {
        *a *= mix_a(k);
        *b = *b * mix_a(k) + mix_b(k);
    }
}

void mix_expect(CUdeviceptr x, uint32_t n, uint64_t count)
{
    uint32_t a, b, *words = malloc(n * sizeof(*words));

    check(words ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, "malloc");
    mix_chain(count, &a, &b);
    CHECK(cuMemcpyDtoH(words, x, n * sizeof(*words)));
    for (uint32_t i = 0; i < n; i++)
        if (words[i] != a + b) {
            printf("wrong: %u, not %u\n", words[i], a + b);
            exit(EXIT_FAILURE);
        }
    free(words);
    printf("right\n");
    fflush(stdout);
}

uint64_t checksum(uint64_t seed, const uint32_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        seed = (seed ^ words[i]) * 0x100000001b3u;
    return seed;
}

uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void sleep_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000u),
                          .tv_nsec = (long)(at_ns % 1000000000u)};

    while (!stopped && clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static int compare_ns(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

void sort_ns(uint64_t *ns, size_t n)
{
    qsort(ns, n, sizeof(*ns), compare_ns);
}

double percentile_us(const uint64_t *sorted_ns, size_t n, double percent)
{
    size_t rank = (size_t)((double)n * percent / 100.0 + 0.999999);

    if (n == 0)
        return 0;
    return (double)sorted_ns[rank == 0 ? 0 : rank > n ? n - 1 : rank - 1] / 1000.0;
}

_Atomic sig_atomic_t stopped;

static void on_signal(int number)
{
    stopped = 1;
}

void stop_on_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void print_help(const struct setting *table, const char *program, const char *about)
{
    printf("Usage: %s [OPTIONS]\n%s\n\nOptions:\n", program, about);
    for (; table->name; table++) {
        printf("  --%-12s %s", table->name, table->help);
        if (table->number)
            printf(" (%g)", *table->number);
        putchar('\n');
    }
}

static void setting_read(const struct setting *s, const char *program, const char *text)
{
    char *end;

    if (!text) {
        fprintf(stderr, "%s: --%s needs a number\n", program, s->name);
        exit(2);
    }
    *s->number = strtod(text, &end);
    if (end == text || *end || !(*s->number >= s->least && *s->number <= s->most)) {
        fprintf(stderr, "%s: --%s %s is not a number from %g to %g\n", program, s->name, text,
                s->least, s->most);
        exit(2);
    }
}

void settings_read(const struct setting *table, int argc, char **argv, const char *about)
{
    for (int i = 1; i < argc; i++) {
        const struct setting *s = table;

        if (strcmp(argv[i], "--help") == 0) {
            print_help(table, argv[0], about);
            exit(EXIT_SUCCESS);
        }
        while (s->name && (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, s->name) != 0))
            s++;
        if (!s->name) {
            fprintf(stderr, "%s: unknown option %s; see --help\n", argv[0], argv[i]);
            exit(2);
        }
        if (s->number)
            setting_read(s, argv[0], argv[++i]);
        else
            *s->flag = true;
    }
}
