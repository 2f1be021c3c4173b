/*
 * timeline.c - what runs when on the simulated device, in modelled time only. The tests choose
 * every time themselves, so nothing depends on this machine.
 */
#include "tools/simgpu/device/device.h"
#include "tools/simgpu/device/group.h"
#include "tools/simgpu/device/timeline.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { US = 1000, SLICE = 2000 * US, SWITCH = 20 * US, SMS = 100, START = 1000 * US };

static struct device d;
static uint32_t context, stream;

static void setup(void)
{
    char name[64];
    snprintf(name, sizeof(name), "/simgpu-%u-timeline%d", (unsigned)getuid(), (int)getpid());
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

TestSuite(timeline, .init = setup, .fini = teardown);

static struct op kernel(uint64_t submit, uint64_t cost, int sms)
{
    return (struct op){
        .kind = OP_KERNEL, .submit_ns = submit, .cost_ns = cost, .sms = (uint16_t)sms};
}

static uint64_t put(uint32_t s, struct op op)
{
    uint64_t seq = device_submit(&d, s, &op);
    cr_assert_neq(seq, 0);
    return seq;
}

static const struct op *at(uint32_t s, uint64_t seq)
{
    return stream_op(d.shared, device_stream(&d, s), seq);
}

static void expect(uint32_t s, uint64_t seq, uint64_t start, uint64_t end)
{
    cr_assert_eq(at(s, seq)->state, OP_DONE, "op %lu of stream %x is not done", seq, s);
    cr_expect_eq(at(s, seq)->start_ns, start, "starts at %lu, not %lu", at(s, seq)->start_ns,
                 start);
    cr_expect_eq(at(s, seq)->end_ns, end, "ends at %lu, not %lu", at(s, seq)->end_ns, end);
}

Test(timeline, late_advance_keeps_kernels_back_to_back)
{
    for (int i = 0; i < 10; i++)
        put(stream, kernel(START + (uint64_t)i * US, 200 * US, SMS));
    device_advance(&d, START + 20 * US);
    device_advance(&d, START + 1000000 * US);
    for (uint64_t i = 0; i < 10; i++)
        expect(stream, i + 1, START + i * 200 * US, START + (i + 1) * 200 * US);
}

Test(timeline, idle_device_starts_work_at_its_submit_time)
{
    put(stream, kernel(START, 10 * US, 1));
    device_advance(&d, START + 500 * US);
    put(stream, kernel(START + 500 * US, 10 * US, 1));
    device_advance(&d, START + 900 * US);
    expect(stream, 2, START + 500 * US, START + 510 * US);
}

Test(timeline, kernels_overlap_if_their_sms_fit)
{
    uint32_t second = device_stream_open(&d, context, 0),
             third = device_stream_open(&d, context, 0);
    put(stream, kernel(START, 100 * US, 60));
    put(second, kernel(START, 100 * US, 40));
    put(third, kernel(START, 100 * US, 1));
    device_advance(&d, START + 10000 * US);
    expect(stream, 1, START, START + 100 * US);
    expect(second, 1, START, START + 100 * US);
    expect(third, 1, START + 100 * US, START + 200 * US);
}

Test(timeline, small_kernel_does_not_overtake_a_large_one)
{
    uint32_t large = device_stream_open(&d, context, 0), small = device_stream_open(&d, context, 0);
    put(stream, kernel(START, 100 * US, 60));
    put(large, kernel(START, 100 * US, SMS));
    put(small, kernel(START, 10 * US, 1));
    device_advance(&d, START + 10000 * US);
    expect(large, 1, START + 100 * US, START + 200 * US);
    expect(small, 1, START + 200 * US, START + 210 * US);
}

Test(timeline, higher_priority_stream_goes_first)
{
    uint32_t urgent = device_stream_open(&d, context, -5),
             usual = device_stream_open(&d, context, 0);
    put(stream, kernel(START, 100 * US, SMS));
    put(usual, kernel(START + 1, 100 * US, SMS));
    put(urgent, kernel(START + 2, 100 * US, SMS));
    device_advance(&d, START + 10000 * US);
    expect(urgent, 1, START + 100 * US, START + 200 * US);
    expect(usual, 1, START + 200 * US, START + 300 * US);
}

static struct op copy(uint64_t submit, uint64_t cost, enum copy_engine engine)
{
    return (struct op){
        .kind = OP_COPY, .submit_ns = submit, .cost_ns = cost, .engine = (uint8_t)engine};
}

Test(timeline, copies_use_their_directions_engine_and_no_sms)
{
    static const enum copy_engine engines[] = {ENGINE_TO_DEVICE, ENGINE_TO_HOST, ENGINE_WITHIN,
                                               ENGINE_TO_DEVICE};
    uint32_t streams[4];
    put(stream, kernel(START, 100 * US, SMS));
    for (int i = 0; i < 4; i++) {
        streams[i] = device_stream_open(&d, context, 0);
        put(streams[i], copy(START, 50 * US, engines[i]));
    }
    device_advance(&d, START + 10000 * US);
    expect(stream, 1, START, START + 100 * US);
    for (int i = 0; i < 3; i++)
        expect(streams[i], 1, START, START + 50 * US);
    expect(streams[3], 1, START + 50 * US, START + 100 * US);
}

Test(timeline, copies_in_both_directions_share_the_link)
{
    uint32_t up = stream, down = device_stream_open(&d, context, 0);
    uint32_t within = device_stream_open(&d, context, 0);
    d.shared->params.link_percent = 50;
    put(up, copy(START, 100 * US, ENGINE_TO_DEVICE));
    put(within, copy(START, 300 * US, ENGINE_WITHIN));
    put(down, copy(START + 50 * US, 20 * US, ENGINE_TO_HOST));
    put(down, copy(START + 1000 * US, 20 * US, ENGINE_TO_HOST)); /* has the link to itself */
    device_advance(&d, START + 10000 * US);
    expect(down, 1, START + 50 * US, START + 90 * US); /* at half speed */
    expect(up, 1, START, START + 120 * US);            /* 50 alone, 20 that take 40, 30 alone */
    expect(within, 1, START, START + 300 * US);
    expect(down, 2, START + 1000 * US, START + 1020 * US);
}

Test(timeline, stream_waits_until_its_dependency_is_done)
{
    uint32_t other = device_stream_open(&d, context, 0);
    uint64_t first = put(stream, kernel(START, 100 * US, 1));
    struct op wait = {.kind = OP_MARK, .submit_ns = START, .after = {{stream, (uint32_t)first}}};
    put(other, wait);
    put(other, kernel(START, 10 * US, 1));
    device_advance(&d, START + 10000 * US);
    expect(other, 1, START + 100 * US, START + 100 * US);
    expect(other, 2, START + 100 * US, START + 110 * US);
    cr_expect_gt(at(other, 1)->ticket, at(stream, first)->ticket, "effects in the order of ends");
}

Test(timeline, contexts_alternate_in_slices_and_pause_kernels)
{
    uint32_t other_context = device_context_open(&d, 0);
    uint32_t other = device_stream_open(&d, other_context, 0);
    put(stream, kernel(START, 5000 * US, SMS));
    put(other, kernel(START, 3000 * US, SMS));
    device_advance(&d, START + 100000 * US);
    /* In turn: 2000 us ours, 2000 theirs, 2000 ours, the last 1000 theirs, the last 1000 ours. */
    expect(other, 1, START + SLICE + SWITCH, START + 7000 * US + 3 * SWITCH);
    expect(stream, 1, START, START + 8000 * US + 4 * SWITCH);
}

Test(timeline, new_context_waits_for_the_end_of_the_slice)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, kernel(START, 100000 * US, SMS));
    device_advance(&d, START + 5000 * US);
    put(other, kernel(START + 5000 * US, 10 * US, 1));
    device_advance(&d, START + 50000 * US);
    expect(other, 1, START + 3 * SLICE + SWITCH, START + 3 * SLICE + SWITCH + 10 * US);
}

