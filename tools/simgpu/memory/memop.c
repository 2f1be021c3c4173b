/*
 * memop.c - stream memory operations: waits for, and writes of, words of 32 and 64 bits, single and
 * in batches. The words are ordinary memory of this process, which the CPU may change at any time.
 */
#include "tools/simgpu/memory/copy.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/engine.h"
#include "tools/simgpu/stream/late.h"
#include "tools/simgpu/stream/submit.h"

enum { BATCH_MAX = 256 };

typedef CUstreamBatchMemOpParams Op;

/* ---- one operation --------------------------------------------------------------------------- */

static bool op_waits(const Op *op)
{
    return op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
           op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

static bool op_writes(const Op *op)
{
    return op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ||
           op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static size_t op_bytes(const Op *op)
{
    bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    return wide ? sizeof(uint64_t) : sizeof(uint32_t);
}

static bool op_flags_valid(const Op *op)
{
    if (op_waits(op))
        return (op->waitValue.flags & ~(unsigned int)CU_STREAM_WAIT_VALUE_FLUSH) <=
               CU_STREAM_WAIT_VALUE_NOR;
    if (op_writes(op))
        return (op->writeValue.flags & ~(unsigned int)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) == 0;
    if (op->operation == CU_STREAM_MEM_OP_BARRIER)
        return op->memoryBarrier.flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
    return op->operation == CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES &&
           op->flushRemoteWrites.flags == 0;
}

/* waitValue and writeValue have their address at the same place. If the memory was freed since the
 * call, that is a fault, as on a GPU. */
static bool op_faults(const Op *op)
{
    CUdeviceptr at = op->waitValue.address;
    return (op_waits(op) || op_writes(op)) &&
           (at % op_bytes(op) != 0 || !memory_contains(at, op_bytes(op)));
}

static void word_store(const Op *op)
{
    bool wide = op_bytes(op) == sizeof(uint64_t);
    uint64_t late_ns = (uint64_t)config_get()->word_late_us * 1000;
    struct memory m;
    bool pinned = late_ns && memory_find(op->writeValue.address, &m) &&
                  (m.kind == MEMORY_HOST || m.kind == MEMORY_REGISTERED);
    late_store((void *)(uintptr_t)op->writeValue.address, op_bytes(op),
               wide ? op->writeValue.value64 : op->writeValue.value,
               pinned ? sim_now_ns() + late_ns : 0);
}

/* Comparisons have the word's width. GEQ is cyclic. */
static bool word_passes(const Op *op)
{
    bool wide = op_bytes(op) == sizeof(uint64_t);
    const void *at = (const void *)(uintptr_t)op->waitValue.address;
    late_flush_for(at);
    uint64_t is = wide ? __atomic_load_n((const uint64_t *)at, __ATOMIC_ACQUIRE)
                       : __atomic_load_n((const uint32_t *)at, __ATOMIC_ACQUIRE);
    uint64_t wanted = wide ? op->waitValue.value64 : op->waitValue.value;
    if (config_get()->waits != WAITS_HONOURED)
        return config_get()->waits == WAITS_PASS;
    switch (op->waitValue.flags & ~(unsigned int)CU_STREAM_WAIT_VALUE_FLUSH) {
    case CU_STREAM_WAIT_VALUE_EQ:
        return is == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (is & wanted) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
        return wide ? ~(is | wanted) != 0 : (uint32_t)~(is | wanted) != 0;
    default:
        return wide ? (int64_t)(is - wanted) >= 0 : (int32_t)((uint32_t)is - (uint32_t)wanted) >= 0;
    }
}

/* ---- batches as works ------------------------------------------------------------------------ */

enum { ARG_COUNT, ARG_DONE }; /* of args.u64 */

/* Carries out as many as can go. True if all are done, or one faulted, which the effect reports. */
static bool batch_poll(struct work *w)
{
    const Op *ops = w->blob;
    for (; w->args.u64[ARG_DONE] < w->args.u64[ARG_COUNT]; w->args.u64[ARG_DONE]++) {
        const Op *op = &ops[w->args.u64[ARG_DONE]];
        if (op_faults(op))
            return true;
        if (op_waits(op) && !word_passes(op))
            return false;
        if (op_writes(op))
            word_store(op);
    }
    return true;
}

static CUresult batch_effect(struct work *w)
{
    bool whole = batch_poll(w) && w->args.u64[ARG_DONE] == w->args.u64[ARG_COUNT];
    return whole ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void batch_build(const Op *ops, unsigned int count, struct work *w)
{
    bool waits = false;
    for (unsigned int i = 0; i < count; i++)
        waits |= op_waits(&ops[i]);
    uint64_t each = (uint64_t)(waits ? config_get()->wait_ns : config_get()->write_ns);
    *w = (struct work){.kind = waits ? WORK_WAIT : WORK_MARK,
                       .cost_ns = count * each,
                       .effect = batch_effect,
                       .poll = waits ? batch_poll : NULL,
                       .blob = (void *)(uintptr_t)ops,
                       .blob_bytes = count * sizeof(*ops),
                       .node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP};
    w->name = waits ? "wait_value" : "write_value";
    w->args.u64[ARG_COUNT] = count;
}

static CUresult ops_check(const Op *ops, unsigned int count, unsigned int flags)
{
    if (!config_get()->memops)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (count > BATCH_MAX || flags != 0 || (count && !ops))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned int i = 0; i < count; i++)
        if (!op_flags_valid(&ops[i]) || op_faults(&ops[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult memop_prepare(const Op *op, struct work *w)
{
    TRY(ops_check(op, 1, 0));
    batch_build(op, 1, w);
    w->cost_ns += op_waits(op) ? (uint64_t)config_get()->graph_wait_ns : 0;
    return CUDA_SUCCESS;
}

/* The engine need not look for writes. So a batch is cut into runs of waits and runs of writes. In
 * a capture each operation is a node. */
static CUresult batch(CUstream stream, const Op *ops, unsigned int count, unsigned int flags,
                      bool ptds)
{
    struct sim_stream *s;
    TRY(stream_arg(stream, ptds, NULL, &s));
    TRY(ops_check(ops, count, flags));
    CUresult rc = CUDA_SUCCESS;
    bool single = capture_active(s);
    for (unsigned int n; count && rc == CUDA_SUCCESS; ops += n, count -= n) {
        struct work w;
        n = 1;
        while (!single && n < count && op_waits(&ops[n]) == op_waits(&ops[0]))
            n++;
        batch_build(ops, n, &w);
        rc = work_submit_stream(s, &w, NULL);
    }
    return rc;
}

/* ---- API ------------------------------------------------------------------------------------- */

static CUresult one(CUstream stream, CUstreamBatchMemOpType type, CUdeviceptr at, uint64_t value,
                    unsigned int flags, bool ptds)
{
    Op op = {.waitValue = {.operation = type, .address = at, .value64 = value, .flags = flags}};
    return batch(stream, &op, 1, 0, ptds);
}

/* Both versions. v2 needs other hardware and does the same. */
#define MEMOP_API(symbol, word, type)                                                              \
    STREAM_API(symbol, (CUstream s, CUdeviceptr at, word value, unsigned int flags),               \
               one(s, type, at, value, flags, ptds))                                               \
    STREAM_API(symbol##_v2, (CUstream s, CUdeviceptr at, word value, unsigned int flags),          \
               one(s, type, at, value, flags, ptds))
MEMOP_API(cuStreamWaitValue32, cuuint32_t, CU_STREAM_MEM_OP_WAIT_VALUE_32)
MEMOP_API(cuStreamWaitValue64, cuuint64_t, CU_STREAM_MEM_OP_WAIT_VALUE_64)
MEMOP_API(cuStreamWriteValue32, cuuint32_t, CU_STREAM_MEM_OP_WRITE_VALUE_32)
MEMOP_API(cuStreamWriteValue64, cuuint64_t, CU_STREAM_MEM_OP_WRITE_VALUE_64)

STREAM_API(cuStreamBatchMemOp, (CUstream s, unsigned int count, Op *ops, unsigned int flags),
           batch(s, ops, count, flags, ptds))
STREAM_API(cuStreamBatchMemOp_v2, (CUstream s, unsigned int count, Op *ops, unsigned int flags),
           batch(s, ops, count, flags, ptds))
