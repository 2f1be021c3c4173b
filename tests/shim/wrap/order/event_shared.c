/*
 * event_shared.c - an event that another process records, too: what the driver says of it may not
 * be about this process's record.
 */
#include "tests/shim/wrap/rig.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KIND = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING };

/* Records the event that it is sent, sees that complete, says so, and waits for the end. */
static int record_theirs(int fd)
{
    CUipcEventHandle handle;
    CUcontext ctx;
    CUevent e;
    CUstream s;
    if (read(fd, &handle, sizeof(handle)) != (ssize_t)sizeof(handle))
        return 1;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&ctx, 0) || cuCtxSetCurrent(ctx))
        return 2;
    if (cuIpcOpenEventHandle(&e, handle) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING))
        return 3;
    if (cuEventRecord(e, s) || cuEventSynchronize(e) || write(fd, "", 1) != 1)
        return 4;
    return read(fd, &handle, 1) == 1 ? 0 : 5;
}

static int peer;
static pid_t peer_pid;

/* Forks the other process before there is a driver. */
static void open_both(void)
{
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    peer_pid = fork();
    if (peer_pid == 0) {
        close(fds[0]);
        rig_join_device(getppid());
        _exit(record_theirs(fds[1]));
    }
    peer = fds[0];
    rig_open();
}

TestSuite(event_shared, .init = open_both, .fini = rig_close);

static void send_to_peer(CUevent e)
{
    CUipcEventHandle handle;
    ok(cuIpcGetEventHandle(&handle, e));
    cr_assert_eq(write(peer, &handle, sizeof(handle)), (ssize_t)sizeof(handle));
}

static void peer_recorded(void)
{
    char c;
    cr_assert_eq(read(peer, &c, 1), 1);
}

static void peer_ends(void)
{
    int status;
    cr_assert_eq(write(peer, "", 1), 1);
    cr_assert_eq(waitpid(peer_pid, &status, 0), peer_pid);
    cr_expect_eq(status, 0);
}

/* A call that asks about another process's record counts as a wait for it, and after 20 ms such a
 * wait holds nothing. If the host is that late, the hold is not checked. */
static bool holds_since(uint64_t asked_ms, CUstream below)
{
    return rig_held(below) || rig_now_ms() - asked_ms >= 20;
}

static CUstream stream_above(void)
{
    int least, greatest;
    CUstream s;
    ok(cuCtxGetStreamPriorityRange(&least, &greatest));
    ok(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    return s;
}

/* The driver's answer is about the other process's record. This process's stream still runs, so
 * what is below it stays held. */
Test(event_shared, foreign_record_completes_no_own_stream)
{
    CUstream above = stream_above(), below = rig_stream();
    uint32_t *word, a = 1, b = 0, n = N, rounds = 1;
    CUdeviceptr at, x = rig_buffer(1);
    CUfunction await;
    ok(cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP));
    ok(cuMemHostGetDevicePointer(&at, word, 0));
    *word = 0;
    /* It is a kernel, not a wait of the stream, because a wait holds nothing after 20 ms. */
    void *params[] = {&x, &a, &b, &n, &at, &rounds};
    ok(cuModuleGetFunction(&await, rig_module, "await_mix"));
    ok(cuLaunchKernel(await, N / 256, 1, 1, 256, 1, 1, 0, above, params, NULL));
    CUevent e;
    ok(cuEventCreate(&e, KIND));
    ok(cuEventRecord(e, above));
    uint64_t asked_ms = rig_now_ms();
    answers(CUDA_ERROR_NOT_READY, cuEventQuery(e));
    cr_assert(holds_since(asked_ms, below));
    send_to_peer(e);
    peer_recorded();
    ok(cuEventQuery(e));
    ok(cuEventSynchronize(e));
    answers(CUDA_ERROR_NOT_READY, cuStreamQuery(above));
    cr_expect(holds_since(asked_ms, below));
    peer_ends();
    __atomic_store_n((uint32_t *)word, 1, __ATOMIC_RELEASE);
    ok(cuStreamSynchronize(above));
}
