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
    /* By names that every driver since 12.0 has, even if cuda.h renames them to newer versions. */
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

/* A call that must succeed, or the rest makes no sense. */
#define CU(name, ...) gpu_check(gpu.name(__VA_ARGS__), #name)
void gpu_check(CUresult result, const char *call);
/* Makes a function of a call, for tables of calls. */
#define GPU_CALL(name, expression)                                                                 \
    static CUresult name(void)                                                                     \
    {                                                                                              \
        return expression;                                                                         \
    }
const char *gpu_error(CUresult result);

void gpu_load(void); /* opens the driver only */
void gpu_init(void); /* cuInit, and a device: the first, or the one in FACT_DEVICE */
void gpu_open(void); /* makes a context current, and loads the kernels */
int gpu_attribute(CUdevice_attribute attribute);
CUstream stream_new(void); /* non-blocking */
/* Keeps `blocks` busy for `us`. With gpu.full blocks there is no room for others. */
CUresult gpu_spin(CUstream s, unsigned int blocks, double us);

/* Words in pinned memory, each on a cache line of its own. */
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
/* Waits until the word has the value. False: it has not after `ms`. */
bool word_wait(struct word w, uint32_t value, unsigned int ms);

/* At a gate the stream waits until the word is 0. At a marker the GPU writes the value. */
CUresult gate_enqueue(CUstream s, CUdeviceptr word);
CUresult mark_enqueue(CUstream s, CUdeviceptr word, uint32_t value);
/* Puts both into one batch, as the design does. */
CUresult batch_enqueue(CUstream s, CUdeviceptr mark, uint32_t value, CUdeviceptr gate);
void batch_fill(CUstreamBatchMemOpParams ops[2], CUdeviceptr mark, uint32_t value,
                CUdeviceptr gate);
/* Makes a word for gates: in a page that other processes share, if the driver registers one
 * (page.c), as cutin's hold words are. */
struct word gate_word_new(void);
/* Skips the fact if the device has no memory operations. */
void need_memops(void);
/* Launches behind a closed gate until the thread waits for room (behind.c). Gives the number that
 * was queued, opens the gate, and returns the number. Only once in a process. */
unsigned int launch_until_full(void);

#endif
