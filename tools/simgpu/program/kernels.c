/*
 * kernels.c - what the known kernels cost and do. An effect runs at the modelled completion, on the
 * memory itself, and reports a pointer outside what the device may touch as a GPU does: with an
 * asynchronous, sticky error. A resident kernel has its effects at the instants of its steps.
 */
#include "tools/simgpu/program/kernels.h"
#include "tools/simgpu/program/condition.h"
#include "tools/simgpu/program/exchange.h"
#include "tools/simgpu/program/storage.h"
#include "tools/simgpu/memory/memory.h"

#include <string.h>

enum { KERNEL_FIXED_NS = 3000, KERNEL_BYTES_PER_US = 1000000 };

static uint64_t touch_cost_ns(uint64_t bytes)
{
    return KERNEL_FIXED_NS + bytes * 1000 / KERNEL_BYTES_PER_US;
}

/* Parameters as the entries in kernels.ptx and conditions.ptx declare them: packed is PTX's layout,
 * and C's. */
struct spin {
    uint64_t ns;
};
struct fill {
    uint32_t *p;
    uint32_t value, n;
};
struct copy {
    uint32_t *dst;
    const uint32_t *src;
    uint32_t n;
};
struct axpy {
    float *y;
    const float *x;
    float a;
    uint32_t n;
};
struct mix {
    uint32_t *x;
    uint32_t a, b, n;
};
struct mix_spin {
    uint32_t *x;
    uint32_t a, b, n, pad;
    uint64_t ns;
};
struct await_mix {
    uint32_t *x;
    uint32_t a, b, n, pad;
    const uint32_t *word;
    uint32_t rounds;
};
struct set_condition {
    uint64_t handle;
    uint32_t value;
};
struct count_condition {
    uint64_t handle;
    uint32_t *left;
};

/* May the kernel touch n words from p on? The words of n = 0 are never touched. */
static bool words_valid(const struct work *w, const void *p, uint32_t n)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)p;
    const struct sim_context *ctx = (const void *)w->context;
    return n == 0 || (at % sizeof(uint32_t) == 0 && memory_reaches(at, n * sizeof(uint32_t), ctx));
}

static uint64_t spin_cost(const void *packed)
{
    struct spin k;
    memcpy(&k, packed, sizeof(k));
    return k.ns;
}

/* How long the kernel runs is read when it is submitted; a GPU reads it when the kernel starts. */
static uint64_t spin_word_cost(const void *packed)
{
    uint64_t ns = 0;
    const uint64_t *at;
    memcpy(&at, packed, sizeof(at));
    if ((uintptr_t)at % sizeof(ns) == 0 && memory_contains((CUdeviceptr)(uintptr_t)at, sizeof(ns)))
        ns = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    return ns;
}

