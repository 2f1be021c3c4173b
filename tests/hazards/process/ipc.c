/*
 * ipc.c - memory and events of another process. What one process tells the other was done by calls
 * that had returned. Whether a library deferred them must not show.
 */
#include "tests/hazards/hazard.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAZY = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS };
enum { KIND = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING };

static CUstream a;
static CUdeviceptr x;
static int other; /* socket to the other process */
static pid_t child;

static void tell(const void *what, size_t bytes)
{
    if (write(other, what, bytes) != (ssize_t)bytes)
        give_up("the other process does not listen");
}

static void hear(void *what, size_t bytes)
{
    if (recv(other, what, bytes, MSG_WAITALL) != (ssize_t)bytes)
        give_up("the other process is gone");
}

static void nod(void)
{
    tell("", 1);
}

static void nodded(void)
{
    char c;
    hear(&c, 1);
}

/* The fork comes before the first CUDA call, because both use the GPU. They share one stdout, so
 * only one may print at a time. */
static void two_processes(void (*theirs)(void))
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        give_up("socketpair");
    fflush(stdout);
    child = fork();
    other = fds[child == 0];
    close(fds[child != 0]);
    gpu_open();
    a = stream_new(CU_STREAM_NON_BLOCKING);
    warm(a);
    if (child == 0) {
        theirs();
        fflush(stdout);
        nod();
        exit(0);
    }
    x = buffer_new(3);
}

static void they_end(void)
{
    int status = -1;
    nodded();
    waitpid(child, &status, 0);
    printf("the other process ended %d\n", status);
}

static void memory_send(void)
{
    CUipcMemHandle handle;
    MUST(cuIpcGetMemHandle(&handle, x));
    tell(&handle, sizeof(handle));
}

static void memory_open(void)
{
    CUipcMemHandle handle;
    hear(&handle, sizeof(handle));
    MUST(cuIpcOpenMemHandle(&x, handle, LAZY));
}

static CUevent event_send(void)
{
    CUipcEventHandle handle;
    CUevent e;
    MUST(cuEventCreate(&e, KIND));
    MUST(cuIpcGetEventHandle(&handle, e));
    tell(&handle, sizeof(handle));
    return e;
}

