/*
 * resident_op.c - resident kernels on the timeline, in modelled time only, as in timeline.c.
 */
#include "tools/simgpu/device/device.h"
#include "tools/simgpu/device/group.h"
#include "tools/simgpu/device/resident_op.h"
#include "tools/simgpu/device/timeline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

enum { US = 1000, SLICE = 2000 * US, SWITCH = 20 * US, SMS = 100, START = 1000 * US };

static struct device d;
static uint32_t context, stream;

static void setup(void)
{
    char name[64];
    snprintf(name, sizeof(name), "/simgpu-%u-resident%d", (unsigned)getuid(), (int)getpid());
    struct device_params params = {
        .gpus = 1, .sms = SMS, .timeslice_ns = SLICE, .switch_ns = SWITCH};
    cr_assert_eq(device_open(&d, name, &params), 0);
    device_lock(&d);
    context = device_context_open(&d, 0);
    stream = device_stream_open(&d, context, 0);
}

static void teardown(void)
{
    device_unlock(&d);
    device_close(&d, 1000000000);
}

TestSuite(resident_op, .init = setup, .fini = teardown);

static uint64_t put(uint32_t s, uint64_t submit, uint64_t cost, int sms, int flags)
{
    struct op op = {.kind = OP_KERNEL,
                    .submit_ns = submit,
                    .cost_ns = cost,
                    .sms = (uint16_t)sms,
                    .flags = (uint8_t)flags};
    uint64_t seq = device_submit(&d, s, &op);
    cr_assert_neq(seq, 0);
    return seq;
}

static const struct op *at(uint32_t s, uint64_t seq)
{
    return stream_op(d.shared, device_stream(&d, s), seq);
}

static void expect_state(uint32_t s, uint64_t seq, int state, uint64_t end)
{
    cr_assert_eq(at(s, seq)->state, state, "state %d, not %d", at(s, seq)->state, state);
    cr_expect_eq(at(s, seq)->end_ns, end, "ends at %lu, not %lu", at(s, seq)->end_ns, end);
}

static void resume(uint64_t ns, uint64_t now)
{
    device_resume(&d, stream, 1, ns);
    device_advance(&d, now);
}

Test(resident_op, owner_is_handed_the_kernel_at_start_and_after_each_piece)
{
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    expect_state(stream, 1, OP_HANDED, START);
    resume(10 * US, START + 5 * US);
    expect_state(stream, 1, OP_RUNNING, START + 10 * US);
    device_advance(&d, START + 10 * US);
    expect_state(stream, 1, OP_HANDED, START + 10 * US);
    device_resolve(&d, stream, 1, START + 10 * US);
    expect_state(stream, 1, OP_DONE, START + 10 * US);
}

Test(resident_op, late_owner_catches_up_piece_by_piece)
{
    put(stream, START, 0, 1, OP_RESIDENT);
    put(stream, START, 7 * US, 1, 0);
    device_advance(&d, START + 900 * US);
    for (uint64_t i = 1; i <= 5; i++) {
        resume(10 * US, START + 900 * US);
        expect_state(stream, 1, OP_HANDED, START + i * 10 * US);
    }
    device_resolve(&d, stream, 1, START + 50 * US);
    device_advance(&d, START + 900 * US);
    expect_state(stream, 2, OP_DONE, START + 57 * US);
}

Test(resident_op, kernel_keeps_its_sms_handed_or_running)
{
    uint32_t large = device_stream_open(&d, context, 0), small = device_stream_open(&d, context, 0);
    put(stream, START, 0, 60, OP_RESIDENT);
    device_advance(&d, START);
    put(small, START + 1 * US, 10 * US, 40, 0);
    put(large, START + 2 * US, 10 * US, 41, 0);
    device_advance(&d, START + 100 * US);
    expect_state(small, 1, OP_DONE, START + 11 * US);
    cr_expect_eq(at(large, 1)->state, OP_QUEUED);
    resume(200 * US, START + 100 * US);
    cr_expect_eq(at(large, 1)->state, OP_QUEUED);
    device_advance(&d, START + 200 * US);
    device_resolve(&d, stream, 1, START + 200 * US);
    device_advance(&d, START + 1000 * US);
    expect_state(large, 1, OP_DONE, START + 210 * US);
}

