/*
 * storage.c - context local storage: one list of values under one lock. Destructors run without the
 * lock, because they may ask for other values.
 */
#include "tools/simgpu/runtime/storage.h"

struct value {
    CUcontext ctx;
    void *key, *value;
    storage_destructor *destructor;
    struct value *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct value *values; /* under lock */

/* The pointer to the value in the list; if there is none, the list's last pointer. Under lock. */
static struct value **value_find(CUcontext ctx, const void *key)
{
    struct value **at = &values;
    while (*at && ((*at)->ctx != ctx || (*at)->key != key))
        at = &(*at)->next;
    return at;
}

static CUresult context_named(CUcontext *ctx)
{
    struct sim_context *current;
    if (*ctx)
        return context_find(*ctx) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    TRY(context_current(&current));
    *ctx = context_handle(current);
    return CUDA_SUCCESS;
}

CUresult storage_put(CUcontext ctx, void *key, void *value, storage_destructor *destructor)
{
    TRY(context_named(&ctx));
    struct value *new = malloc(sizeof(*new));
    if (!new)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SCOPED_LOCK(&lock);
    struct value **at = value_find(ctx, key), *old = *at;
    *new = (struct value){ctx, key, value, destructor, old ? old->next : NULL};
    *at = new;
    free(old);
    return CUDA_SUCCESS;
}

CUresult storage_delete(CUcontext ctx, void *key)
{
    TRY(context_named(&ctx));
    SCOPED_LOCK(&lock);
    struct value **at = value_find(ctx, key), *old = *at;
    if (old)
        *at = old->next;
    free(old);
    return old ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult storage_get(void **value, CUcontext ctx, void *key)
{
    TRY(context_named(&ctx));
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    SCOPED_LOCK(&lock);
    struct value *found = *value_find(ctx, key);
    if (found)
        *value = found->value;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static struct value *value_take(CUcontext ctx)
{
    SCOPED_LOCK(&lock);
    struct value **at = &values;
    while (*at && (*at)->ctx != ctx)
        at = &(*at)->next;
    struct value *taken = *at;
    if (taken)
        *at = taken->next;
    return taken;
}

static void storage_end(struct sim_context *ending)
{
    CUcontext ctx = context_handle(ending);
    struct value *v;
    while ((v = value_take(ctx))) {
        if (v->destructor)
            v->destructor(ctx, v->key, v->value);
        free(v);
    }
}
CONTEXT_PART(CONTEXT_STORAGE, NULL, storage_end)