Test(timeline, an_idle_context_yields_at_once)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, kernel(START, 100 * US, SMS));
    put(other, kernel(START, 50 * US, SMS));
    device_advance(&d, START + 100000 * US);
    expect(other, 1, START + 100 * US + SWITCH, START + 150 * US + SWITCH);
}

Test(timeline, blocked_context_yields_and_resumes_after_its_wait)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    struct op wait = {.kind = OP_WAIT, .submit_ns = START};
    put(stream, wait);
    put(stream, kernel(START, 100 * US, SMS));
    put(other, kernel(START, 50 * US, SMS));
    device_advance(&d, START + 1000 * US);
    cr_assert_eq(at(stream, 1)->state, OP_HANDED);
    expect(other, 1, START, START + 50 * US);
    device_resolve(&d, stream, 1, START + 1000 * US);
    device_advance(&d, START + 2000 * US);
    expect(stream, 2, START + 1000 * US + SWITCH, START + 1100 * US + SWITCH);
}

Test(timeline, wait_resolved_late_can_end_at_its_start)
{
    struct op wait = {.kind = OP_WAIT, .submit_ns = START};
    put(stream, kernel(START, 100 * US, SMS));
    put(stream, wait);
    put(stream, kernel(START, 100 * US, SMS));
    device_advance(&d, START + 700 * US);
    cr_assert_eq(at(stream, 2)->state, OP_HANDED);
    device_resolve(&d, stream, 2, at(stream, 2)->start_ns);
    device_advance(&d, START + 700 * US);
    expect(stream, 3, START + 100 * US, START + 200 * US);
}

