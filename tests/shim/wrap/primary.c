/*
 * primary.c - the driver has ended a primary context, and the call that did it has not returned: no
 * thread may use what was the driver's.
 */
#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

TestSuite(primary, .init = rig_open, .fini = rig_close);

enum { NAPS = 50 }; /* the client's thread looks every 10 ms */

static _Atomic bool ended;
static unsigned pushes; /* of a context that has ended */

static int end(const intptr_t *argument)
{
    atomic_store(&ended, true);
    return 0;
}

/* Answers the shim, which asks whether the context is still there. */
static int ask(const intptr_t *argument)
{
    if (!atomic_load(&ended))
        return 0;
    unsigned before = watch_count(WATCH_cuCtxPushCurrent_v2);
    for (int i = 0; i < NAPS; i++)
        rig_nap();
    pushes += watch_count(WATCH_cuCtxPushCurrent_v2) - before;
    return 0;
}

static void reset(void)
{
    atomic_store(&ended, false);
    watch_before(WATCH_cuDevicePrimaryCtxReset_v2, end);
    watch_before(WATCH_cuDevicePrimaryCtxGetState, ask);
    ok(cuDevicePrimaryCtxReset(rig_device));
    watch_before(WATCH_cuDevicePrimaryCtxReset_v2, NULL);
    watch_before(WATCH_cuDevicePrimaryCtxGetState, NULL);
    cr_assert_eq(pushes, 0, "the thread that ticks was there %u times", pushes);
}

static void works(void)
{
    rig_open();
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 5, 7, s));
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 11, 1, s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 11, 1), s);
}

Test(primary, context_ended_by_reset_is_not_used)
{
    for (int i = 0; i < 3; i++) {
        works();
        reset();
    }
    works();
}

/* What was in flight then never completes: its words are looked at as long as they are there. */
Test(primary, faulted_context_ended_by_reset_is_not_used)
{
    for (int i = 0; i < 3; i++) {
        works();
        CUstream s = rig_stream();
        ok(rig_launch(0x1000, 1, 1, s));
        answers(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(s));
        reset();
    }
    works();
}
