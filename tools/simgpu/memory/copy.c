/*
 * copy.c - what a copy means: which memory it may touch, when the call returns, and what happens at
 * its modelled completion. copy_api.c has the many forms of the call.
 *
 * The device cannot reach pageable host memory. So the driver reads an asynchronous copy's source
 * into a buffer of its own during the call, and waits if the destination is pageable.
 */
#include "tools/simgpu/memory/copy.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/memory/array.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/memory/pool.h"
#include "tools/simgpu/memory/space.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

_Static_assert(sizeof(struct transfer) == 9 * sizeof(uint64_t), "fits in work.args");
enum {
    ARG_STAGED = 9,
    ARG_DEVICE = 10
}; /* indices of u64 behind the transfer: the staging buffer, and which ends to check */
enum { DST_DEVICE = 1, SRC_DEVICE = 2 };
enum { COPY_FIXED_NS = 2000, LINK_GBPS = 25 };

uint64_t copy_cost_ns(size_t bytes, bool within)
{
    return COPY_FIXED_NS + bytes / (uint64_t)(within ? config_get()->within_gbps : LINK_GBPS);
}

#define MAX_PITCH ((size_t)2147483647) /* CU_DEVICE_ATTRIBUTE_MAX_PITCH */

struct place {
    uintptr_t at;
    size_t pitch, slice;
    bool device;   /* must be device memory when the copy runs */
    bool pageable; /* host memory that the device cannot reach */
    bool syncs;    /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS is set */
};

/* Mapped memory may be unreadable. If a sandbox forbids the question, it counts as readable. */
static bool byte_readable(uintptr_t at)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {(void *)at, 1};
    return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == 1 || errno != EFAULT;
}

static CUresult array_place(const struct copy_end *e, const CUDA_MEMCPY3D *p, struct place *out)
{
    struct array_view view;
    TRY(array_find(e->array, &view));
    if (e->x + p->WidthInBytes > view.row_bytes || e->y + p->Height > view.rows ||
        e->z + p->Depth > view.layers)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct place){view.base + e->z * view.slice + e->y * view.pitch + e->x, view.pitch,
                          view.slice, .device = true};
    return CUDA_SUCCESS;
}

/* `by` is the context whose device accesses the memory. */
static CUresult end_place(const struct copy_end *e, const struct sim_context *by,
                          const CUDA_MEMCPY3D *p, struct place *out)
{
    if (e->type == CU_MEMORYTYPE_ARRAY)
        return array_place(e, p, out);
    if (e->type != CU_MEMORYTYPE_HOST && e->type != CU_MEMORYTYPE_DEVICE &&
        e->type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    size_t pitch = e->pitch != 0 ? e->pitch : e->x + p->WidthInBytes;
    size_t height = e->height != 0 ? e->height : e->y + p->Height;
    if (e->pitch > MAX_PITCH || e->x > MAX_PITCH || p->WidthInBytes > SIZE_MAX >> 16)
        return CUDA_ERROR_INVALID_VALUE;
    if ((p->Height > 1 || p->Depth > 1) && pitch < e->x + p->WidthInBytes)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->Depth > 1 && height < e->y + p->Height)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct place){.pitch = pitch, .slice = pitch * height};
    uintptr_t base = e->type == CU_MEMORYTYPE_HOST ? (uintptr_t)e->host : e->device;
    out->at = base + e->z * out->slice + e->y * pitch + e->x;
    size_t span = (p->Depth - 1) * out->slice + (p->Height - 1) * pitch + p->WidthInBytes;
    struct memory m;
    bool known = memory_find(out->at, &m);
    if (known && !memory_contains(out->at, span))
        return CUDA_ERROR_INVALID_VALUE;
    if (e->type == CU_MEMORYTYPE_DEVICE && !known)
        return CUDA_ERROR_INVALID_VALUE;
    if (known && memory_pool(&m) && !pool_reachable(memory_pool(&m), by->ordinal))
        return CUDA_ERROR_INVALID_VALUE;
    out->device = known && memory_is_device_kind(m.kind);
    out->pageable = !known;
    out->syncs = known && m.sync_memops;
    /* A wild host pointer is an error of the call, not a crash. */
    return known || (out->at >= 4096 && !space_has(out->at) && byte_readable(out->at) &&
                     byte_readable(out->at + span - 1))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

static CUresult both_places(const CUDA_MEMCPY3D *p, const struct sim_context *by_dst,
                            const struct sim_context *by_src, struct place *dst, struct place *src)
{
    struct copy_end ends[2];
    memcpy(ends, p, sizeof(ends));
    TRY(end_place(&ends[1], by_dst, p, dst));
    return end_place(&ends[0], by_src, p, src);
}

/* ---- carrying it out ------------------------------------------------------------------------- */

static void transfer_run(const struct transfer *t)
{
    for (size_t z = 0; z < t->depth; z++)
        for (size_t y = 0; y < t->height; y++)
            memmove((char *)t->dst + z * t->dst_slice + y * t->dst_pitch,
                    (const char *)t->src + z * t->src_slice + y * t->src_pitch, t->width);
}

static bool end_contained(const struct transfer *t, uintptr_t at, size_t pitch, size_t slice)
{
    return memory_contains(at, (t->depth - 1) * slice + (t->height - 1) * pitch + t->width);
}

