/*
 * event.c - an event means its latest record, buffered or not.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(event, .init = rig_open, .fini = rig_close);

static CUevent make(void)
{
    CUevent e;
    ok(cuEventCreate(&e, 0));
    return e;
}

Test(event, is_not_ready_while_its_record_is_buffered)
{
    CUstream s = rig_stream();
    CUevent e = make();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cuEventRecord(e, s));
    ok(cuEventSynchronize(e));
    ok(cuEventQuery(e));
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuEventRecord(e, s)); /* not the completed state of the record before */
    answers(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    ok(cutin_stream_release(s));
    ok(cuEventSynchronize(e));
    ok(cuEventQuery(e));
    rig_expect(x, rig_mixed(3, 5, 7), s);
}

Test(event, has_no_elapsed_time_while_a_record_is_buffered)
{
    CUstream s = rig_stream();
    CUevent from = make(), to = make();
    float ms = -1;
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cuEventRecord(from, s));
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuEventRecord(to, s));
    answers(CUDA_ERROR_NOT_READY, cuEventElapsedTime(&ms, from, to));
    ok(cutin_stream_release(s));
    ok(cuEventSynchronize(to));
    ok(cuEventElapsedTime(&ms, from, to));
    cr_assert(ms >= 0);
}

Test(event, wait_across_streams_follows_buffered_record)
{
    CUstream a = rig_stream(), b = rig_stream();
    CUevent e = make();
    rig_warm(a);
    rig_warm(b);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(a));
    ok(rig_launch(x, 5, 7, a));
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e,
                         0)); /* returns: no thread is blocked by the hold of another stream */
    ok(rig_launch(x, 11, 1, b));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    ok(cutin_stream_release(a));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), b);
}

Test(event, wait_refers_to_latest_record_at_the_call)
{
    CUstream a = rig_stream(), b = rig_stream(), c = rig_stream();
    CUevent e = make();
    rig_warm(a);
    rig_warm(b);
    rig_warm(c);
    CUdeviceptr x = rig_buffer(3), y = rig_buffer(1);
    ok(cutin_stream_hold(b)); /* the wait is buffered */
    ok(rig_launch(x, 5, 7, a));
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(rig_launch(x, 11, 1, b));
    ok(cutin_stream_hold(c));
    ok(rig_launch(y, 3, 3, c));
    ok(cuEventRecord(e, c)); /* b must not wait for this later record */
    ok(cutin_stream_release(b));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), b);
    answers(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    ok(cutin_stream_release(c));
    ok(cuEventSynchronize(e));
    rig_expect(y, rig_mixed(1, 3, 3), c);
}

Test(event, may_be_destroyed_with_its_record_and_waits_buffered)
{
    CUstream a = rig_stream(), b = rig_stream();
    CUevent e = make();
    rig_warm(a);
    rig_warm(b);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(a));
    ok(rig_launch(x, 5, 7, a));
    ok(cuEventRecord(e, a));
    ok(cuStreamWaitEvent(b, e, 0));
    ok(cuEventDestroy(e));
    CUevent other = make(); /* may get the same handle */
    answers(CUDA_SUCCESS, cuEventQuery(other));
    ok(rig_launch(x, 11, 1, b));
    ok(cutin_stream_release(a));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), b);
    ok(cuEventDestroy(other));
}

static void synchronize(void *user)
{
    ok(cuEventSynchronize(*(CUevent *)user));
}

Test(event, synchronising_waits_for_the_buffered_record)
{
    CUstream s = rig_stream();
    CUevent e = make();
    struct rig_thread t;
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 5, 7, s));
    ok(cuEventRecord(e, s));
    rig_start(&t, synchronize, &e);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    ok(cuEventQuery(e));
}

