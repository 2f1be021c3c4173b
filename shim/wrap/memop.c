/*
 * memop.c - stream memory operations of the application. A wait for a value may last for ever, so
 * none of these consumes the cap. In a stream of a higher level it may be a wait for held work
 * (external_wait.h). A peer outside the process may wait for a write, so a hold keeps a write back
 * for a bounded time (vhq/held.c).
 */
#include <string.h>

#include "shim/pace/gates.h"
#include "shim/wrap/op.h"
#include "shim/path/external_wait.h"

/* ---- what is the driver sure to accept? ------------------------------------------------------ */

/*
 * A driver may lack memops altogether, those of 64 bits, or some flags, and says so at the call. No
 * attribute tells reliably. So the first one of each kind and flags goes to the driver inline. What
 * it has accepted in this context may be deferred from then on. An address that it would refuse
 * also goes to it inline.
 */
enum memop_kind { WRITE_32, WRITE_64, WAIT_32, WAIT_64, MEMOP_KINDS };
enum { FLAG_SETS = 8 };

/* 0: never to be deferred. An operation of version 1 is a kind of its own. */
static uint64_t memop_bit(enum memop_kind kind, bool v1, unsigned flags)
{
    unsigned row = (v1 ? MEMOP_KINDS : 0u) + (unsigned)kind;
    return kind < MEMOP_KINDS && flags < FLAG_SETS ? UINT64_C(1) << (row * FLAG_SETS + flags) : 0;
}

static uint32_t memop_flags(const struct shim_context *ctx, uint64_t bit, CUdeviceptr addr,
                            size_t bytes)
{
    bool seen = (atomic_load_explicit(&ctx->memops_seen, memory_order_relaxed) & bit) != 0;
    uint32_t flags = VHQ_UNCOUNTED;
    if (!seen || addr % bytes)
        return flags | VHQ_MUST_INLINE;
    return flags | memory_flags(addr, bytes, MEMORY_ANY);
}

/* A write may be a doorbell, or what a stream of another process waits for. Memory that the driver
 * has allocated is this process's own, but registered memory may be a device's or shared. */
static uint32_t memop_peer(const struct shim_stream *s, CUdeviceptr addr)
{
    if (s && s->q && !gates_peer_noted() && memory_registered(addr))
        gates_note_peer();
    return VHQ_PEER;
}

static CUresult memop_seen(const struct shim_stream *s, uint64_t bits, CUresult r)
{
    if (r == CUDA_SUCCESS && s && s->q &&
        (atomic_load_explicit(&s->ctx->memops_seen, memory_order_relaxed) & bits) != bits)
        atomic_fetch_or_explicit(&s->ctx->memops_seen, bits, memory_order_relaxed);
    return r;
}

/* ---- one at a time ------------------------------------------------------------------------- */

#define MEMOP(sym, type, kind, v1)                                                                 \
    OP_RUN_WATCHED(sym, (kind) >= WAIT_32, REAL(sym)(a->stream, a->addr, a->value, a->flags),      \
                   (CUdeviceptr, addr), (type, value), (unsigned int, flags))                      \
    BOTH(sym, (CUstream, stream), (CUdeviceptr, addr), (type, value), (unsigned int, flags))       \
    {                                                                                              \
        struct sym##_args a = {.stream = stream, .addr = addr, .value = value, .flags = flags};    \
        uint64_t bit = memop_bit(kind, v1, flags);                                                 \
        struct shim_stream *s = call_stream(&a.stream, ptds);                                      \
        OP_CALL(sym)                                                                               \
        uint32_t mutant = (kind) < WAIT_32 ? MUTANT_OVERTAKES(memop_overtakes) : 0;                \
        OP_PLAN(memop_flags(s->ctx, bit, addr, sizeof(type)) | mutant, 0)                          \
        c.req.flags |= (kind) < WAIT_32 ? memop_peer(s, addr) : VHQ_AFTER_ALL;                     \
        return memop_seen(s, bit, call_on(&c, s));                                                 \
    }
