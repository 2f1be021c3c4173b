/*
 * lifetime.c - contexts that end while work is buffered, and threads that use several contexts.
 */
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/shim/wrap/rig.h"

TestSuite(lifetime, .init = rig_open, .fini = rig_close);

static void destroy_context(void *user)
{
    ok(cuCtxDestroy(user));
}

Test(lifetime, context_destroy_waits_for_buffered_work)
{
    static uint32_t *host;
    ok(cuMemHostAlloc((void **)&host, 4 * N, CU_MEMHOSTALLOC_PORTABLE));
    CUcontext ctx = rig_context_new();
    CUstream s = rig_stream();
    CUdeviceptr x;
    struct rig_thread t;
    ok(cuMemAlloc(&x, 4 * N));
    ok(cuMemsetD32Async(x, 0, N, s));
    ok(cuStreamSynchronize(s));
    ok(cutin_stream_hold(s));
    ok(cuMemsetD32Async(x, 7, N, s));
    ok(cuMemcpyDtoHAsync(host, x, 4 * N, s));
    rig_start(&t, destroy_context, ctx);
    rig_blocked(&t);
    ok(cutin_stream_release(s));
    rig_join(&t);
    cr_assert_eq(host[N - 1], 7);
    ok(cuCtxSetCurrent(rig_context));
    rig_warm(NULL);
}

Test(lifetime, contexts_come_and_go)
{
    for (int i = 0; i < 20; i++) {
        CUcontext ctx = rig_context_new();
        CUdeviceptr x = rig_buffer((uint32_t)i);
        CUstream s = rig_stream();
        ok(cuMemsetD32Async(x, 5, N, s));
        ok(cuMemsetD32Async(x, 6, N, CU_STREAM_PER_THREAD));
        rig_expect(x, 6, NULL);
        ok(cuCtxDestroy(ctx));
    }
    ok(cuCtxSetCurrent(rig_context));
    rig_warm(NULL);
}

/* The processor time in ns for the end of a context with so many events. */
static uint64_t end_costs(int events)
{
    struct timespec since, now;
    CUcontext ctx = rig_context_new();
    CUstream s = rig_stream();
    CUevent e;
    for (int i = 0; i < events; i++) {
        ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
        ok(cuEventRecord(e, s));
    }
    ok(cuStreamSynchronize(s));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &since);
    ok(cuCtxDestroy(ctx));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)(now.tv_sec - since.tv_sec) * 1000000000u + (uint64_t)now.tv_nsec -
           (uint64_t)since.tv_nsec;
}

/* Ten times as many events take some ten times as long, not a hundred times. All fit a processor's
 * own cache, so other programs there do not slow down only the many. */
Test(lifetime, context_destroy_time_is_linear_in_events)
{
    enum { FEW = 1000, MANY = 10000 };
    uint64_t few = end_costs(FEW), many = end_costs(MANY);
    for (int i = 0; i < 10; i++) { /* takes the least: other programs run in between */
        uint64_t a = end_costs(FEW), b = end_costs(MANY);
        few = a < few ? a : few;
        many = b < many ? b : many;
    }
    cr_expect_lt(many, 30 * few, "%d: %lu ns, %d: %lu ns", FEW, (unsigned long)few, MANY,
                 (unsigned long)many);
}

Test(lifetime, event_wait_crosses_contexts)
{
    CUstream a = rig_stream();
    CUevent e;
    rig_warm(a);
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(a));
    ok(cuMemsetD32Async(x, 8, N, a));
    ok(cuEventRecord(e, a));
    CUcontext ctx = rig_context_new();
    CUstream b = rig_stream();
    CUdeviceptr y = rig_buffer(1);
    ok(cuStreamWaitEvent(b, e, 0));
    ok(cuMemcpyDtoDAsync(y, x, 4 * N, b));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(b));
    ok(cutin_stream_release(a));
    rig_expect(y, 8, b);
    ok(cuCtxDestroy(ctx));
    ok(cuCtxSetCurrent(rig_context));
}

Test(lifetime, primary_context_works_after_reset)
{
    rig_warm(NULL);
    ok(cuDevicePrimaryCtxReset(rig_device));
    ok(cuDevicePrimaryCtxRetain(&rig_context, rig_device));
    ok(cuCtxSetCurrent(rig_context));
    CUdeviceptr x = rig_buffer(4);
    ok(cuMemsetD32Async(x, 5, N, NULL));
    rig_expect(x, 5, NULL);
}

Test(lifetime, calls_in_forked_child_get_the_drivers_answer)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(cuMemsetD32Async(x, 7, N, s));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
    pid_t child = fork();
    if (child == 0) { /* as the driver says there: the parent's work is not the child's */
        CUstream other;
        CUresult created = cuStreamCreate(&other, 0), asked = cuStreamQuery(s);
        _exit(created == CUDA_ERROR_NOT_INITIALIZED && asked == created ? 7 : 8);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%x", (unsigned)status);
    ok(cutin_stream_release(s));
    rig_expect(x, 7, s);
}

/* Sandboxes and crash handlers make such children: no fork handler runs there. What the parent has
 * buffered is not the child's, so the child gets the driver's answer. */
Test(lifetime, child_without_fork_handlers_gets_driver_answer)
{
    CUstream s = rig_stream();
    int status;
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(cuMemsetD32Async(x, 7, N, s));
    cr_assert_eq(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        _exit(cuStreamQuery(s) == CUDA_SUCCESS ? 7 : 8);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 7, "%x", (unsigned)status);
    ok(cutin_stream_release(s));
    rig_expect(x, 7, s);
}