Test(event, ring_of_streams_keeps_order)
{
    enum { STREAMS = 4, ROUNDS = 200 };
    CUstream s[STREAMS];
    CUevent e[STREAMS];
    CUdeviceptr x = rig_buffer(1);
    uint32_t expect = 1;
    for (int i = 0; i < STREAMS; i++) {
        s[i] = rig_stream();
        e[i] = make();
        rig_warm(s[i]);
        ok(cuEventRecord(e[i], s[i]));
    }
    for (int round = 0; round < ROUNDS; round++) {
        if (round % 20 == 0)
            ok(cutin_stream_hold(s[round / 20 % STREAMS]));
        for (int i = 0; i < STREAMS; i++) {
            ok(cuStreamWaitEvent(s[i], e[(i + STREAMS - 1) % STREAMS], 0));
            ok(rig_launch(x, 3, (uint32_t)(round + i), s[i]));
            ok(cuEventRecord(e[i], s[i]));
            expect = rig_mixed(expect, 3, (uint32_t)(round + i));
        }
        if (round % 20 == 10)
            ok(cutin_stream_release(s[round / 20 % STREAMS]));
    }
    rig_expect(x, expect, NULL);
}

static CUevent shared;
enum { TURNS = 20000 };

static void record_and_wait(void *stream)
{
    for (int i = 0; i < TURNS; i++) {
        ok(cuEventRecord(shared, stream));
        ok(cuStreamWaitEvent(stream, shared, 0));
    }
}

/* It does not matter which record a wait means, but its data must stay whole. Work is buffered all
 * the while, and all of it ends. */
Test(event, three_threads_may_record_and_wait_concurrently)
{
    struct rig_thread t[3] = {0};
    CUstream held = rig_stream(), s[3];
    rig_warm(held);
    ok(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 3; i++)
        s[i] = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(held));
    ok(rig_launch(x, 5, 7, held));
    for (int i = 0; i < 3; i++)
        rig_start(&t[i], record_and_wait, s[i]);
    for (int i = 0; i < 3; i++)
        rig_join(&t[i]);
    ok(cutin_stream_release(held));
    rig_expect(x, rig_mixed(3, 5, 7), held);
    for (int i = 0; i < 3; i++)
        ok(cuStreamSynchronize(s[i]));
    ok(cuEventSynchronize(shared));
}

/* ---- many that are destroyed ---------------------------------------------------------------- */

static void rig_open_with_queue(void)
{
    rig_open_with("CUTIN_QUEUE", "16");
}

TestSuite(event_queue, .init = rig_open_with_queue, .fini = rig_close);

/* `held` is held: work that comes after it is due before it. */
struct destroyer {
    CUstream held, s, follows;
    CUdeviceptr x;
};

static void make_and_destroy(CUstream s, CUstream follows)
{
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(e, s));
    ok(cuStreamWaitEvent(follows, e, 0));
    ok(cuEventDestroy(e));
}

static void destroy_events(void *user)
{
    const struct destroyer *d = user;
    make_and_destroy(d->held, d->held);
    for (int i = 0; i < 100; i++)
        make_and_destroy(d->s, d->follows);
    ok(cutin_stream_release(d->held));
}

static void destroy_graphs(void *user)
{
    const struct destroyer *d = user;
    for (int i = 0; i < 100; i++) {
        CUgraphExec exec = rig_graph(d->x, 1, 0, 2);
        ok(cuGraphLaunch(exec, d->s));
        ok(cuGraphLaunch(exec, d->s));
        ok(cuGraphExecDestroy(exec));
    }
    ok(cutin_stream_release(d->held));
}

/* The thread that destroys them is the one that will end the hold. */
static void destroyed_behind_one_that_is_held(void (*body)(void *))
{
    struct destroyer d = {rig_stream(), rig_stream(), rig_stream(), rig_buffer(3)};
    struct rig_thread t;
    rig_warm(d.held);
    ok(cutin_stream_hold(d.held));
    CUgraphExec exec = rig_graph(d.x, 1, 0, 2);
    ok(cuGraphLaunch(exec, d.s));
    ok(cuGraphLaunch(exec, d.held));
    ok(cuGraphExecDestroy(exec));
    rig_start(&t, body, &d);
    rig_until(&t.returned);
    rig_join(&t);
    ok(cuCtxSynchronize());
}

Test(event_queue, many_events_are_destroyed_behind_hold)
{
    destroyed_behind_one_that_is_held(destroy_events);
}

Test(event_queue, many_graphs_are_destroyed_behind_hold)
{
    destroyed_behind_one_that_is_held(destroy_graphs);
}
