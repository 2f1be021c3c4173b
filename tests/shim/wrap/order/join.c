/*
 * join.c - work in streams that were joined by waits is known complete with the stream that waited.
 * In these tests the client's thread, which sometimes asks all streams, finds nothing complete.
 */
#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

static int always_busy(const intptr_t *argument)
{
    return CUDA_ERROR_NOT_READY;
}

static void open_blind(void)
{
    rig_open();
    watch_before(WATCH_cuStreamQuery, always_busy);
}

TestSuite(join, .init = open_blind, .fini = rig_close);

static CUevent event_new(void)
{
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    return e;
}

/* Makes `to` follow what `from` has now. */
static void follow(CUstream to, CUstream from, CUevent e)
{
    ok(cuEventRecord(e, from));
    ok(cuStreamWaitEvent(to, e, 0));
}

Test(join, sync_of_joining_stream_ends_hold)
{
    CUstream main = rig_stream_first(), side = rig_stream_first(), below = rig_stream();
    CUevent fork = event_new(), end = event_new();
    CUdeviceptr x = rig_buffer(3);
    for (int request = 0; request < 3; request++) {
        ok(rig_launch(x, 1, 0, main));
        follow(side, main, fork);
        ok(rig_launch(x, 1, 0, side));
        follow(main, side, end);
        ok(rig_launch(x, 1, 0, main));
        cr_assert(rig_held(below));
        ok(cuStreamSynchronize(main));
        cr_assert(!rig_held(below), "request %d", request);
    }
}

Test(join, event_sync_at_end_of_chain_ends_hold)
{
    enum { STREAMS = 6 };
    CUstream s[STREAMS], below = rig_stream();
    CUevent e[STREAMS];
    CUdeviceptr x = rig_buffer(3);
    for (int i = 0; i < STREAMS; i++) {
        s[i] = rig_stream_first();
        e[i] = event_new();
        if (i)
            follow(s[i], s[i - 1], e[i]);
        ok(rig_launch(x, 1, 0, s[i]));
    }
    ok(cuEventRecord(e[0], s[STREAMS - 1]));
    cr_assert(rig_held(below));
    ok(cuEventSynchronize(e[0]));
    cr_assert(!rig_held(below));
}

/* Work that came behind the record, or after the wait, is not complete by it. */
Test(join, unawaited_work_keeps_hold)
{
    CUstream main = rig_stream_first(), side = rig_stream_first(), below = rig_stream();
    CUevent e = event_new();
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 1, 0, side));
    follow(main, side, e);
    ok(rig_launch(x, 1, 0, side));
    ok(cuStreamSynchronize(main));
    cr_assert(rig_held(below));
    ok(cuStreamSynchronize(side));
    cr_assert(!rig_held(below));
    ok(rig_launch(x, 1, 0, main));
    ok(cuEventRecord(e, main)); /* in front of the wait */
    ok(rig_launch(x, 1, 0, side));
    CUevent late = event_new();
    follow(main, side, late);
    ok(cuEventSynchronize(e));
    cr_assert(rig_held(below));
    ok(cuStreamSynchronize(main));
    cr_assert(!rig_held(below));
}

Test(join, context_sync_ends_hold_of_many_streams)
{
    enum { STREAMS = 300 };
    CUstream s[STREAMS], below = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    for (int i = 0; i < STREAMS; i++)
        s[i] = rig_stream_first();
    for (int request = 0; request < 3; request++) {
        for (int i = 0; i < STREAMS; i++)
            ok(rig_launch(x, 1, 0, s[i]));
        cr_assert(rig_held(below));
        ok(cuCtxSynchronize());
        cr_assert(!rig_held(below), "request %d", request);
    }
}