static CUevent event_open(void)
{
    CUipcEventHandle handle;
    CUevent e;
    hear(&handle, sizeof(handle));
    MUST(cuIpcOpenEventHandle(&e, handle));
    return e;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void close_behind_launches(void)
{
    memory_open();
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(launch_mix(x, 2, 1, a));
    buffered(a);
    SAY(cuIpcCloseMemHandle(x));
    release(a);
    SAY(cuStreamSynchronize(a));
}

HAZARD_RAW(imported_memory_is_closed_behind_its_launches)
{
    two_processes(close_behind_launches);
    memory_send();
    they_end();
    show("x", x);
}

static void write_and_wait(void)
{
    memory_open();
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    buffered(a);
    SAY(cuStreamSynchronize(a));
    release(a);
}

HAZARD_RAW(imported_memory_is_written_when_the_synchronisation_returns)
{
    two_processes(write_and_wait);
    memory_send();
    they_end();
    SAY(launch_mix(x, 3, 1, a));
    SAY(cuStreamSynchronize(a));
    show("x", x);
}

static void copy_pageable(void)
{
    static uint32_t host[N];
    memory_open();
    for (int i = 0; i < N; i++)
        host[i] = (uint32_t)i;
    hold(a);
    SAY(launch_mix(x, 5, 7, a));
    SAY(cuMemcpyHtoDAsync(x, host, BYTES / 2, a));
    memset(host, 0xee, sizeof(host));
    SAY(cuMemcpyDtoHAsync(host, x, BYTES, a));
    release(a);
    SAY(cuStreamSynchronize(a));
    show_host("theirs", host);
}

HAZARD_RAW(imported_memory_is_copied_in_order)
{
    two_processes(copy_pageable);
    memory_send();
    they_end();
    show("x", x);
}

static void misuse(void)
{
    CUipcMemHandle handle;
    CUdeviceptr again;
    memory_open();
    SAY(cuMemFree(x));
    SAY(cuIpcGetMemHandle(&handle, x));
    memset(&handle, 0, sizeof(handle));
    SAY(cuIpcOpenMemHandle(&again, handle, LAZY));
    SAY(cuIpcCloseMemHandle(x));
    SAY(cuIpcCloseMemHandle(x));
}

HAZARD_RAW(misused_imports_get_the_drivers_answers)
{
    two_processes(misuse);
    memory_send();
    they_end();
    CUipcMemHandle handle;
    MUST(cuIpcGetMemHandle(&handle, x));
    SAY(cuIpcOpenMemHandle(&x, handle, LAZY));
}

/* ---- events -------------------------------------------------------------------------------- */

static void record_held(void)
{
    memory_open();
    CUevent e = event_open();
    hold(a);
    MUST(launch_slow(x, 5, 7, 3000, a));
    MUST(cuEventRecord(e, a)); /* visible to the other process from here on */
    nod();
    release(a);
    MUST(cuEventSynchronize(e));
    MUST(cuEventDestroy(e));
}

HAZARD_RAW(opened_event_is_recorded_when_the_call_returns)
{
    uint32_t *host;
    two_processes(record_held);
    host = pinned_new(0);
    memory_send();
    CUevent e = event_send();
    nodded();
    MUST(cuStreamWaitEvent(a, e, 0));
    MUST(cuMemcpyDtoHAsync(host, x, BYTES, a));
    MUST(cuStreamSynchronize(a));
    MUST(cuEventQuery(e));
    they_end();
    show_host("ours", host);
}

/* Each process has an event, and its next work follows the other's latest. */
enum { TURNS = 40 };

static void take_turns(CUevent mine, CUevent theirs, bool first)
{
    hold_ms = 2;
    for (uint32_t i = 0; i < TURNS; i++) {
        if (!first || i > 0) {
            nodded();
            MUST(cuStreamWaitEvent(a, theirs, 0));
        }
        if (i % 5 == 0)
            hold(a);
        MUST(launch_slow(x, 3, i * 2 + first, 50, a));
        MUST(launch_mix(x, 5, i, a));
        MUST(cuEventRecord(mine, a));
        release(a);
        if (first || i + 1 < TURNS)
            nod();
    }
    MUST(cuStreamSynchronize(a));
}

static void turns_of_theirs(void)
{
    memory_open();
    CUevent theirs = event_open(), mine = event_send();
    take_turns(mine, theirs, false);
}

HAZARD_RAW(two_processes_take_turns_by_events)
{
    two_processes(turns_of_theirs);
    memory_send();
    CUevent mine = event_send(), theirs = event_open();
    take_turns(mine, theirs, true);
    they_end();
    show("x", x);
}

/* Both use one event: a wait refers to the latest record, of either process. */
static void turns_with_theirs(void)
{
    memory_open();
    CUevent e = event_open();
    take_turns(e, e, false);
}

HAZARD_RAW(two_processes_take_turns_by_one_event)
{
    two_processes(turns_with_theirs);
    memory_send();
    CUevent e = event_send();
    take_turns(e, e, true);
    they_end();
    show("x", x);
}

/* The other stream goes on while one waits for what is not recorded yet. */
static void record_late(void)
{
    memory_open();
    CUevent e = event_open();
    MUST(launch_slow(x, 5, 7, 20000, a));
    MUST(cuEventRecord(e, a));
    nod();
    MUST(cuStreamSynchronize(a));
}

HAZARD_RAW(stream_passes_one_that_waits_for_another_process)
{
    two_processes(record_late);
    CUstream b = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr y = buffer_new(1);
    memory_send();
    CUevent e = event_send();
    nodded();
    hold(b);
    MUST(launch_mix(y, 2, 1, b));
    MUST(cuStreamWaitEvent(a, e, 0));
    MUST(launch_mix(x, 3, 1, a));
    MUST(launch_mix(y, 2, 1, b));
    release(b);
    MUST(cuStreamSynchronize(b));
    MUST(cuStreamSynchronize(a));
    they_end();
    show("x", x);
    show("y", y);
}
