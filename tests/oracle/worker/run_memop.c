/*
 * run_memop.c - runs memory operations of streams, and the words that order streams.
 */
#include "machine.h"

#include <time.h>

/* New programs use both widths. A word has 8 bytes, whichever part of it is used. */
static bool wide(const struct op *o)
{
    return m.p->forms >= FORMS_WORDS && (o->variant & 64);
}

static CUresult value_write(const struct op *o, CUdeviceptr word)
{
    return wide(o) ? CALL(cuStreamWriteValue64_v2, o, handle(o), word, o->a, 0)
                   : CALL(cuStreamWriteValue32_v2, o, handle(o), word, o->a, 0);
}

static CUresult value_wait(const struct op *o, CUdeviceptr word, unsigned how)
{
    return wide(o) ? CALL(cuStreamWaitValue64_v2, o, handle(o), word, o->a, how)
                   : CALL(cuStreamWaitValue32_v2, o, handle(o), word, o->a, how);
}

static CUresult value_batch(const struct op *o, CUdeviceptr word)
{
    bool w = wide(o);
    CUstreamBatchMemOpParams batch[2] = {
        {.writeValue = {.operation =
                            w ? CU_STREAM_MEM_OP_WRITE_VALUE_64 : CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = word,
                        .value64 = o->a}},
        {.waitValue = {.operation =
                           w ? CU_STREAM_MEM_OP_WAIT_VALUE_64 : CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = word,
                       .value64 = o->a,
                       .flags = CU_STREAM_WAIT_VALUE_GEQ}}};
    CUresult r = CALL(cuStreamBatchMemOp_v2, o, handle(o), 2, batch, 0);
    spoil(batch, sizeof(batch));
    return r;
}

/* The host waits for what the stream wrote without any call of the driver. */
static CUresult word_poll(const struct op *o)
{
    while (m.order[o->flag] != o->a)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return CUDA_SUCCESS;
}

CUresult run_memop(const struct op *o, uint32_t index)
{
    (void)index;
    static const unsigned how[] = {CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_EQ,
                                   CU_STREAM_WAIT_VALUE_AND, CU_STREAM_WAIT_VALUE_GEQ};
    CUdeviceptr flag = m.flags + 8u * o->flag;
    CUdeviceptr order = (CUdeviceptr)(uintptr_t)&m.order[o->flag];
    switch (o->kind) {
    case OP_FLAG_WRITE:
        return value_write(o, flag);
    case OP_FLAG_WAIT:
        return value_wait(o, flag, CU_STREAM_WAIT_VALUE_GEQ);
    case OP_FLAG_BATCH:
        return value_batch(o, flag);
    case OP_ORDER_WRITE:
        return o->variant & 4 ? value_batch(o, order) : value_write(o, order);
    case OP_ORDER_WAIT:
        return value_wait(o, order, how[o->variant >> 3 & 3]);
    case OP_ORDER_SET:
        m.order[o->flag] = o->a;
        return CUDA_SUCCESS;
    default:
        return word_poll(o);
    }
}