static CUresult copy_effect(struct work *w)
{
    struct transfer t;
    memcpy(&t, w->args.u64, sizeof(t));
    uint64_t check = w->args.u64[ARG_DEVICE];
    if ((check & DST_DEVICE && !end_contained(&t, t.dst, t.dst_pitch, t.dst_slice)) ||
        (check & SRC_DEVICE && !end_contained(&t, t.src, t.src_pitch, t.src_slice)))
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (config_get()->data)
        transfer_run(&t);
    return CUDA_SUCCESS;
}

static void copy_drop(struct work *w)
{
    free(w->args.ptr[ARG_STAGED]);
}

/* Reads and packs the source now, so the caller may change it once the call has returned. */
static CUresult copy_stage(struct work *w)
{
    struct transfer t;
    memcpy(&t, w->args.u64, sizeof(t));
    char *staged = malloc(t.width * t.height * t.depth);
    if (!staged)
        return CUDA_ERROR_OUT_OF_MEMORY;
    struct transfer in = t;
    in.dst = (uintptr_t)staged;
    in.dst_pitch = t.width;
    in.dst_slice = t.width * t.height;
    transfer_run(&in);
    t.src = in.dst;
    t.src_pitch = in.dst_pitch;
    t.src_slice = in.dst_slice;
    memcpy(w->args.u64, &t, sizeof(t));
    w->args.ptr[ARG_STAGED] = staged;
    w->drop = copy_drop;
    return CUDA_SUCCESS;
}

/* ---- building and submitting ----------------------------------------------------------------- */

static void work_fill(const CUDA_MEMCPY3D *p, const struct place *dst, const struct place *src,
                      struct work *w)
{
    static const char *const names[2][2] = {{"copy_htoh", "copy_htod"}, {"copy_dtoh", "copy_dtod"}};
    size_t bytes = p->WidthInBytes * p->Height * p->Depth;
    bool within = src->device == dst->device;
    *w = (struct work){.kind = WORK_COPY,
                       .name = names[src->device][dst->device],
                       .engine = within        ? ENGINE_WITHIN
                                 : dst->device ? ENGINE_TO_DEVICE
                                               : ENGINE_TO_HOST,
                       .cost_ns = copy_cost_ns(bytes, within),
                       .effect = copy_effect,
                       .blob = (void *)p,
                       .blob_bytes = sizeof(*p),
                       .node_type = CU_GRAPH_NODE_TYPE_MEMCPY};
    struct transfer t = {dst->at,    src->at,         dst->pitch, src->pitch, dst->slice,
                         src->slice, p->WidthInBytes, p->Height,  p->Depth};
    memcpy(w->args.u64, &t, sizeof(t));
    w->args.u64[ARG_DEVICE] = (dst->device ? DST_DEVICE : 0u) | (src->device ? SRC_DEVICE : 0u);
}

CUresult copy_work(const struct sim_context *ctx, const CUDA_MEMCPY3D *p, struct work *w)
{
    struct place dst, src;
    if (!p || p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(both_places(p, ctx, ctx, &dst, &src));
    work_fill(p, &dst, &src, w);
    return CUDA_SUCCESS;
}

/* `by_dst` and `by_src` access the destination and the source; NULL: the current context does. */
static CUresult copy_by(const CUDA_MEMCPY3D *p, const struct sim_context *by_dst,
                        const struct sim_context *by_src, CUstream hstream, bool ptds,
                        enum copy_mode mode)
{
    struct sim_context *ctx, *current;
    struct sim_stream *stream;
    TRY(stream_arg(hstream, ptds, &ctx, &stream));
    if (context_current(&current) != CUDA_SUCCESS)
        current = ctx;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0)
        return CUDA_SUCCESS;
    if (mode == COPY_ASYNC && capture_active(stream))
        mode = COPY_GRAPH;
    struct place dst, src;
    struct work w;
    TRY(both_places(p, by_dst ? by_dst : current, by_src ? by_src : current, &dst, &src));
    work_fill(p, &dst, &src, &w);
    bool waits = mode == COPY_SYNC ? !dst.device || !src.device || dst.syncs || src.syncs ||
                                         context_syncs_memops(ctx)
                                   : mode == COPY_ASYNC && dst.pageable;
    if (!waits && mode != COPY_GRAPH && src.pageable)
        TRY(copy_stage(&w));
    return work_submit(hstream, ptds, &w, waits);
}

CUresult copy_submit(const CUDA_MEMCPY3D *p, CUstream stream, bool ptds, enum copy_mode mode)
{
    return copy_by(p, NULL, NULL, stream, ptds, mode);
}

CUresult copy_peer(const CUDA_MEMCPY3D *p, CUcontext dst, CUcontext src, CUstream stream, bool ptds,
                   enum copy_mode mode)
{
    TRY(driver_ready());
    const struct sim_context *by_dst = context_find(dst), *by_src = context_find(src);
    /* "ignored with dstMemoryType is ::CU_MEMORYTYPE_ARRAY" (cuda.h) */
    bool to = by_dst || p->dstMemoryType == CU_MEMORYTYPE_ARRAY;
    bool from = by_src || p->srcMemoryType == CU_MEMORYTYPE_ARRAY;
    return to && from ? copy_by(p, by_dst, by_src, stream, ptds, mode) : CUDA_ERROR_INVALID_CONTEXT;
}