static CUresult spin_word_effect(struct work *w)
{
    const void *at;
    memcpy(&at, w->blob, sizeof(at));
    return words_valid(w, at, 2) ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static uint64_t fill_cost(const void *packed)
{
    struct fill k;
    memcpy(&k, packed, sizeof(k));
    return touch_cost_ns((uint64_t)k.n * 4);
}

/* A host may look at a word meanwhile, and see the old one or the new one. */
static CUresult fill_effect(struct work *w)
{
    struct fill k;
    memcpy(&k, w->blob, sizeof(k));
    if (!words_valid(w, k.p, k.n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < k.n; i++)
        __atomic_store_n(&k.p[i], k.value, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

enum { AWAIT_MIX_PACKED = 36, COPY_PACKED = 20, MIX_PACKED = 20, SET_CONDITION_PACKED = 12 };

static uint64_t copy_cost(const void *packed)
{
    struct copy k;
    memcpy(&k, packed, COPY_PACKED);
    return touch_cost_ns((uint64_t)k.n * 8);
}

static CUresult copy_effect(struct work *w)
{
    struct copy k;
    memcpy(&k, w->blob, COPY_PACKED);
    if (!words_valid(w, k.dst, k.n) || !words_valid(w, k.src, k.n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    memmove(k.dst, k.src, k.n * sizeof(*k.dst));
    return CUDA_SUCCESS;
}

static uint64_t axpy_cost(const void *packed)
{
    struct axpy k;
    memcpy(&k, packed, sizeof(k));
    return touch_cost_ns((uint64_t)k.n * 12);
}

static CUresult axpy_effect(struct work *w)
{
    struct axpy k;
    memcpy(&k, w->blob, sizeof(k));
    if (!words_valid(w, k.y, k.n) || !words_valid(w, k.x, k.n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < k.n; i++)
        k.y[i] += k.a * k.x[i];
    return CUDA_SUCCESS;
}

static CUresult mix_words(const struct work *w, uint32_t *x, uint32_t a, uint32_t b, uint32_t n)
{
    if (!words_valid(w, x, n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < n; i++)
        x[i] = x[i] * a + b;
    return CUDA_SUCCESS;
}

static uint64_t mix_cost(const void *packed)
{
    struct mix k;
    memcpy(&k, packed, MIX_PACKED);
    return touch_cost_ns((uint64_t)k.n * 8);
}

static CUresult mix_effect(struct work *w)
{
    struct mix k;
    memcpy(&k, w->blob, MIX_PACKED);
    return mix_words(w, k.x, k.a, k.b, k.n);
}

static uint64_t mix_spin_cost(const void *packed)
{
    struct mix_spin k;
    memcpy(&k, packed, sizeof(k));
    return touch_cost_ns((uint64_t)k.n * 8) + k.ns;
}

static CUresult mix_spin_effect(struct work *w)
{
    struct mix_spin k;
    memcpy(&k, w->blob, sizeof(k));
    return mix_words(w, k.x, k.a, k.b, k.n);
}

/* Resident: each round begins when the word has reached its number, and mixes at its end. */
enum { ARG_ROUND = 7, ARG_MIXING }; /* of args.u64, behind the shape */

static uint64_t await_mix_fail(struct work *w)
{
    w->step_error = CUDA_ERROR_ILLEGAL_ADDRESS;
    return STEP_OVER;
}

static uint64_t await_mix_step(struct work *w, uint64_t at_ns)
{
    struct await_mix k;
    uint64_t *round = &w->args.u64[ARG_ROUND], *mixing = &w->args.u64[ARG_MIXING];
    (void)at_ns;
    memcpy(&k, w->blob, AWAIT_MIX_PACKED);
    if (!words_valid(w, k.word, 1))
        return await_mix_fail(w);
    if (*mixing && mix_words(w, k.x, k.a, k.b, k.n) != CUDA_SUCCESS)
        return await_mix_fail(w);
    *round += *mixing;
    *mixing = 0;
    if (*round >= k.rounds)
        return STEP_OVER;
    uint32_t word = __atomic_load_n(k.word, __ATOMIC_ACQUIRE);
    if ((int32_t)(word - (uint32_t)*round - 1) < 0)
        return STEP_POLL;
    *mixing = 1;
    return touch_cost_ns((uint64_t)k.n * 8);
}

static uint64_t condition_cost(const void *packed)
{
    (void)packed;
    return KERNEL_FIXED_NS;
}

static CUresult set_condition_effect(struct work *w)
{
    struct set_condition k;
    memcpy(&k, w->blob, SET_CONDITION_PACKED);
    return condition_set(k.handle, k.value, w->context);
}

static CUresult count_condition_effect(struct work *w)
{
    struct count_condition k;
    memcpy(&k, w->blob, sizeof(k));
    if (!words_valid(w, k.left, 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    *k.left -= *k.left != 0;
    return condition_set(k.handle, *k.left, w->context);
}

static const struct kernel_model models[] = {
    {"spin", sizeof(struct spin), false, spin_cost, NULL, NULL},
    {"spin_word", sizeof(const uint64_t *), false, spin_word_cost, spin_word_effect, NULL},
    {"distance", sizeof(struct spin), true, spin_cost, NULL, NULL}, /* cutin's own */
    {"fill", sizeof(struct fill), false, fill_cost, fill_effect, NULL},
    {"copy", COPY_PACKED, false, copy_cost, copy_effect, NULL},
    {"axpy", sizeof(struct axpy), false, axpy_cost, axpy_effect, NULL},
    {"mix", MIX_PACKED, false, mix_cost, mix_effect, NULL},
    {"mix_spin", sizeof(struct mix_spin), false, mix_spin_cost, mix_spin_effect, NULL},
    {"await_mix", AWAIT_MIX_PACKED, false, NULL, NULL, await_mix_step},
    {"storage_search", STORAGE_PACKED, false, NULL, NULL, storage_search_step},
    {"storage_flush", STORAGE_PACKED, false, NULL, NULL, storage_flush_step},
    {"exchange", EXCHANGE_PACKED, false, NULL, NULL, exchange_step},
    {"set_condition", SET_CONDITION_PACKED, false, condition_cost, set_condition_effect, NULL},
    {"count_condition", sizeof(struct count_condition), false, condition_cost,
     count_condition_effect, NULL},
};

const struct kernel_model *kernel_model_find(const char *name, size_t packed_bytes)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
        if (!strcmp(models[i].name, name) && models[i].packed_bytes == packed_bytes)
            return &models[i];
    return NULL;
}
