/*
 * events.c - which record a wait, a query or a synchronisation refers to, across held streams,
 * contexts' default streams and processes.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static CUstream a, b;
static CUdeviceptr x, y;

static void two_streams(void)
{
    a = stream_new(CU_STREAM_NON_BLOCKING);
    b = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    y = buffer_new(1);
    warm(a);
    warm(b);
}

HAZARD(recording_again_does_not_move_earlier_waits)
{
    two_streams();
    CUevent e = event_new();
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(e, a));
    SAY(cuStreamWaitEvent(b, e, 0));
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, b));
    SAY(cuEventRecord(e, b)); /* behind the copy */
    SAY(cuStreamWaitEvent(a, e, 0));
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(e, a));
    SAY(cuEventSynchronize(e));
    release(a);
    show("x", x);
    show("y", y);
}

HAZARD(recording_again_waits_for_an_earlier_wait_that_is_buffered)
{
    CUstream c = stream_new(CU_STREAM_NON_BLOCKING);
    two_streams();
    warm(c);
    CUevent e = event_new();
    hang_watch("a wait refers to a later record that its stream cannot wait for");
    hold_for(4000);
    hold(b);
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(e, a));
    SAY(cuStreamWaitEvent(b, e, 0));
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, b));
    release(a);
    SAY(cuStreamSynchronize(a));
    SAY(cuLaunchHostFunc(c, until_told, NULL));
    SAY(cuEventRecord(e, c));
    time_to_go();
    buffered(b);
    release(b);
    SAY(cuStreamSynchronize(b));
    told = true;
    SAY(cuStreamSynchronize(c));
    show("y", y);
}

HAZARD(cross_stream_wait_blocks_no_thread_and_no_other_stream)
{
    CUstream c = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr z = buffer_new(2);
    two_streams();
    warm(c);
    CUevent e = event_new();
    hold_for(2000);
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(e, a));
    SAY(cuStreamWaitEvent(b, e, 0));
    SAY(launch_mix(y, 5, 7, b));
    buffered(b);
    SAY(launch_mix(z, 5, 7, c)); /* waits for no other stream */
    SAY(cuStreamSynchronize(c));
    show("z", z);
    release(a);
    SAY(cuCtxSynchronize());
    show("y", y);
}

/* Each stream waits for the other in turn: no cycle natively, and so none with holds. */
HAZARD(streams_may_wait_for_each_other_in_turn)
{
    two_streams();
    hold_ms = 5;
    for (uint32_t i = 0; i < 30; i++) {
        CUstream from = i % 2 ? a : b, to = i % 2 ? b : a;
        CUevent e = event_new();
        if (i % 10 == 0)
            hold(to);
        MUST(launch_mix(x, 3, i, from));
        MUST(cuEventRecord(e, from));
        MUST(cuStreamWaitEvent(to, e, 0));
        MUST(cuEventDestroy(e));
        if (i % 10 == 5)
            release(i % 2 ? a : b), release(i % 2 ? b : a);
    }
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD(queries_return_not_ready_while_the_record_is_buffered)
{
    two_streams();
    CUevent start, end;
    float ms = -1;
    MUST(cuEventCreate(&start, CU_EVENT_DEFAULT));
    MUST(cuEventCreate(&end, CU_EVENT_DEFAULT));
    SAY(cuLaunchHostFunc(a, until_told, NULL)); /* so that it is not ready natively either */
    hold_for(100);
    hold(a);
    SAY(cuEventRecord(start, a));
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(end, a));
    SAY(cuEventQuery(start));
    SAY(cuEventQuery(end));
    SAY(cuEventElapsedTime(&ms, start, end));
    SAY(cuStreamQuery(a));
    atomic_store(&told, true);
    release(a);
    SAY(cuEventSynchronize(end));
    SAY(cuEventQuery(start));
    SAY(cuEventElapsedTime(&ms, start, end));
    printf("time goes forward: %d\n", ms >= 0 && ms < 5000);
    SAY(cuEventElapsedTime(&ms, end, end));
    show("x", x);
}

HAZARD(event_whose_only_record_was_refused_is_complete)
{
    two_streams();
    CUevent e = event_new(), timed;
    float ms;
    MUST(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    hold_ms = 10;
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventQuery(e));
    SAY(cuEventSynchronize(e));
    SAY(cuStreamWaitEvent(a, e, 0));
    SAY(cuEventElapsedTime(&ms, e, timed));
    SAY(cuEventRecordWithFlags(e, a, 99));
    SAY(cuStreamWaitEvent(a, e, 99));
    SAY(cuEventQuery(e));
    SAY(cuEventDestroy(e));
    SAY(cuEventDestroy(timed));
    release(a);
    SAY(cuStreamSynchronize(a));
    show("x", x);
}

HAZARD(event_may_be_destroyed_with_record_and_waits_buffered)
{
    two_streams();
    CUevent e = event_new();
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(e, a));
    SAY(cuStreamWaitEvent(b, e, 0));
    SAY(cuEventDestroy(e));
    for (int i = 0; i < 20; i++) /* new handles that may equal the old one */
        MUST(cuEventRecord(event_new(), b));
    SAY(cuMemcpyDtoDAsync(y, x, BYTES, b));
    release(a);
    SAY(cuStreamSynchronize(b));
    show("y", y);
}

static void record_and_launch(void *user)
{
    for (uint32_t i = 0; i < 100; i++) {
        MUST(launch_mix(x, 3, i, a));
        MUST(cuEventRecord(user, a));
    }
}

