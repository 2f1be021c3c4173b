/*
 * query.c - one thread asks while another one submits, at the worst possible moment.
 */
#include "tests/shim/wrap/rig.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

TestSuite(query, .init = rig_open, .fini = rig_close);

/* ---- a thread that asks, stopped after its look at what is buffered -------------------------- */

static _Atomic(const char *) place;
static _Atomic bool stopped, resumed, interrupts;
static _Thread_local bool ends; /* in context_get only such a thread is stopped */

__attribute__((visibility("default"))) void cutin_stop(const char *here);
void cutin_stop(const char *here)
{
    const char *wanted = atomic_load(&place);
    if (!wanted || strcmp(wanted, here) != 0 || (strcmp(here, "context_get") == 0 && !ends) ||
        atomic_exchange(&stopped, true))
        return;
    if (atomic_load(&interrupts))
        raise(SIGUSR1);
    else
        rig_until(&resumed);
}

static CUstream stream;
static CUevent event;
static struct rig_thread asking;

static void ask_stream(void *user)
{
    cuStreamQuery(stream);
}

static void ask_event(void *user)
{
    cuEventQuery(event);
}

static void stop_in(const char *where, void (*body)(void *))
{
    atomic_store(&place, where);
    rig_start(&asking, body, NULL);
    rig_until(&stopped);
}

static void resume(void)
{
    atomic_store(&resumed, true);
    rig_join(&asking);
}

/* ---- work that runs until it may end --------------------------------------------------------- */

static _Atomic bool runs, may_end;

static void CUDA_CB run(void *user)
{
    atomic_store(&runs, true);
    rig_until(&may_end);
}

static void open_idle(void)
{
    stream = rig_stream();
    ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    rig_warm(stream);
    ok(cuEventRecord(event, stream));
    ok(cuStreamSynchronize(stream));
    ok(cuStreamQuery(stream));
}

static bool buffers(void)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    ok(cutin_stream_state(stream, &state));
    return state.buffered != 0;
}

/* The stream has work that runs, so no query may say that it has none. Work may run before it is
 * known to be submitted; until then it counts as buffered. */
static void expect_busy(void)
{
    rig_until(&runs);
    while (buffers())
        rig_nap();
    CUresult while_it_runs = cuStreamQuery(stream);
    atomic_store(&may_end, true);
    cr_assert_eq(while_it_runs, CUDA_ERROR_NOT_READY, "%d", while_it_runs);
    ok(cuStreamSynchronize(stream));
    ok(cuStreamQuery(stream));
}

Test(query, work_buffered_during_stream_query_is_not_complete)
{
    open_idle();
    stop_in("stream_query", ask_stream);
    ok(cutin_stream_hold(stream));
    ok(cuLaunchHostFunc(stream, run, NULL));
    resume();
    ok(cutin_stream_release(stream));
    expect_busy();
}

Test(query, work_recorded_during_event_query_is_not_complete)
{
    open_idle();
    stop_in("event_query", ask_event);
    ok(cutin_stream_hold(stream));
    ok(cuLaunchHostFunc(stream, run, NULL));
    ok(cuEventRecord(event, stream));
    resume();
    ok(cutin_stream_release(stream));
    expect_busy();
}

/* The thread's answer is about the later record, in a stream that has nothing to do. */
Test(query, record_elsewhere_during_event_query_leaves_stream_busy)
{
    open_idle();
    CUstream idle = rig_stream();
    ok(cuLaunchHostFunc(stream, run, NULL));
    ok(cuEventRecord(event, stream));
    stop_in("event_query", ask_event);
    ok(cuEventRecord(event, idle));
    ok(cuStreamSynchronize(idle));
    resume();
    expect_busy();
}

/* ---- a signal handler that asks -------------------------------------------------------------- */

static _Atomic int answer = -1;

static void handler_asks_stream(int signal_)
{
    atomic_store(&answer, (int)cuStreamQuery(stream));
}

static void handler_asks_event(int signal_)
{
    atomic_store(&answer, (int)cuEventQuery(event));
}

/* The interrupted thread has the lock that the handler's query would take. */
static void interrupt_in(const char *where, void (*handler)(int))
{
    const struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    atomic_store(&interrupts, true);
    atomic_store(&place, where);
    alarm(100); /* a query that does not return ends the test */
}

Test(query, signal_handler_may_query_stream_of_its_thread)
{
    open_idle();
    CUdeviceptr x = rig_buffer(3);
    interrupt_in("queue_settle", handler_asks_stream);
    ok(rig_launch(x, 1, 0, stream));
    while (cuStreamQuery(stream) == CUDA_ERROR_NOT_READY)
        rig_nap();
    cr_assert(atomic_load(&stopped));
    cr_assert_eq(atomic_load(&answer), CUDA_SUCCESS);
    ok(cuStreamQuery(stream));
}

Test(query, signal_handler_may_query_legacy_stream_of_its_thread)
{
    open_idle();
    stream = NULL;
    interrupt_in("legacy_busy", handler_asks_stream);
    ok(cuStreamQuery(NULL));
    cr_assert(atomic_load(&stopped));
    cr_assert_eq(atomic_load(&answer), CUDA_ERROR_NOT_READY, "nobody can say");
    ok(cuStreamQuery(NULL));
}

Test(query, signal_handler_may_query_event_its_thread_waits_for)
{
    open_idle();
    ok(cutin_stream_hold(stream));
    ok(cuLaunchHostFunc(stream, run, NULL));
    ok(cuEventRecord(event, stream));
    interrupt_in("event_fence_get", handler_asks_event);
    CUstream other = rig_stream();
    ok(cuStreamWaitEvent(other, event, 0));
    cr_assert(atomic_load(&stopped));
    cr_assert_eq(atomic_load(&answer), CUDA_ERROR_NOT_READY);
    atomic_store(&may_end, true);
    ok(cutin_stream_release(stream));
    ok(cuStreamSynchronize(other));
    ok(cuEventQuery(event));
}

/* ---- a thread that ends, and another one that destroys its context --------------------------- */

static void use_own_stream(void *context)
{
    ok(cuCtxSetCurrent(context));
    CUdeviceptr x = rig_buffer(3);
    ok(cuMemsetD32Async(x, 5, N, CU_STREAM_PER_THREAD));
    ok(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    ends = true;
}

static void destroy(void *context)
{
    ok(cuCtxDestroy(context));
}

Test(query, context_destroy_waits_for_ending_thread)
{
    struct rig_thread destroying;
    CUcontext other = rig_context_new();
    ok(cuCtxSetCurrent(rig_context));
    atomic_store(&place, "context_get");
    rig_start(&asking, use_own_stream, other);
    rig_until(&stopped);
    rig_start(&destroying, destroy, other);
    rig_blocked(&destroying);
    atomic_store(&resumed, true);
    rig_join(&asking);
    rig_join(&destroying);
}
