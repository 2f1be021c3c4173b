/*
 * pool_async.c - allocations from pools, and frees, in the order of a stream.
 */
#include "tools/simgpu/memory/block.h"
#include "tools/simgpu/memory/graph_memory.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

static uint64_t next_ticket = 1; /* under pool_lock */

/* The effect of a free: args.u64[0] is the block's address, [1] the ticket. */
static CUresult free_effect(struct work *w)
{
    SCOPED_LOCK(&pool_lock);
    struct block *b = block_find(w->args.u64[0]);
    if (b && b->refs != 0)
        graph_block_put(b);
    else if (b && b->state == BLOCK_FREEING && b->ticket == w->args.u64[1])
        block_make_free(b);
    return CUDA_SUCCESS;
}

static CUresult alloc_async(CUdeviceptr *out, size_t bytes, CUmemoryPool handle, bool from_pool,
                            CUstream hstream, bool ptds)
{
    struct sim_context *ctx;
    struct sim_stream *stream;
    TRY(stream_arg(hstream, ptds, &ctx, &stream));
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    struct sim_pool *p = from_pool ? pool_find(handle) : pool_current(false, ctx->ordinal);
    bool imported = p && p->whose.number != 0, device = p && p->kind == MEMORY_POOL;
    pthread_mutex_unlock(&pool_lock);
    if (!p || imported) /* "Imported memory pools do not support creating new allocations" */
        return from_pool ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
    struct work w = {.kind = WORK_MARK, .name = "alloc"};
    struct point after[AWAITED_MAX] = {{0, 0}};
    CUresult rc;
    if (capture_active(stream)) {
        rc = device ? graph_memory_alloc(ctx, bytes, &w, out) : CUDA_ERROR_NOT_SUPPORTED;
    } else {
        SCOPED_LOCK(&pool_lock);
        *out = block_take(p, bytes, stream_tail(stream).stream, after);
        rc = *out != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    for (int i = 0; rc == CUDA_SUCCESS && i < AWAITED_MAX && (i == 0 || after[i].stream); i++)
        rc = work_submit_behind(stream, &w, after[i], NULL);
    return rc;
}

/* Marks the block as being freed and returns the ticket of the free. False: not a live block of a
 * pool. The address of a graph stays the graph's, and the free becomes one more of its refs. */
static bool free_begin(CUdeviceptr ptr, uint32_t stream, uint64_t *ticket)
{
    SCOPED_LOCK(&pool_lock);
    struct block *b = block_find(ptr);
    bool of_graph = b && pool_is_graph_pool(b->pool);
    bool live = b && b->state == BLOCK_LIVE && (!of_graph || b->in_use);
    if (live && of_graph) {
        b->in_use = false;
        b->refs++;
    } else if (live) {
        b->state = BLOCK_FREEING;
        b->freed = (struct point){stream, 0};
        b->ticket = next_ticket++;
    }
    *ticket = live ? b->ticket : 0;
    return live;
}

static CUresult free_async(CUdeviceptr ptr, CUstream hstream, bool ptds)
{
    struct sim_stream *stream;
    TRY(stream_arg(hstream, ptds, NULL, &stream));
    struct work w = {.kind = WORK_MARK, .name = "free", .effect = free_effect};
    if (capture_active(stream)) {
        TRY(graph_memory_free(ptr, &w));
        return work_submit(hstream, ptds, &w, false);
    }
    if (ipc_memory_free_work(ptr, &w))
        return work_submit(hstream, ptds, &w, false);
    w.args.u64[0] = ptr;
    if (!free_begin(ptr, stream_tail(stream).stream, &w.args.u64[1]))
        return CUDA_ERROR_INVALID_VALUE;
    struct point at = {0, 0};
    CUresult rc = work_submit_stream(stream, &w, &at);
    /* The free is now at that point of its stream; seq 0: it failed, and the block is not freed. */
    SCOPED_LOCK(&pool_lock);
    struct block *b = block_find(ptr);
    if (b && b->refs != 0 && at.seq == 0) {
        b->in_use = true;
        b->refs--;
    } else if (b && b->state == BLOCK_FREEING && b->ticket == w.args.u64[1]) {
        b->freed.seq = at.seq;
        b->state = at.seq ? BLOCK_FREEING : BLOCK_LIVE;
    }
    return rc;
}

STREAM_API(cuMemAllocAsync, (CUdeviceptr * out, size_t bytes, CUstream s),
           alloc_async(out, bytes, NULL, false, s, ptds))
STREAM_API(cuMemAllocFromPoolAsync,
           (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream s),
           alloc_async(out, bytes, pool, true, s, ptds))
STREAM_API(cuMemFreeAsync, (CUdeviceptr ptr, CUstream s), free_async(ptr, s, ptds))

CUresult pool_free_now(CUdeviceptr ptr)
{
    struct sim_context *ctx;
    uint64_t ticket;
    TRY(context_current(&ctx));
    if (!free_begin(ptr, 0, &ticket))
        return CUDA_ERROR_INVALID_VALUE;
    struct work w = {.kind = WORK_MARK};
    w.args.u64[0] = ptr;
    w.args.u64[1] = ticket;
    return free_effect(&w);
}
