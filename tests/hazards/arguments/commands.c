/*
 * commands.c - commands that are neither copies nor launches, with drawn arguments (see draw.h):
 * memory in stream order, events, memory operations, host functions, streams.
 */
#include "draw.h"

/* ---- memory in stream order ----------------------------------------------------------------- */

enum { BLOCKS = 4 };
static struct block {
    CUdeviceptr at;
    size_t bytes;
} blocks[BLOCKS];

/* A free block, or one that is freed first: often the same size is wanted again. */
static struct block *block(void)
{
    const size_t sizes[] = {64, BYTES, 1 << 20};
    struct block *b = &PICK(blocks);
    if (b->at)
        MUST(cuMemFreeAsync(b->at, stream));
    if (!b->at || !draw(4))
        b->bytes = PICK(sizes);
    b->at = 0;
    return b;
}

static size_t block_length(const struct block *b)
{
    const size_t no[] = {0, (size_t)1 << 50, SIZE_MAX};
    return odd() ? PICK(no) : b->bytes;
}

DRAWN(cuMemAllocAsync)
{
    struct block *b = block();
    return CALL(cuMemAllocAsync, odd() ? NULL : &b->at, block_length(b), stream);
}

DRAWN(cuMemAllocFromPoolAsync)
{
    struct block *b = block();
    CUmemoryPool from = draw(4) ? pool : NULL;
    return CALL(cuMemAllocFromPoolAsync, odd() ? NULL : &b->at, block_length(b), from, stream);
}

/* Frees a block once or twice, or what must not be freed like that. */
DRAWN(cuMemFreeAsync)
{
    const CUdeviceptr no[] = {x, managed, nowhere, 0, pooled + 4, (CUdeviceptr)(uintptr_t)pinned};
    struct block *b = &PICK(blocks);
    CUdeviceptr at = b->at;
    bool twice = odd();
    if (!at || odd())
        return CALL(cuMemFreeAsync, PICK(no), stream);
    b->at = 0;
    CUresult r = CALL(cuMemFreeAsync, at, stream);
    return r || !twice ? r : CALL(cuMemFreeAsync, at, stream);
}

/* ---- events --------------------------------------------------------------------------------- */

DRAWN_CALL(cuEventRecord, any_event(), stream)
DRAWN_CALL(cuEventRecordWithFlags, any_event(), stream, flag())
DRAWN_CALL(cuStreamWaitEvent, stream, any_event(), flag())

static CUevent event_to_destroy(void)
{
    if (odd())
        return NULL;
    CUevent e = event_new();
    MUST(cuEventRecord(e, stream));
    return e;
}

DRAWN(cuEventDestroy)
{
    return cuEventDestroy(event_to_destroy());
}

DRAWN(cuEventDestroy_v2)
{
    return cuEventDestroy_v2(event_to_destroy());
}

DRAWN(cuCtxRecordEvent)
{
    return cuCtxRecordEvent(any_context(), any_event());
}

DRAWN(cuCtxWaitEvent)
{
    return cuCtxWaitEvent(any_context(), any_event());
}

DRAWN(cuGreenCtxRecordEvent)
{
    return cuGreenCtxRecordEvent(NULL, any_event());
}

DRAWN(cuGreenCtxWaitEvent)
{
    return cuGreenCtxWaitEvent(NULL, any_event());
}

/* ---- memory operations: the words are 1, and only 1 is written there ------------------------- */

static CUdeviceptr write_at(void)
{
    return odd() ? address() : draw(2) ? words + draw(8) * 8 : x + draw(8) * 8;
}

/* Never a word with another value than 1, or the wait has no end. */
static CUdeviceptr wait_at(void)
{
    const CUdeviceptr no[] = {0, 1, words + 1, words + 2, words + 6, managed + 1};
    return odd() ? PICK(no) : words + draw(8) * 8;
}

static unsigned write_flag(void)
{
    return odd() ? flag() : draw(2);
}

static unsigned wait_flag(void)
{
    const unsigned yes[] = {CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_EQ,
                            CU_STREAM_WAIT_VALUE_AND, CU_STREAM_WAIT_VALUE_NOR};
    const unsigned no[] = {4, 7, 8, 1u << 30, ~0u};
    return EITHER(yes, no);
}

