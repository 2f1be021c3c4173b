/*
 * storage.c - the kernels of examples/gpu_storage. They take the same steps as a GPU's warps do
 * (examples/storage.h). Warps run side by side, so a round of one step of each takes as long as one
 * step. If none of a kernel's warps can go on, it waits for storage.
 */
#include "tools/simgpu/program/kernels.h"
#include "tools/simgpu/memory/memory.h"

#include "examples/storage.h"

enum {
    ROUND_NS = 2000, /* a step is a few memory accesses, one after another */
    ROUNDS = 8,      /* the most between two instants */
};

struct kernel {
    struct storage *storage;
    uint32_t level;
};

struct state {
    uint32_t count, over;
    struct storage_warp warp[];
};

static bool reaches(const struct work *w, const volatile void *p, uint64_t bytes)
{
    return memory_reachable((CUdeviceptr)(uintptr_t)p, bytes, (const void *)w->context);
}

static bool storage_valid(const struct work *w, const struct storage *s)
{
    return reaches(w, s, sizeof(*s)) && reaches(w, s->queues, sizeof(*s->queues)) &&
           reaches(w, s->doorbells, sizeof(*s->doorbells)) &&
           reaches(w, s->data, (uint64_t)s->lines * STORAGE_PAGE) &&
           reaches(w, s->owner, (uint64_t)s->lines * 4) &&
           reaches(w, s->now, (uint64_t)s->vertices * 4) &&
           reaches(w, s->next, (uint64_t)s->vertices * 4);
}

static struct state *state_make(const struct work *w)
{
    uint32_t count = w->blocks * (w->threads / STORAGE_LANES);
    struct state *state = calloc(1, sizeof(*state) + count * sizeof(state->warp[0]));
    if (!state)
        return NULL;
    state->count = count;
    for (uint32_t i = 0; i < count; i++)
        state->warp[i].number = i;
    return state;
}

typedef int warp_step(struct storage *s, struct storage_warp *w, uint32_t level);

static int flush(struct storage *s, struct storage_warp *w, uint32_t level)
{
    (void)level;
    return flush_step(s, w);
}

/* Whether any warp did anything. */
static bool round_run(struct state *state, const struct kernel *k, warp_step *step)
{
    bool ran = false;
    for (uint32_t i = 0; i < state->count; i++) {
        struct storage_warp *w = &state->warp[i];
        if (w->phase == WARP_OVER)
            continue;
        state->over += (uint32_t)step(k->storage, w, k->level);
        ran |= w->ran != 0;
    }
    return ran;
}

static uint64_t fail(struct work *w, CUresult error)
{
    w->step_error = error;
    return RUN_OVER;
}

static uint64_t kernel_step(struct work *w, warp_step *step)
{
    const struct kernel *k = w->blob;
    if (!storage_valid(w, k->storage))
        return fail(w, CUDA_ERROR_ILLEGAL_ADDRESS);
    if (!w->state)
        w->state = state_make(w);
    struct state *state = w->state;
    if (!state)
        return fail(w, CUDA_ERROR_LAUNCH_FAILED);
    uint64_t rounds = 0;
    while (rounds < ROUNDS && state->over < state->count && round_run(state, k, step))
        rounds++;
    if (rounds)
        return rounds * ROUND_NS;
    return state->over < state->count ? RUN_POLL : RUN_OVER;
}

uint64_t storage_search_step(struct work *w, uint64_t at_ns)
{
    (void)at_ns;
    return kernel_step(w, search_step);
}

uint64_t storage_flush_step(struct work *w, uint64_t at_ns)
{
    (void)at_ns;
    return kernel_step(w, flush);
}
