/*
 * common.h - what the example programs share: error checks, the GPU, time, percentiles, options.
 */
#ifndef CUTIN_EXAMPLES_COMMON_H
#define CUTIN_EXAMPLES_COMMON_H

#include <cuda.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Calls the driver. On an error it prints one line that names the call, and exits with 1. */
#define CHECK(call) check((call), #call)
void check(CUresult result, const char *call);

struct gpu {
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction mix, mix_spin, copy; /* kernels.ptx */
    uint32_t full;                  /* blocks that fill the whole device */
    uint32_t blocks;                /* launch at least this many; surplus blocks only pass time */
    char name[96];
};
/* Makes device 0's primary context current and loads the kernels, which are in the program. */
void gpu_open(struct gpu *gpu);
void gpu_open_on(struct gpu *gpu, int ordinal); /* the same with another device */
void gpu_close(struct gpu *gpu);
/* Launches the k-th update of `n` elements, x = x * mix_a(k) + mix_b(k). Each block takes `ns`. */
void gpu_mix(const struct gpu *gpu, CUstream stream, CUdeviceptr x, uint64_t k, uint32_t n,
             uint64_t ns);
void gpu_copy(const struct gpu *gpu, CUstream stream, CUdeviceptr to, CUdeviceptr from, uint32_t n);

/* Odd factors keep every bit, so a lost, repeated or swapped update always shows. */
static inline uint32_t mix_a(uint64_t k)
{
    return (uint32_t)(k * 2654435761u) | 1u;
}
static inline uint32_t mix_b(uint64_t k)
{
    return (uint32_t)(k * 40503u + 12345u);
}
/* Updates 0 to `count` - 1 as one: x * a + b. */
void mix_chain(uint64_t count, uint32_t *a, uint32_t *b);
/* Prints "right" if the `n` elements, which were 1, are what `count` updates make of 1. Otherwise
 * it prints what is wrong, and exits with 1. */
void mix_expect(CUdeviceptr x, uint32_t n, uint64_t count);

/* FNV-1a over 32-bit words. */
uint64_t checksum(uint64_t seed, const uint32_t *words, size_t n);
#define CHECKSUM_SEED 0xcbf29ce484222325u

uint64_t now_ns(void);            /* CLOCK_MONOTONIC */
void sleep_until(uint64_t at_ns); /* the same clock, absolute; returns early when stopped */

/* sort_ns sorts. A percentile is the smallest value that `percent` of all do not exceed, in us. */
void sort_ns(uint64_t *ns, size_t n);
double percentile_us(const uint64_t *sorted_ns, size_t n, double percent);

/* True after SIGINT or SIGTERM, once `stop_on_signals` was called. */
extern _Atomic sig_atomic_t stopped;
void stop_on_signals(void);

/* Reads `--NAME VALUE` options from a table; a NULL `number` marks a flag. A wrong option prints
 * one line on stderr and exits with 2. --help prints the table. */
struct setting {
    const char *name;
    double *number;
    bool *flag;
    double least, most;
    const char *help;
};
void settings_read(const struct setting *table, int argc, char **argv, const char *about);

#endif