DRAWN_CALL(cuStreamWriteValue32, stream, write_at(), 1, write_flag())
DRAWN_CALL(cuStreamWriteValue32_v2, stream, write_at(), 1, write_flag())
DRAWN_CALL(cuStreamWriteValue64, stream, write_at(), 1, write_flag())
DRAWN_CALL(cuStreamWriteValue64_v2, stream, write_at(), 1, write_flag())
DRAWN_CALL(cuStreamWaitValue32, stream, wait_at(), 1, wait_flag())
DRAWN_CALL(cuStreamWaitValue32_v2, stream, wait_at(), 1, wait_flag())
DRAWN_CALL(cuStreamWaitValue64, stream, wait_at(), 1, wait_flag())
DRAWN_CALL(cuStreamWaitValue64_v2, stream, wait_at(), 1, wait_flag())

enum { MEMOPS = 4, TOO_MANY = 257 };
static CUstreamBatchMemOpParams memops[TOO_MANY];

static void memop_draw(CUstreamBatchMemOpParams *op)
{
    const unsigned yes[] = {CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32,
                            CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_64,
                            CU_STREAM_MEM_OP_BARRIER};
    const unsigned no[] = {0, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 77};
    *op = (CUstreamBatchMemOpParams){.operation = (CUstreamBatchMemOpType)EITHER(yes, no)};
    bool waits = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
                 op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
    if (op->operation == CU_STREAM_MEM_OP_BARRIER || op->operation == (CUstreamBatchMemOpType)3) {
        op->memoryBarrier.flags = flag();
        return;
    }
    op->waitValue.address = waits ? wait_at() : write_at();
    op->waitValue.value64 = 1;
    op->waitValue.flags = waits ? wait_flag() : write_flag();
}

static unsigned memops_draw(void)
{
    const unsigned no[] = {0, TOO_MANY, ~0u};
    for (int i = 0; i < MEMOPS; i++)
        memop_draw(&memops[i]);
    return odd() ? PICK(no) : 1 + draw(MEMOPS);
}

DRAWN(cuStreamBatchMemOp)
{
    unsigned n = memops_draw();
    return CALL(cuStreamBatchMemOp, stream, n, odd() ? NULL : memops, flag());
}

DRAWN(cuStreamBatchMemOp_v2)
{
    unsigned n = memops_draw();
    return CALL(cuStreamBatchMemOp_v2, stream, n, odd() ? NULL : memops, flag());
}

/* ---- host functions ------------------------------------------------------------------------- */

static void CUDA_CB called_back(CUstream s, CUresult status, void *data)
{
    (void)s, (void)status, (void)data;
}

DRAWN_CALL(cuStreamAddCallback, stream, odd() ? NULL : called_back, NULL, flag())
DRAWN_CALL(cuLaunchHostFunc, stream, odd() ? NULL : nothing, NULL)
DRAWN_CALL(cuLaunchHostFunc_v2, stream, odd() ? NULL : nothing, NULL, flag())

/* ---- streams -------------------------------------------------------------------------------- */

static CUstream stream_to_destroy(void)
{
    const CUstream no[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    if (odd())
        return PICK(no);
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    MUST(cuEventRecord(event, s));
    return s;
}

DRAWN(cuStreamDestroy)
{
    return cuStreamDestroy(stream_to_destroy());
}

DRAWN(cuStreamDestroy_v2)
{
    return cuStreamDestroy_v2(stream_to_destroy());
}

DRAWN(cuStreamSetAttribute)
{
    const int yes[] = {CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, CU_LAUNCH_ATTRIBUTE_PRIORITY};
    const int no[] = {CU_LAUNCH_ATTRIBUTE_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, 99};
    CUstreamAttrValue value = {.priority = odd() ? 99 : 0};
    return CALL(cuStreamSetAttribute, stream, (CUstreamAttrID)EITHER(yes, no), &value);
}

DRAWN(cuStreamCopyAttributes)
{
    static CUstream from;
    const CUstream no[] = {NULL, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};
    if (!from)
        from = stream_new(CU_STREAM_NON_BLOCKING);
    return CALL(cuStreamCopyAttributes, stream, odd() ? PICK(no) : from);
}
