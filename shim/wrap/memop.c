/*
 * memop.c - stream memory operations of the application. A wait for a value may last for ever, so
 * none of these consumes the cap. In a stream of a higher level it may be a wait for held work
 * (external_wait.h). A peer outside the process may wait for a write, so a hold keeps a write back
 * for a bounded time (vhq/held.c).
 */
#include <string.h>

#include "shim/pace/gates.h"
#include "shim/wrap/op.h"

/*
 * A driver may lack memops altogether, those of 64 bits, or some flags, and says so at the call. No
 * attribute tells reliably. So the first one of each kind and flags goes to the driver inline. What
 * it has accepted in this context may be deferred from then on. An address that it would refuse
 * also goes to it inline.
 */
enum memop_kind { WRITE_32, WRITE_64, WAIT_32, WAIT_64, MEMOP_KINDS };
enum { FLAG_SETS = 8 };

/* Adds what a call has to know of one of its operations. Returns the bit of its kind and flags, of
 * which 0 is never to be deferred. An operation of version 1 is a kind of its own. */
static uint64_t memop_plan(struct call *c, const struct shim_stream *s, enum memop_kind kind,
                           bool v1, CUdeviceptr addr, unsigned flags)
{
    unsigned row = (v1 ? MEMOP_KINDS : 0u) + (unsigned)kind;
    bool known = kind < MEMOP_KINDS && flags < FLAG_SETS, queued = s && s->q;
    uint64_t bit = known ? UINT64_C(1) << (row * FLAG_SETS + flags) : 0;
    size_t bytes = kind == WRITE_64 || kind == WAIT_64 ? 8 : 4;
    if (queued) {
        uint64_t seen = atomic_load_explicit(&s->ctx->memops_seen, memory_order_relaxed) & bit;
        c->req.flags |= VHQ_UNCOUNTED;
        c->req.flags |=
            !seen || addr % bytes ? VHQ_MUST_INLINE : memory_flags(addr, bytes, MEMORY_ANY);
    }
    if (kind == WAIT_32 || kind == WAIT_64)
        c->req.flags |= VHQ_AFTER_ALL;
    if (kind == WRITE_32 || kind == WRITE_64) {
        /* It may be a doorbell, or what a stream of another process waits for. Memory that the
         * driver has allocated is this process's own, but registered memory may be a device's or
         * shared. */
        c->req.flags |= VHQ_PEER;
        if (queued && !gates_peer_noted() && memory_registered(addr))
            gates_note_peer();
    }
    return bit;
}

static CUresult memop_seen(const struct shim_stream *s, uint64_t bits, CUresult r)
{
    if (r == CUDA_SUCCESS && s && s->q &&
        (atomic_load_explicit(&s->ctx->memops_seen, memory_order_relaxed) & bits) != bits)
        atomic_fetch_or_explicit(&s->ctx->memops_seen, bits, memory_order_relaxed);
    return r;
}

#define MEMOP(sym, type, kind, v1)                                                                 \
    OP_RUN_WATCHED(sym, (kind) >= WAIT_32, REAL(sym)(a->stream, a->addr, a->value, a->flags),      \
                   (CUdeviceptr, addr), (type, value), (unsigned int, flags))                      \
    BOTH(sym, (CUstream, stream), (CUdeviceptr, addr), (type, value), (unsigned int, flags))       \
    {                                                                                              \
        struct sym##_args a = {.stream = stream, .addr = addr, .value = value, .flags = flags};    \
        struct shim_stream *s = call_stream(&a.stream, ptds);                                      \
        OP_CALL(sym)                                                                               \
        uint64_t bit = memop_plan(&c, s, kind, v1, addr, flags);                                   \
        c.req.flags |= (kind) < WAIT_32 ? MUTANT_OVERTAKES(memop_overtakes) : 0;                   \
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
    static const CUstreamBatchMemOpType types[MEMOP_KINDS] = {
        [WRITE_32] = CU_STREAM_MEM_OP_WRITE_VALUE_32,
        [WRITE_64] = CU_STREAM_MEM_OP_WRITE_VALUE_64,
        [WAIT_32] = CU_STREAM_MEM_OP_WAIT_VALUE_32,
        [WAIT_64] = CU_STREAM_MEM_OP_WAIT_VALUE_64};
    enum memop_kind kind = WRITE_32;
    while (kind < MEMOP_KINDS && types[kind] != op->operation)
        kind++;
    return kind;
}

static int batch_run(void *args)
{
    const struct batch *b = args;
    bool waits = false;
    for (unsigned i = 0; batch_readable(b) && i < b->count && !waits; i++)
        waits = op_kind(&b->op[i]) == WAIT_32 || op_kind(&b->op[i]) == WAIT_64;
    struct watch *watched = waits ? external_wait_begin(b->stream) : NULL;
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
    /* The members of writes and waits are in the same places. */
    for (unsigned i = 0; s && i < b->count; i++)
        bits |= memop_plan(&c, s, op_kind(&b->op[i]), b->v1, b->op[i].waitValue.address,
                           b->op[i].waitValue.flags);
    if (s && s->q) {
        c.run = batch_run;
        c.req.flags |= b->flags ? VHQ_MUST_INLINE : 0;
        c.req.flags |= c.req.flags & VHQ_AFTER_ALL ? 0 : MUTANT_OVERTAKES(memop_overtakes);
        c.req.bytes = (uint32_t)(sizeof(*b) + b->count * sizeof(*b->op));
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
