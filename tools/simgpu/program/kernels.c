/*
 * kernels.c - the costs and effects of the known kernels. An effect runs at the modelled
 * completion, on the memory itself. A bad pointer is an asynchronous, sticky error, as on a GPU. A
 * resident kernel has its effects at the instants of its steps.
 */
#include "tools/simgpu/program/kernels.h"
#include "tools/simgpu/program/condition.h"
#include "tools/simgpu/memory/memory.h"

enum { KERNEL_FIXED_NS = 3000, KERNEL_BYTES_PER_US = 1000000 };

static uint64_t touch_cost_ns(uint64_t bytes)
{
    return KERNEL_FIXED_NS + bytes * 1000 / KERNEL_BYTES_PER_US;
}

/* Parameters as the entries in kernels.ptx and conditions.ptx declare them. The packed layout is
 * PTX's: it is C's without the padding behind the last member. */
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

/* Whether the kernel may touch n words from p on. If n is 0 it touches none. */
static bool words_valid(const struct work *w, const void *p, uint32_t n)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)p;
    const struct sim_context *ctx = (const void *)w->context;
    return n == 0 ||
           (at % sizeof(uint32_t) == 0 && memory_reachable(at, n * sizeof(uint32_t), ctx));
}

static uint64_t spin_cost(const void *packed)
{
    return *(const uint64_t *)packed;
}

/* The time is read when the kernel is submitted. A GPU reads it when the kernel starts. */
static uint64_t spin_word_cost(const void *packed)
{
    const uint64_t *at = *(const uint64_t *const *)packed;
    uint64_t ns = 0;
    if ((uintptr_t)at % sizeof(ns) == 0 && memory_contains((CUdeviceptr)(uintptr_t)at, sizeof(ns)))
        ns = __atomic_load_n(at, __ATOMIC_ACQUIRE);
    return ns;
}

static CUresult spin_word_effect(struct work *w)
{
    return words_valid(w, *(const void *const *)w->blob, 2) ? CUDA_SUCCESS
                                                            : CUDA_ERROR_ILLEGAL_ADDRESS;
}

/* The host may read a word meanwhile. It sees the old value or the new one. */
static CUresult fill_effect(struct work *w)
{
    const struct fill *k = w->blob;
    if (!words_valid(w, k->p, k->n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < k->n; i++)
        __atomic_store_n(&k->p[i], k->value, __ATOMIC_RELAXED);
    return CUDA_SUCCESS;
}

enum { AWAIT_MIX_PACKED = 36, COPY_PACKED = 20, MIX_PACKED = 20, SET_CONDITION_PACKED = 12 };

static CUresult copy_effect(struct work *w)
{
    const struct copy *k = w->blob;
    if (!words_valid(w, k->dst, k->n) || !words_valid(w, k->src, k->n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    memmove(k->dst, k->src, k->n * sizeof(*k->dst));
    return CUDA_SUCCESS;
}

static CUresult axpy_effect(struct work *w)
{
    const struct axpy *k = w->blob;
    if (!words_valid(w, k->y, k->n) || !words_valid(w, k->x, k->n))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (uint32_t i = 0; i < k->n; i++)
        k->y[i] += k->a * k->x[i];
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

/* The first parameters of mix_spin are those of mix. */
static CUresult mix_effect(struct work *w)
{
    const struct mix *k = w->blob;
    return mix_words(w, k->x, k->a, k->b, k->n);
}

static uint64_t mix_spin_cost(const void *packed)
{
    const struct mix_spin *k = packed;
    return touch_cost_ns((uint64_t)k->n * 8) + k->ns;
}

/* Resident: a round begins when the word has reached its number, and mixes at the round's end. */
enum { ARG_ROUND = 7, ARG_MIXING }; /* of args.u64, behind the shape */

static uint64_t await_mix_step(struct work *w, uint64_t at_ns)
{
    const struct await_mix *k = w->blob;
    uint64_t *round = &w->args.u64[ARG_ROUND], *mixing = &w->args.u64[ARG_MIXING];
    (void)at_ns;
    if (!words_valid(w, k->word, 1) ||
        (*mixing && mix_words(w, k->x, k->a, k->b, k->n) != CUDA_SUCCESS)) {
        w->step_error = CUDA_ERROR_ILLEGAL_ADDRESS;
        return RUN_OVER;
    }
    *round += *mixing;
    *mixing = 0;
    if (*round >= k->rounds)
        return RUN_OVER;
    uint32_t word = __atomic_load_n(k->word, __ATOMIC_ACQUIRE);
    if ((int32_t)(word - (uint32_t)*round - 1) < 0)
        return RUN_POLL;
    *mixing = 1;
    return touch_cost_ns((uint64_t)k->n * 8);
}

static CUresult set_condition_effect(struct work *w)
{
    const struct set_condition *k = w->blob;
    return condition_set(k->handle, k->value, w->context);
}

static CUresult count_condition_effect(struct work *w)
{
    const struct count_condition *k = w->blob;
    if (!words_valid(w, k->left, 1))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    *k->left -= *k->left != 0;
    return condition_set(k->handle, *k->left, w->context);
}

#define TOUCHES(kernel, each) .words_at = offsetof(struct kernel, n), .word_bytes = (each)
static const struct kernel_model models[] = {
    {"spin", sizeof(uint64_t), .cost_ns = spin_cost},
    {"spin_word", sizeof(const uint64_t *), .cost_ns = spin_word_cost, .effect = spin_word_effect},
    {"distance", sizeof(uint64_t), .zero_sms = true, .cost_ns = spin_cost}, /* cutin's own */
    {"fill", sizeof(struct fill), TOUCHES(fill, 4), .effect = fill_effect},
    {"copy", COPY_PACKED, TOUCHES(copy, 8), .effect = copy_effect},
    {"axpy", sizeof(struct axpy), TOUCHES(axpy, 12), .effect = axpy_effect},
    {"mix", MIX_PACKED, TOUCHES(mix, 8), .effect = mix_effect},
    {"mix_spin", sizeof(struct mix_spin), .cost_ns = mix_spin_cost, .effect = mix_effect},
    {"await_mix", AWAIT_MIX_PACKED, .step = await_mix_step},
    {"storage_search", STORAGE_PACKED, .step = storage_search_step},
    {"storage_flush", STORAGE_PACKED, .step = storage_flush_step},
    {"exchange", EXCHANGE_PACKED, .step = exchange_step},
    {"set_condition", SET_CONDITION_PACKED, .effect = set_condition_effect},
    {"count_condition", sizeof(struct count_condition), .effect = count_condition_effect},
};

uint64_t kernel_model_cost_ns(const struct kernel_model *m, const void *packed)
{
    uint32_t words = 0;
    if (m->cost_ns || m->step)
        return m->cost_ns ? m->cost_ns(packed) : 0;
    if (m->word_bytes)
        memcpy(&words, (const char *)packed + m->words_at, sizeof(words));
    return touch_cost_ns((uint64_t)words * m->word_bytes);
}

const struct kernel_model *kernel_model_find(const char *name, size_t packed_bytes)
{
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
        if (!strcmp(models[i].name, name) && models[i].packed_bytes == packed_bytes)
            return &models[i];
    return NULL;
}