Test(timeline, context_abort_ends_its_work_and_spares_others)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    struct op wait = {.kind = OP_WAIT, .submit_ns = START};
    put(stream, kernel(START, 1000000 * US, SMS));
    put(stream, wait);
    put(stream, kernel(START, 1000000 * US, SMS));
    put(other, kernel(START, 50 * US, SMS));
    device_advance(&d, START + 10 * US);
    device_context_abort(&d, context);
    device_advance(&d, START + 11 * US);
    cr_expect_eq(at(stream, 3)->state, OP_DONE);
    device_advance(&d, START + 1000 * US);
    cr_expect_eq(at(other, 1)->state, OP_DONE);
    cr_expect_leq(at(other, 1)->end_ns, START + 11 * US + SWITCH + 50 * US);
}

Test(timeline, full_ring_takes_more_only_after_reaping)
{
    for (int i = 0; i < DEVICE_RING; i++)
        put(stream, kernel(START, 10 * US, 1));
    struct op more = kernel(START, 10 * US, 1);
    cr_expect_eq(device_submit(&d, stream, &more), 0);
    device_advance(&d, START + 15 * US);
    cr_expect_eq(device_submit(&d, stream, &more), 0, "done, but its owner has not looked");
    device_stream(&d, stream)->reaped = 1;
    cr_expect_neq(device_submit(&d, stream, &more), 0);
}

Test(timeline, engine_is_due_at_the_earliest_completion)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, kernel(START, 100 * US, SMS));
    device_advance(&d, START);
    cr_expect_eq(device_due(&d, d.client), START + 100 * US);
    put(other, kernel(START, 10 * US, 1));
    device_advance(&d, START);
    cr_expect_eq(device_due(&d, d.client), START + 100 * US);
    device_advance(&d, START + 100 * US);
    cr_expect_eq(device_due(&d, d.client), 0, "something to reap");
    device_stream(&d, stream)->reaped = 1;
    cr_expect_eq(device_due(&d, d.client), START + 110 * US + SWITCH);
}