HAZARD(one_thread_may_wait_for_what_another_records)
{
    two_streams();
    CUevent e = event_new();
    struct thread *t = thread_start(record_and_launch, e);
    hold_ms = 4;
    for (uint32_t i = 0; i < 60; i++) {
        if (i % 20 == 0)
            hold(a);
        MUST(cuStreamWaitEvent(b, e, 0));
        MUST(launch_mix(y, 3, i, b));
        MUST(cuEventSynchronize(e));
        if (i % 20 == 19)
            release(a);
    }
    thread_join(t);
    SAY(cuCtxSynchronize());
    show("x", x);
    show("y", y);
}

/* ---- between processes --------------------------------------------------------------------- */

struct share {
    CUipcEventHandle event;
    CUipcMemHandle memory;
};

static int peer(int in, int out)
{
    struct share share;
    CUdeviceptr theirs = 0;
    CUevent e = NULL;
    if (read(in, &share, sizeof(share)) != sizeof(share))
        return 9;
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    uint32_t *host = pinned_new(0);
    if (cuIpcOpenEventHandle(&e, share.event) != CUDA_SUCCESS)
        return 7;
    if (cuIpcOpenMemHandle(&theirs, share.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) !=
        CUDA_SUCCESS)
        return 8;
    MUST(cuStreamWaitEvent(s, e, 0));
    MUST(cuMemcpyDtoHAsync(host, theirs, BYTES, s));
    MUST(cuStreamSynchronize(s));
    if (write(out, host, BYTES) != BYTES)
        return 9;
    return 0;
}

/* The peer's wait sees the record, although it was called while the stream was held. */
HAZARD_RAW(interprocess_event_is_recorded_before_the_peer_is_told)
{
    static uint32_t host[N];
    int to[2], from[2], status = 0;
    struct share share;
    CUevent e;
    if (pipe(to) || pipe(from))
        give_up("pipe");
    fflush(stdout);
    pid_t pid = fork(); /* before the first CUDA call: both processes use the GPU */
    if (pid == 0) {
        close(to[1]);
        _exit(peer(to[0], from[1]));
    }
    gpu_open();
    two_streams();
    SAY(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    hold(a);
    SAY(launch_slow(x, 5, 7, 3000, a));
    SAY(cuEventRecord(e, a));
    CUresult shared = SAY(cuIpcGetEventHandle(&share.event, e));
    if (shared == CUDA_SUCCESS)
        shared = SAY(cuIpcGetMemHandle(&share.memory, x));
    if (shared == CUDA_SUCCESS && write(to[1], &share, sizeof(share)) == sizeof(share) &&
        read(from[0], host, BYTES) == BYTES)
        show_host("peer", host);
    close(to[0]);
    close(to[1]);
    release(a);
    waitpid(pid, &status, 0);
    printf("peer ended %d\n", shared == CUDA_SUCCESS ? status : 0);
}

/* It is refused whatever is buffered: such events have no time, and never will. */
HAZARD(elapsed_time_of_untimed_events_is_refused_at_once)
{
    CUevent timed, untimed = event_new(), never;
    float ms = 77;
    two_streams();
    MUST(cuEventCreate(&timed, CU_EVENT_DEFAULT));
    MUST(cuEventCreate(&never, CU_EVENT_DEFAULT));
    MUST(cuEventRecord(timed, a));
    MUST(cuStreamSynchronize(a));
    hold_for(20000);
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuEventRecord(timed, a));
    SAY(cuEventRecord(untimed, a));
    SAY(cuEventElapsedTime(&ms, timed, untimed));
    SAY(cuEventElapsedTime(&ms, untimed, timed));
    SAY(cuEventElapsedTime(&ms, timed, never));
    SAY(cuEventElapsedTime(&ms, never, timed));
    SAY(cuEventElapsedTime(&ms, timed, NULL));
    SAY(cuEventElapsedTime(&ms, NULL, timed));
    SAY(cuEventElapsedTime(NULL, timed, timed));
    still_held(a);
    release(a);
    SAY(cuStreamSynchronize(a));
    SAY(cuEventElapsedTime(&ms, timed, timed));
    printf("%g\n", (double)ms);
}

static CUresult launch_recording(CUlaunchAttribute how, CUdeviceptr at, CUstream s)
{
    uint32_t mul = 5, add = 7, n = N;
    void *params[] = {&at, &mul, &add, &n};
    CUlaunchConfig config = {.gridDimX = N / 256,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s,
                             .attrs = &how,
                             .numAttrs = 1};
    return cuLaunchKernelEx(&config, mix, params, NULL);
}

/* An earlier record of the event, in another stream, is buffered. */
static void recorded_by_a_launch(CUlaunchAttribute how, CUevent e)
{
    CUstream first = stream_new(CU_STREAM_NON_BLOCKING), s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr mine = buffer_new(3), its = buffer_new(3);
    warm(first);
    warm(s);
    hold(first);
    SAY(launch_mix(its, 5, 7, first));
    SAY(cuEventRecord(e, first));
    SAY(launch_recording(how, mine, s));
    SAY(cuStreamSynchronize(s));
    SAY(cuEventQuery(e));
    SAY(cuEventSynchronize(e));
    release(first);
    SAY(cuStreamSynchronize(first));
    show("mine", mine);
    show("its", its);
}

HAZARD(programmatic_event_is_recorded_by_its_launch)
{
    CUevent e = event_new();
    recorded_by_a_launch((CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
                                             .value.programmaticEvent = {.event = e}},
                         e);
}

#if CUDA_VERSION >= 12030
HAZARD(launch_completion_event_is_recorded_by_its_launch)
{
    CUevent e = event_new();
    recorded_by_a_launch((CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
                                             .value.launchCompletionEvent = {.event = e}},
                         e);
}
#endif