/* The kernel only waits, yet its context uses up its slices as with any other kernel. */
Test(resident_op, waiting_kernel_uses_up_its_time_slices)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    put(other, START, 3000 * US, SMS, 0);
    device_advance(&d, START + SLICE + SWITCH + 1000 * US);
    cr_expect(at(stream, 1)->flags & OP_AWAY);
    device_advance(&d, START + 2 * SLICE + 2 * SWITCH + 1 * US);
    cr_expect_eq(at(other, 1)->state, OP_PAUSED);
    cr_expect(kernel_on_sms(at(stream, 1)));
    device_advance(&d, START + 100000 * US);
    expect_state(other, 1, OP_DONE, START + 3 * SLICE + 3 * SWITCH + 1000 * US);
}

Test(resident_op, work_before_the_context_switch_counts)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    put(other, START, 1000 * US, SMS, 0);
    device_advance(&d, START + SLICE + 100 * US); /* its own slice of 2000 us, then the other's */
    cr_assert(at(stream, 1)->flags & OP_AWAY);
    resume(1500 * US, START + SLICE + 100 * US); /* it had ended by then */
    expect_state(stream, 1, OP_HANDED, START + 1500 * US);
    resume(1500 * US, START + SLICE + 100 * US); /* 500 us of it ran before that */
    cr_assert_eq(at(stream, 1)->state, OP_PAUSED);
    device_advance(&d, START + 100000 * US);
    uint64_t back = START + SLICE + SWITCH + 1000 * US + SWITCH;
    expect_state(stream, 1, OP_HANDED, back + 1000 * US);
}

Test(resident_op, kernel_handed_while_switched_out_resumes_where_it_was)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    put(other, START, 1000 * US, SMS, 0);
    device_advance(&d, START + 100000 * US);
    uint64_t back = START + SLICE + SWITCH + 1000 * US + SWITCH;
    expect_state(stream, 1, OP_HANDED, back - SLICE);
    resume(2500 * US, START + 100000 * US);
    expect_state(stream, 1, OP_HANDED, back + 500 * US);
}

Test(resident_op, group_off_run_list_pauses_the_kernel)
{
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    resume(100 * US, START + 10 * US);
    device_group_schedule(&d, context, false, START + 10 * US, 0);
    device_advance(&d, START + 1000 * US);
    cr_expect_eq(at(stream, 1)->state, OP_PAUSED);
    device_group_schedule(&d, context, true, START + 1000 * US, 0);
    device_advance(&d, START + 2000 * US);
    expect_state(stream, 1, OP_HANDED, START + 1090 * US);
}

Test(resident_op, context_abort_ends_the_kernel_and_ignores_resume)
{
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    device_context_abort(&d, context);
    device_advance(&d, START + 10 * US);
    cr_assert_eq(at(stream, 1)->state, OP_DONE);
    resume(10 * US, START + 20 * US);
    cr_expect_eq(at(stream, 1)->state, OP_DONE);
}

Test(resident_op, owner_is_due_at_handover_and_others_after_the_slice)
{
    put(stream, START, 0, 1, OP_RESIDENT);
    device_advance(&d, START);
    cr_expect_eq(device_due(&d, d.client), 0);
    resume(10 * US, START + 1 * US);
    cr_expect_eq(device_due(&d, d.client), START + 10 * US);
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    device_stream(&d, other)->client = d.client + 1;
    put(other, START + 1 * US, 5 * US, 1, 0);
    device_advance(&d, START + 1 * US);
    cr_expect_eq(device_due(&d, d.client + 1), START + SLICE + SWITCH + 5 * US + 1);
}