MEMOP(cuStreamWriteValue32, cuuint32_t, WRITE_32, true)
MEMOP(cuStreamWriteValue32_v2, cuuint32_t, WRITE_32, false)
MEMOP(cuStreamWriteValue64, cuuint64_t, WRITE_64, true)
MEMOP(cuStreamWriteValue64_v2, cuuint64_t, WRITE_64, false)
MEMOP(cuStreamWaitValue32, cuuint32_t, WAIT_32, true)
MEMOP(cuStreamWaitValue32_v2, cuuint32_t, WAIT_32, false)
MEMOP(cuStreamWaitValue64, cuuint64_t, WAIT_64, true)
MEMOP(cuStreamWaitValue64_v2, cuuint64_t, WAIT_64, false)

/* ---- batches ------------------------------------------------------------------------------ */

enum { BATCH_MAX = 256 }; /* CUDA's limit */

struct batch {
    CUstream stream;
    unsigned int count, flags;
    bool v1;
    CUstreamBatchMemOpParams *op;
    _Alignas(16) CUstreamBatchMemOpParams copy[];
};

/* If it is not readable, the driver looks at nothing but the count. */
static bool batch_readable(const struct batch *b)
{
    return b->op && b->count && b->count <= BATCH_MAX;
}

static enum memop_kind op_kind(const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return WAIT_32;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return WAIT_64;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return WRITE_32;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return WRITE_64;
    default:
        return MEMOP_KINDS;
    }
}

static bool batch_waits(const struct batch *b)
{
    bool waits = false;
    for (unsigned i = 0; batch_readable(b) && i < b->count && !waits; i++)
        waits = op_kind(&b->op[i]) == WAIT_32 || op_kind(&b->op[i]) == WAIT_64;
    return waits;
}

static int batch_run(void *args)
{
    const struct batch *b = args;
    struct watch *watched = batch_waits(b) ? external_wait_begin(b->stream) : NULL;
    CUresult r = b->v1 ? REAL(cuStreamBatchMemOp)(b->stream, b->count, b->op, b->flags)
                       : REAL(cuStreamBatchMemOp_v2)(b->stream, b->count, b->op, b->flags);
    external_wait_end(watched);
    return (int)r;
}

static void batch_pack(void *payload, const void *args)
{
    const struct batch *from = args;
    struct batch *to = payload;
    memcpy(to, from, sizeof(*to));
    memcpy(to->copy, from->op, from->count * sizeof(*from->op));
    if (!MUTANT(stale_memops))
        to->op = to->copy;
}

static CUresult batch_submit(struct batch *b, bool ptds)
{
    struct call c = {.now = batch_run, .pack = batch_pack, .args = b};
    struct shim_stream *s = call_stream(&b->stream, ptds);
    uint64_t bits = 0;
    if (!batch_readable(b))
        s = NULL;
    bool queued = s && s->q, waits = batch_waits(b);
    if (queued) {
        c.run = batch_run;
        c.req.flags = b->flags ? VHQ_UNCOUNTED | VHQ_MUST_INLINE : VHQ_UNCOUNTED;
        c.req.flags |= waits ? 0 : MUTANT_OVERTAKES(memop_overtakes);
        c.req.bytes = (uint32_t)(sizeof(*b) + b->count * sizeof(*b->op));
    }
    if (s && waits)
        c.req.flags |= VHQ_AFTER_ALL;
    for (unsigned i = 0; s && i < b->count; i++) {
        const CUstreamBatchMemOpParams *op = &b->op[i];
        enum memop_kind kind = op_kind(op);
        /* The members of writes and waits are in the same places. */
        uint64_t bit = memop_bit(kind, b->v1, op->waitValue.flags);
        if (queued)
            c.req.flags |= memop_flags(s->ctx, bit, op->waitValue.address,
                                       kind == WRITE_64 || kind == WAIT_64 ? 8 : 4);
        if (kind < WAIT_32)
            c.req.flags |= memop_peer(s, op->waitValue.address);
        bits |= bit;
    }
    return memop_seen(s, bits, call_on(&c, s));
}

#define BATCH(sym, v1_)                                                                            \
    BOTH(sym, (CUstream, stream), (unsigned int, count), (CUstreamBatchMemOpParams *, op),         \
         (unsigned int, flags))                                                                    \
    {                                                                                              \
        struct batch b = {.stream = stream, .count = count, .flags = flags, .v1 = v1_, .op = op};  \
        return batch_submit(&b, ptds);                                                             \
    }
BATCH(cuStreamBatchMemOp, true)
BATCH(cuStreamBatchMemOp_v2, false)
