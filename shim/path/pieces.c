/* pieces.c - see pieces.h. */
#include "shim/path/pieces.h"

#include "shim/objects/memory.h"

/* A piece takes some 80 us on a link of 25 GB/s, or in the memory of a device. So a budget of 200
 * us has room for two or more, and the link does not run dry if the dispatcher is late. How long a
 * piece really takes is learned. */
enum { PIECE_LINK = 2 << 20, PIECE_WITHIN = 32 << 20 };
/* While no client above is connected, so many pieces of a copy go at a time. They take some
 * milliseconds: a piece costs nothing beside that, and a client that comes waits for no more. */
enum { ALONE = 16 };
static struct estimate estimates[COPY_WAYS];

/* 0: the copy goes whole. */
static size_t piece_bytes(const struct shim_stream *s, enum copy_way way)
{
    const struct config *cfg = config_get();
    if (MUTANT(copy_whole) || calls_are_inline() || capture_active(s))
        return 0;
    return cfg->copy_bytes ? cfg->copy_bytes : way == COPY_WITHIN ? PIECE_WITHIN : PIECE_LINK;
}

static int pieces_run(void *payload)
{
    struct pieces *p = payload;
    bool dispatched = vhq_in_dispatcher();
    /* While alone, a calling thread copies all of it: it would have to wait for each turn. */
    size_t most = !vhq_set_alone(p->ctx->set) ? p->each : dispatched ? p->most : p->total;
    size_t left = p->total - p->done, n = left < most ? left : most;
    /* Timed in the dispatcher alone: it has the context current, and waits for nothing. */
    struct sample *sample =
        dispatched && n == p->each ? estimate_begin(p->estimate, p->ctx, p->stream) : NULL;
    CUresult r = p->copy(p, p->done, &n);
    estimate_end(sample, p->stream);
    p->done += n;
    if (MUTANT(copy_short) && p->done + p->each >= p->total)
        return (int)r;
    return r == CUDA_SUCCESS && p->done < p->total ? VHQ_MORE : (int)r;
}

/* Makes the copy in the calling thread, which takes a turn for each piece. */
static int pieces_now(void *args)
{
    const struct pieces *p = args;
    int r;
    while ((r = pieces_run(args)) == VHQ_MORE)
        vhq_await_piece(p->q);
    return r;
}

static void pieces_plan(struct call *c, const struct shim_stream *s, enum copy_way way,
                        size_t bytes, struct pieces *p, size_t size)
{
    p->stream = s->handle;
    p->q = s->q;
    p->ctx = s->ctx;
    p->estimate = &estimates[way];
    p->learned = &p->estimate->learned;
    c->now = pieces_now;
    c->run = pieces_run;
    c->args = p;
    c->req.bytes = (uint32_t)size;
    bool alone = vhq_set_alone(s->ctx->set), known = estimate_known(p->estimate);
    p->most = alone ? ALONE * p->each : p->each;
    if (p->total <= p->most)
        return; /* it goes whole, unless a client above has come by then */
    c->req.flags |= VHQ_IN_PIECES;
    c->req.est_ns = known ? estimate_ns(p->estimate) : estimate_copy_ns(bytes, way == COPY_WITHIN);
    if (alone)
        c->req.est_ns *= ALONE;
    else if (!known)
        c->req.flags |= VHQ_LEARNS;
}

/* True if all of the memory is there. */
static bool side_there(uintptr_t at, size_t bytes)
{
    return !memory_flags(at, bytes, MEMORY_ANY) || memory_mapped((const void *)at, bytes);
}

enum copy_way copy_way(CUdeviceptr dst, CUdeviceptr src)
{
    return memory_host(src) ? COPY_UP : memory_host(dst) ? COPY_DOWN : COPY_WITHIN;
}

static CUresult linear_piece(const struct pieces *p, size_t at, size_t *n)
{
    const struct linear *l = (const struct linear *)(const void *)p;
    return l->copy(l->dst + at, l->src + at, *n, p->stream);
}

void linear_cut(struct linear *l, struct call *c, const struct shim_stream *s, enum copy_way way,
                linear_copy *copy, CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    size_t each = piece_bytes(s, way);
    bool apart = dst + bytes <= src || src + bytes <= dst;
    if (!each || bytes <= each || !apart || !side_there(dst, bytes) || !side_there(src, bytes))
        return;
    *l = (struct linear){.pieces = {.copy = linear_piece, .total = bytes, .each = each},
                         .copy = copy,
                         .dst = dst,
                         .src = src};
    pieces_plan(c, s, way, each, &l->pieces, sizeof(*l));
}

CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D *op)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = op->srcXInBytes,
                           .srcY = op->srcY,
                           .srcMemoryType = op->srcMemoryType,
                           .srcHost = op->srcHost,
                           .srcDevice = op->srcDevice,
                           .srcPitch = op->srcPitch,
                           .dstXInBytes = op->dstXInBytes,
                           .dstY = op->dstY,
                           .dstMemoryType = op->dstMemoryType,
                           .dstHost = op->dstHost,
                           .dstDevice = op->dstDevice,
                           .dstPitch = op->dstPitch,
                           .WidthInBytes = op->WidthInBytes,
                           .Height = op->Height,
                           .Depth = 1};
}

/* A piece is whole layers, or rows of one layer. */
static CUresult box_piece(const struct pieces *p, size_t at, size_t *n)
{
    const struct box *b = (const struct box *)(const void *)p;
    CUDA_MEMCPY3D op = b->op;
    size_t z = at / op.Height, y = at % op.Height;
    if (y == 0 && *n >= op.Height) {
        op.Depth = *n / op.Height;
        *n = op.Depth * op.Height;
    } else {
        *n = *n < op.Height - y ? *n : op.Height - y;
        op.Depth = 1;
        op.Height = *n;
    }
    op.srcY += y;
    op.dstY += y;
    op.srcZ += z;
    op.dstZ += z;
    return b->copy(&op, p->stream);
}

/* False for a copy that the driver might refuse or understand in another way: it goes whole. */
static bool side_cuts(const struct side *s, const CUDA_MEMCPY3D *op)
{
    enum { MOST = 1u << 30 };
    bool layers = op->Depth > 1 || s->z != 0;
    if (s->type == CU_MEMORYTYPE_ARRAY || s->pitch < s->x + op->WidthInBytes || s->pitch > MOST ||
        (layers && s->height < s->y + op->Height))
        return false;
    size_t first = s->z * s->height + s->y, rows = (op->Depth - 1) * s->height + op->Height;
    return side_there(s->base + first * s->pitch + s->x, (rows - 1) * s->pitch + op->WidthInBytes);
}

void box_cut(struct box *b, struct call *c, const struct shim_stream *s, box_copy *copy,
             CUDA_MEMCPY3D op)
{
    struct side dst = SIDE(&op, dst), src = SIDE(&op, src);
    enum copy_way way = src.type == CU_MEMORYTYPE_HOST   ? COPY_UP
                        : dst.type == CU_MEMORYTYPE_HOST ? COPY_DOWN
                                                         : copy_way(dst.base, src.base);
    size_t each = piece_bytes(s, way), rows = each / op.WidthInBytes, total = op.Height * op.Depth;
    rows = rows ? rows : 1;
    if (!each || rows >= total || !side_cuts(&dst, &op) || !side_cuts(&src, &op))
        return;
    *b = (struct box){
        .pieces = {.copy = box_piece, .total = total, .each = rows}, .copy = copy, .op = op};
    pieces_plan(c, s, way, rows * op.WidthInBytes, &b->pieces, sizeof(*b));
}
