/*
 * left.c - a program that makes a stream for each launch has no more in flight than other programs.
 */
#include <pthread.h>

#include "tests/shim/wrap/rig.h"
#include "tests/shim/wrap/watch.h"

TestSuite(left, .init = rig_open, .fini = rig_close);

enum { STREAMS = 100, KERNEL_US = 100, BLOCKS = 2 * 108 /* all of the device */ };

static pthread_t caller;
static _Atomic unsigned at_once;

/* Counts launches by the calling thread; buffered ones come from the dispatcher. */
static int count_at_once(const intptr_t *argument)
{
    atomic_fetch_add(&at_once, pthread_equal(pthread_self(), caller) != 0);
    return 0;
}

static void spin(CUstream s)
{
    uint64_t ns = KERNEL_US * 1000;
    void *params[] = {&ns};
    ok(cuLaunchKernel(rig_spin, BLOCKS, 1, 1, 1024, 1, 1, 0, s, params, NULL));
}

static _Atomic uint32_t *word(CUdeviceptr *at)
{
    _Atomic uint32_t *host;
    ok(cuMemHostAlloc((void **)&host, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(at, host, 0));
    atomic_store(host, 0);
    return host;
}

static void learn(CUstream s)
{
    for (int i = 0; i < 40; i++) {
        spin(s);
        ok(cuStreamSynchronize(s));
    }
}

static void launch_in_a_new_stream(CUdeviceptr at, unsigned flags)
{
    CUstream s;
    ok(cuStreamCreate(&s, flags));
    ok(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    spin(s);
    ok(cuStreamDestroy(s));
}

/* Nothing runs before the word is written, so whatever goes at once is in flight. */
static void come_and_go(unsigned flags)
{
    rig_stream_first(); /* makes a stream above */
    CUdeviceptr at;
    _Atomic uint32_t *open = word(&at);
    learn(rig_stream());
    caller = pthread_self();
    watch_before(WATCH_cuLaunchKernel, count_at_once);
    for (int i = 0; i < STREAMS; i++)
        launch_in_a_new_stream(at, flags);
    unsigned in_flight = at_once;
    atomic_store(open, 1);
    ok(cuCtxSynchronize());
    cr_assert_leq(in_flight, 200 / KERNEL_US + 1, "%u were in flight", in_flight);
    watch_before(WATCH_cuLaunchKernel, NULL);
    cr_assert_eq(watch_count(WATCH_cuLaunchKernel), 40 + STREAMS);
}

Test(left, one_launch_streams_stay_within_cap)
{
    come_and_go(CU_STREAM_NON_BLOCKING);
}

Test(left, blocking_one_launch_streams_stay_within_cap)
{
    come_and_go(CU_STREAM_DEFAULT);
}

#ifdef __SANITIZE_THREAD__ /* it takes minutes: each looks at all */
enum { MANY = 300 };
#else
enum { MANY = 3000 };
#endif

Test(left, many_one_launch_streams_come_and_go)
{
    rig_stream_first();
    for (int i = 0; i < MANY; i++) {
        CUstream s;
        ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        spin(s);
        ok(cuStreamDestroy(s));
    }
    ok(cuCtxSynchronize());
    rig_warm(NULL);
}
