/*
 * memops.c - streams that write and wait for values in memory.
 */
#include "rig.h"

static _Atomic uint32_t *word;
static CUdeviceptr address;

static void open_memops(void)
{
    rig_open_words(&word, &address);
}

TestSuite(memops, .init = open_memops);

Test(memops, write_value_runs_in_stream_order)
{
    struct gate gate;
    CUstream s = stream_new();
    gate_queue(&gate, s);
    OK(cuStreamWriteValue32(s, address, 17, 0));
    cr_assert_eq(*word, 0);
    gate_open(&gate);
    OK(cuStreamSynchronize(s));
    cr_assert_eq(*word, 17);
}

static void wait_is_met_by(unsigned int flags, uint32_t value, uint32_t unmet, uint32_t met)
{
    CUstream s = stream_new();
    *word = unmet;
    OK(cuStreamWaitValue32(s, address, value, flags));
    OK(launch_spin(s, 1000));
    for (int i = 0; i < 5; i++) {
        FAILS(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
        rig_pause();
    }
    *word = met;
    OK(cuStreamSynchronize(s));
}

Test(memops, geq_wait_ends_when_value_is_greater)
{
    wait_is_met_by(CU_STREAM_WAIT_VALUE_GEQ, 10, 9, 11);
}

Test(memops, eq_wait_ends_when_value_is_equal)
{
    wait_is_met_by(CU_STREAM_WAIT_VALUE_EQ, 10, 11, 10);
}

Test(memops, and_wait_ends_when_a_bit_is_common)
{
    wait_is_met_by(CU_STREAM_WAIT_VALUE_AND, 6, 8, 4);
}

Test(memops, geq_wait_compares_with_wraparound)
{
    wait_is_met_by(CU_STREAM_WAIT_VALUE_GEQ, 2, 0xfffffff0, 3); /* compares the signed difference */
}

Test(memops, write_in_one_stream_releases_wait_in_another)
{
    CUstream waits = stream_new(), writes = stream_new();
    CUdeviceptr p = words_new(1);
    *word = 0;
    OK(cuStreamWaitValue32(waits, address, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(launch_mix(waits, p, 10, 5));
    OK(launch_mix(writes, p, 2, 1));
    OK(cuStreamWriteValue32(writes, address, 1, 0));
    OK(cuStreamSynchronize(waits));
    words_are(p, 35);
}

Test(memops, write_and_wait_take_64_bit_values)
{
    CUstream s = stream_new();
    _Atomic uint64_t *wide = (_Atomic uint64_t *)word;
    if (!rig_attribute(CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS))
        cr_skip_test("no 64-bit memory operations");
    OK(cuStreamWriteValue64(s, address, 0x123456789abcdefull, 0));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(*wide, 0x123456789abcdefull);
    OK(cuStreamWaitValue64(s, address, 0x123456789abcdefull, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuStreamSynchronize(s));
}

Test(memops, batch_runs_in_order)
{
    CUstream s = stream_new();
    CUstreamBatchMemOpParams ops[3];
    memset(ops, 0, sizeof(ops));
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = address;
    ops[0].writeValue.value = 3;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    ops[1].waitValue.address = address;
    ops[1].waitValue.value = 3;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[2].writeValue.address = address + 4;
    ops[2].writeValue.value = 4;
    OK(cuStreamBatchMemOp(s, 3, ops, 0));
    OK(cuStreamSynchronize(s));
    cr_assert_eq(word[0], 3);
    cr_assert_eq(word[1], 4);
}

Test(memops, misaligned_address_is_refused)
{
    cr_assert_neq(cuStreamWriteValue32(stream_new(), address + 1, 1, 0), CUDA_SUCCESS);
}