/* Random loads: each stream's ops run in order, dependencies hold, SMs are never overbooked. */
static uint32_t seed = 12345;
static uint32_t pick(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static int sms_at(uint32_t *streams, int count, uint64_t *last, uint64_t t)
{
    int taken = 0;
    for (int s = 0; s < count; s++)
        for (uint64_t seq = 1; seq <= last[s]; seq++)
            if (at(streams[s], seq)->start_ns <= t && t < at(streams[s], seq)->end_ns)
                taken += at(streams[s], seq)->sms;
    return taken;
}

Test(timeline, random_loads_keep_order_and_never_overbook)
{
    enum { STREAMS = 6, OPS = 200 };
    uint32_t streams[STREAMS] = {stream};
    uint64_t last[STREAMS] = {0}, now = START;
    for (int i = 1; i < STREAMS; i++)
        streams[i] = device_stream_open(&d, context, -(int)pick(3));
    for (int i = 0; i < OPS; i++) {
        uint32_t s = pick(STREAMS), from = pick(STREAMS);
        struct op op = kernel(now, (1 + pick(50)) * US, 1 + (int)pick(SMS));
        if (pick(3) == 0 && last[from])
            op.after[0] = (struct op_point){streams[from], (uint32_t)last[from]};
        last[s] = put(streams[s], op);
        now += pick(20) * US;
        if (pick(4) == 0)
            device_advance(&d, now);
    }
    device_advance(&d, now + 1000000 * US);
    for (int s = 0; s < STREAMS; s++)
        for (uint64_t seq = 1; seq <= last[s]; seq++) {
            const struct op *op = at(streams[s], seq);
            cr_assert_eq(op->state, OP_DONE);
            cr_assert(seq == 1 || op->start_ns >= at(streams[s], seq - 1)->end_ns);
            if (op->after[0].stream)
                cr_assert_geq(op->start_ns, at(op->after[0].stream, op->after[0].seq)->end_ns);
            cr_assert_leq(sms_at(streams, STREAMS, last, op->start_ns), SMS);
        }
}

/* ---- the front end --------------------------------------------------------------------------- */

static struct op memop(enum op_kind kind, uint64_t cost)
{
    return (struct op){.kind = (uint8_t)kind, .submit_ns = START, .cost_ns = cost};
}

Test(timeline, memops_take_time_between_kernels)
{
    put(stream, kernel(START, 100 * US, SMS));
    uint64_t write = put(stream, memop(OP_MARK, 500));
    uint64_t wait = put(stream, memop(OP_WAIT, 800));
    put(stream, kernel(START, 100 * US, SMS));
    device_advance(&d, START + 1000 * US);
    expect(stream, write, START + 100 * US, START + 100 * US + 500);
    cr_assert_eq(at(stream, wait)->state, OP_HANDED);
    device_resolve(&d, stream, wait, at(stream, wait)->start_ns);
    device_advance(&d, START + 1000 * US);
    expect(stream, 4, START + 100 * US + 1300, START + 200 * US + 1300);
}

Test(timeline, memop_between_kernels_keeps_the_gpu)
{
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    put(stream, kernel(START, 100 * US, SMS));
    put(stream, memop(OP_MARK, 500));
    put(stream, kernel(START, 100 * US, SMS));
    put(other, kernel(START, 10 * US, SMS));
    device_advance(&d, START + 10000 * US);
    expect(stream, 3, START + 100 * US + 500, START + 200 * US + 500);
    expect(other, 1, START + 200 * US + 500 + SWITCH, START + 210 * US + 500 + SWITCH);
}

Test(timeline, wait_blocks_streams_of_the_same_hardware_queue)
{
    uint32_t sharing = device_stream_open(&d, context, 0),
             free = device_stream_open(&d, context, 0);
    uint32_t elsewhere = device_stream_open(&d, device_context_open(&d, 0), 0);
    device_stream(&d, stream)->queue = device_stream(&d, sharing)->queue = 1;
    device_stream(&d, free)->queue = 2;
    device_stream(&d, elsewhere)->queue = 1; /* in another context, so another queue */
    put(sharing, kernel(START, 10 * US, 1)); /* submitted before the wait */
    uint64_t wait = put(stream, memop(OP_WAIT, 0));
    put(sharing, kernel(START, 10 * US, 1));
    put(free, kernel(START, 10 * US, 1));
    put(elsewhere, kernel(START, 10 * US, 1));
    device_advance(&d, START + 1000 * US);
    expect(sharing, 1, START, START + 10 * US);
    expect(free, 1, START, START + 10 * US);
    expect(elsewhere, 1, START + 10 * US + SWITCH, START + 20 * US + SWITCH);
    cr_expect_eq(at(sharing, 2)->state, OP_QUEUED);
    device_resolve(&d, stream, wait, START + 1000 * US);
    device_advance(&d, START + 10000 * US);
    expect(sharing, 2, START + 1000 * US + SWITCH, START + 1010 * US + SWITCH);
}

Test(timeline, kernels_short_of_bandwidth_slow_each_other)
{
    uint32_t second = device_stream_open(&d, context, 0);
    d.shared->params.memory_percent = 200;
    put(stream, kernel(START, 100 * US, 50));              /* uses all of the bandwidth */
    put(second, kernel(START + 40 * US, 90 * US, 25));     /* uses half of it */
    put(stream, kernel(START + 1000 * US, 100 * US, SMS)); /* its cost is its time when alone */
    device_advance(&d, START + 10000 * US);
    expect(stream, 1, START, START + 130 * US);           /* 40 alone, 60 that take 90 */
    expect(second, 1, START + 40 * US, START + 160 * US); /* 60 done by 130, and 30 alone */
    expect(stream, 2, START + 1000 * US, START + 1100 * US);
}

Test(timeline, kernels_within_bandwidth_run_at_full_speed)
{
    uint32_t second = device_stream_open(&d, context, 0);
    d.shared->params.memory_percent = 200;
    put(stream, kernel(START, 100 * US, 25));
    put(second, kernel(START + 40 * US, 90 * US, 25));
    device_advance(&d, START + 10000 * US);
    expect(stream, 1, START, START + 100 * US);
    expect(second, 1, START + 40 * US, START + 130 * US);
}

Test(timeline, slowed_kernel_keeps_its_remaining_work_across_slices)
{
    uint32_t second = device_stream_open(&d, context, 0);
    uint32_t other = device_stream_open(&d, device_context_open(&d, 0), 0);
    d.shared->params.memory_percent = 200;
    put(stream, kernel(START, SLICE, 50));
    put(second, kernel(START, 10 * SLICE, 50)); /* both run at half speed */
    put(other, kernel(START, 100 * US, SMS));
    device_advance(&d, START + 100 * SLICE);
    expect(other, 1, START + SLICE + SWITCH, START + SLICE + SWITCH + 100 * US);
    expect(stream, 1, START, START + 2 * SLICE + 2 * SWITCH + 100 * US);
}

enum { PREEMPT = 40 * US };

/* A call of the resource manager at `now`. */
static void schedule(uint32_t of, bool on, uint64_t now)
{
    device_advance(&d, now);
    device_group_schedule(&d, of, on, now, PREEMPT);
    device_advance(&d, now);
}

Test(timeline, group_off_run_list_stops_and_later_resumes)
{
    uint32_t other = device_context_open(&d, 0), theirs = device_stream_open(&d, other, 0);
    put(stream, kernel(START, 50000 * US, SMS));
    put(stream, kernel(START, 10 * US, SMS));
    schedule(context, false, START + 1000 * US);
    put(theirs, kernel(START + 1000 * US, 20 * US, SMS));
    schedule(context, true, START + 9000 * US);
    device_advance(&d, START + 100000 * US);
    uint64_t began = START + 1000 * US + PREEMPT + SWITCH, on = START + 9000 * US + SWITCH;
    expect(theirs, 1, began, began + 20 * US);
    expect(stream, 1, START, on + 49000 * US);
    expect(stream, 2, on + 49000 * US, on + 49010 * US);
}

Test(timeline, group_off_run_list_starts_nothing)
{
    struct op copy = {.kind = OP_COPY, .submit_ns = START, .cost_ns = 10 * US};
    uint32_t second = device_stream_open(&d, context, 0);
    schedule(context, false, START);
    put(stream, copy);
    put(second, kernel(START, 10 * US, 1));
    device_advance(&d, START + 5000 * US);
    cr_expect_eq(at(stream, 1)->state, OP_QUEUED);
    cr_expect_eq(at(second, 1)->state, OP_QUEUED);
    cr_expect_eq(device_due(&d, d.client), DEVICE_NEVER);
    schedule(context, true, START + 6000 * US);
    device_advance(&d, START + 7000 * US);
    expect(stream, 1, START + 6000 * US, START + 6010 * US);
    expect(second, 1, START + 6000 * US, START + 6010 * US);
}

Test(timeline, short_slice_and_preemption_admit_a_neighbour)
{
    uint32_t other = device_context_open(&d, 0), theirs = device_stream_open(&d, other, 0);
    uint64_t now = START + 1000 * US;
    put(stream, kernel(START, 50000 * US, SMS));
    device_advance(&d, now);
    device_group_timeslice(&d, context, US);
    device_group_preempt(&d, context, now, PREEMPT);
    put(theirs, kernel(now, 20 * US, SMS));
    device_advance(&d, now + 500 * US);
    expect(theirs, 1, now + PREEMPT + SWITCH, now + PREEMPT + SWITCH + 20 * US);
    cr_expect_eq(at(stream, 1)->state, OP_RUNNING);
}
