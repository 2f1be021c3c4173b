/*
 * gpu.h - the driver and a context of a fact's process, opened at run time; words that host and GPU
 * share; gates.
 */
#ifndef CUTIN_TOOLS_FACTS_GPU_H
#define CUTIN_TOOLS_FACTS_GPU_H

#include "driver.h"
#include "fact.h"

#include <stdatomic.h>

struct gpu {
    union {
        struct driver driver;
        struct {
            DRIVER_FUNCTIONS(DRIVER_MEMBER)
        };
    };
    /* By the names that every driver since 12.0 has, whatever newer ones cuda.h means. */
    CUresult (*cuCtxCreate_v2)(CUcontext *, unsigned int, CUdevice);
    CUresult (*cuEventElapsedTime_v1)(float *, CUevent, CUevent);
    void *library;
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction spin, mix;
    unsigned int full; /* blocks that fill the device */
    int version;
};
extern struct gpu gpu;

/* A call that has to succeed for the rest to make sense. */
#define CU(name, ...) gpu_check(gpu.name(__VA_ARGS__), #name)
void gpu_check(CUresult result, const char *call);
/* A call as a function, for tables of them. */
#define GPU_CALL(name, expression)                                                                 \
    static CUresult name(void)                                                                     \
    {                                                                                              \
        return expression;                                                                         \
    }
const char *gpu_error(CUresult result);

void gpu_load(void); /* the driver alone */
void gpu_init(void); /* cuInit and a device: the first, or the one that FACT_DEVICE says */
void gpu_open(void); /* a context, current, and the kernels */
int gpu_attribute(CUdevice_attribute attribute);
CUstream stream_new(void); /* non-blocking */
/* Keep `blocks` busy for `us`; gpu.full of them leave no room for others. */
CUresult gpu_spin(CUstream s, unsigned int blocks, double us);

/* Words in pinned memory, on lines of their own. */
struct word {
    _Atomic uint32_t *host;
    CUdeviceptr device;
};
struct word word_new(void);
static inline uint32_t word_get(struct word w)
{
    return atomic_load_explicit(w.host, memory_order_acquire);
}
static inline void word_set(struct word w, uint32_t value)
{
    atomic_store_explicit(w.host, value, memory_order_release);
}
/* Waits until the word has the value; false after `ms`. */
bool word_wait(struct word w, uint32_t value, unsigned int ms);

/* A gate: the stream goes on once the word is 0. A marker: the GPU writes the value. */
CUresult gate_queue(CUstream s, CUdeviceptr word);
CUresult mark_queue(CUstream s, CUdeviceptr word, uint32_t value);
/* Both in one batch, as the design wants it. */
CUresult batch_queue(CUstream s, CUdeviceptr mark, uint32_t value, CUdeviceptr gate);
void batch_fill(CUstreamBatchMemOpParams ops[2], CUdeviceptr mark, uint32_t value,
                CUdeviceptr gate);
/* A word as gates look at: in a page that is shared with other processes, where the driver takes
 * one (page.c). */
struct word gate_word_new(void);
/* Skips the fact where the device has no memops. */
void need_memops(void);
/* Launches behind a closed gate until the thread waits for room, says how many were queued, opens
 * the gate and returns that number (behind.c). Once in a process. */
unsigned int launch_until_full(void);

#endif
