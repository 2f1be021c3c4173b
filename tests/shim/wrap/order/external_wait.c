/*
 * external_wait.c - waits for something outside the process. A real-time process watches them by an
 * event in front of each and one behind.
 */
#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

TestSuite(outside, .init = rig_open, .fini = rig_close);

static CUdeviceptr word;

static void wait_on(CUstream s)
{
    ok(cuStreamWaitValue32(s, word, 0, CU_STREAM_WAIT_VALUE_EQ));
}

/* How many events the first wait of a stream records. */
static unsigned recorded(CUstream s)
{
    unsigned before = watch_count(WATCH_cuEventRecord);
    wait_on(s);
    return watch_count(WATCH_cuEventRecord) - before;
}

Test(outside, refused_wait_leaves_later_waits_watched)
{
    void *page;
    ok(cuMemHostAlloc(&page, 4096, CU_MEMHOSTALLOC_PORTABLE));
    word = (CUdeviceptr)(uintptr_t)page;
    CUstream here = rig_stream();
    CUcontext other = rig_context_new();
    CUstream there = rig_stream();
    ok(cuCtxSetCurrent(rig_context));
    /* Not every driver accepts this. If one does, the event in front may serve the next wait,
     * too. */
    CUresult taken = cuStreamWaitValue32(there, word, 0, CU_STREAM_WAIT_VALUE_EQ);
    cr_expect_eq(recorded(here), 2);
    ok(cuCtxSetCurrent(other));
    cr_expect_geq(recorded(there), taken == CUDA_SUCCESS ? 1 : 2);
    ok(cuCtxDestroy(other));
    ok(cuCtxSetCurrent(rig_context));
    cr_expect_eq(recorded(rig_stream()), 2);
}

/* ---- a context's wait for another process's record ------------------------------------------- */

static unsigned recorded_by_context(CUevent event)
{
    unsigned before = watch_count(WATCH_cuEventRecord);
    ok(cuCtxWaitEvent(rig_context, event));
    return watch_count(WATCH_cuEventRecord) - before;
}

Test(outside, context_wait_for_shared_event_is_watched)
{
    CUevent own, shared;
    CUipcEventHandle handle;
    ok(cuEventCreate(&own, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&shared, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    ok(cuIpcGetEventHandle(&handle, shared));
    rig_stream();
    cr_expect_eq(recorded_by_context(own), 0);
    cr_expect_eq(recorded_by_context(shared), 2);
}

/* ---- a thread that waits in the driver ------------------------------------------------------- */

static CUstream slow, fast;
static _Atomic bool stands, goes_on;

static int stand(const intptr_t *argument)
{
    if ((CUstream)argument[1] != slow)
        return 0;
    atomic_store(&stands, true);
    rig_until(&goes_on);
    return 0;
}

static void wait_slow(void *user)
{
    wait_on(slow);
}

static void wait_fast(void *user)
{
    wait_on(fast);
}

Test(outside, thread_blocked_in_driver_blocks_no_other)
{
    struct rig_thread standing, passing;
    word = rig_buffer(0);
    slow = rig_stream();
    fast = rig_stream();
    watch_before(WATCH_cuEventRecord, stand);
    rig_start(&standing, wait_slow, NULL);
    rig_until(&stands);
    rig_start(&passing, wait_fast, NULL);
    rig_join(&passing);
    atomic_store(&goes_on, true);
    rig_join(&standing);
    ok(cuCtxSynchronize());
}
