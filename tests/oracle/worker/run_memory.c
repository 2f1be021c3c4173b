/*
 * run_memory.c - runs host functions, what the host itself does, and allocations.
 */
#include "machine.h"

struct host_call *host_call_new(uint32_t *x, uint32_t a, uint32_t b)
{
    struct host_call *c = &m.arena[m.arena_used++ % ARENA];
    *c = (struct host_call){.x = x, .a = a, .b = b};
    return c;
}

void host_function(void *data)
{
    struct host_call *c = data;
    if (c->x)
        buffer_mix(c->x, c->a, c->b);
    if (c->answer) {
        size_t free_bytes, total_bytes;
        *c->answer = 1 + (uint64_t)cuMemGetInfo_v2(&free_bytes, &total_bytes);
    }
}

static void CUDA_CB callback(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    if (status != CUDA_SUCCESS)
        broken("a callback got an error status");
    host_function(data);
}

CUresult run_host(const struct op *o, uint32_t index)
{
    uint32_t *x = o->kind == OP_HOST_FUNC_CUDA ? NULL : host_address(o->dst);
    switch (o->kind) {
    case OP_HOST_WRITE:
        buffer_seed(x, o->a);
        return CUDA_SUCCESS;
    case OP_HOST_READ:
        m.out->value[index] = buffer_hash(x);
        return CUDA_SUCCESS;
    case OP_CALLBACK:
        return CALL(cuStreamAddCallback, o, handle(o), callback, host_call_new(x, o->a, o->b), 0);
    default: {
        struct host_call *c = host_call_new(x, o->a, o->b);
        if (!x)
            c->answer = &m.out->value[index];
        return CALL(cuLaunchHostFunc, o, handle(o), host_function, c);
    }
    }
}

static CUresult prefetch(const struct op *o)
{
#if CUDA_VERSION >= 12020
    CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = m.device};
    return CALL(cuMemPrefetchAsync_v2, o, m.managed, BYTES, there, 0, handle(o));
#else
    return CALL(cuMemPrefetchAsync, o, m.managed, BYTES, m.device, handle(o));
#endif
}

/* With two sizes in turn, or with one. */
static CUresult pool_round(const struct op *o, uint32_t i)
{
    CUdeviceptr x = address(o->dst), temporary = 0;
    uint32_t a = o->a, b = o->b, n = WORDS;
    size_t bytes = (size_t)BYTES << (i & o->b & 1);
    CUresult r = o->variant & 16
                     ? CALL(cuMemAllocFromPoolAsync, o, &temporary, bytes, m.pool, handle(o))
                     : CALL(cuMemAllocAsync, o, &temporary, bytes, handle(o));
    r = r ? r : CALL(cuMemcpyDtoDAsync_v2, o, temporary, x, BYTES, handle(o));
    pthread_rwlock_rdlock(&m.functions);
    r = r ? r
          : CALL(cuLaunchKernel, o, functions(o)->mix, 1, 1, 1, WORDS, 1, 1, 0, handle(o),
                 (void *[]){&temporary, &a, &b, &n}, NULL);
    pthread_rwlock_unlock(&m.functions);
    r = r ? r : CALL(cuMemcpyDtoDAsync_v2, o, x, temporary, BYTES, handle(o));
    return r ? r : CALL(cuMemFreeAsync, o, temporary, handle(o));
}

static CUresult pool_loop(const struct op *o)
{
    CUresult r = CUDA_SUCCESS;
    for (uint32_t i = 0; i < loop_rounds(o->variant) && !r; i++)
        r = pool_round(o, i);
    return r;
}

CUresult run_memory(const struct op *o, uint32_t index)
{
    (void)index;
    CUdeviceptr *pooled = o->dst >= POOLED ? &m.pooled[o->dst - POOLED] : NULL;
    CUdeviceptr temporary;
    CUresult r;
    switch (o->kind) {
    case OP_ALLOC_ASYNC:
        r = o->variant & 16 ? CALL(cuMemAllocFromPoolAsync, o, pooled, BYTES, m.pool, handle(o))
                            : CALL(cuMemAllocAsync, o, pooled, BYTES, handle(o));
        if (r)
            return r;
        if (!*pooled)
            broken("cuMemAllocAsync returned no address");
        return CALL(cuMemsetD32Async, o, *pooled, o->a, WORDS, handle(o));
    case OP_FREE_ASYNC:
        r = CALL(cuMemFreeAsync, o, *pooled, handle(o));
        *pooled = 0;
        return r;
    case OP_POOL_LOOP:
        return pool_loop(o);
    case OP_PREFETCH:
        return prefetch(o);
    case OP_ATTACH:
        return CALL(cuStreamAttachMemAsync, o, handle(o), m.managed, 0, CU_MEM_ATTACH_GLOBAL);
    default:
        r = cuMemAlloc_v2(&temporary, 4096);
        return r ? r : cuMemFree_v2(temporary);
    }
}
