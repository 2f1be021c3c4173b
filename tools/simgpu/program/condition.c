/*
 * condition.c - condition variables: references to them, their handles, and kernels that set them.
 */
#include "tools/simgpu/program/condition.h"

static struct handle_pool conditions = HANDLE_POOL(struct condition, 1 << 16);

struct condition *condition_make(struct sim_context *ctx, uint32_t initial, bool assigns)
{
    struct condition *c = handle_take_zero(&conditions);
    if (!c)
        return NULL;
    atomic_store(&c->refs, 1);
    atomic_store(&c->value, initial);
    c->ctx = ctx;
    c->initial = initial;
    c->assigns = assigns;
    handle_publish(c);
    return c;
}

struct condition *condition_find(uint64_t handle)
{
    return handle_find(&conditions, (const void *)(uintptr_t)handle);
}

void condition_get(struct condition *c)
{
    atomic_fetch_add(&c->refs, 1);
}

void condition_put(struct condition *c)
{
    if (atomic_fetch_sub(&c->refs, 1) == 1 && handle_retire(c))
        handle_give(&conditions, c);
}

/* A real kernel that names a handle of no graph faults in this way. */
CUresult condition_set(uint64_t handle, uint32_t value, CUcontext ctx)
{
    struct condition *c = condition_find(handle);
    if (!c || context_base(c->ctx) != context_base((const void *)ctx))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    atomic_store(&c->value, value);
    atomic_fetch_add(&c->sets, 1);
    return CUDA_SUCCESS;
}
