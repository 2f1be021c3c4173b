/*
 * ipc.c - memory and events that pass between processes by their handles.
 */
#include "sim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* This process makes no CUDA call before the forks. */
TestSuite(ipc, .init = sim_name, .fini = sim_close);

enum { N = 256, BYTES = N * 4, MB = 1 << 20, LAZY = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS };

/* Newer headers declare another version. */
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);

/* ---- two processes that talk ----------------------------------------------------------------- */

struct peer {
    pid_t pid;
    int fd;
};

static void tell(int fd, const void *what, size_t bytes)
{
    cr_assert_eq(write(fd, what, bytes), (ssize_t)bytes);
}

static void hear(int fd, void *what, size_t bytes)
{
    cr_assert_eq(recv(fd, what, bytes, MSG_WAITALL), (ssize_t)bytes, "the other one has gone");
}

static void nod(int fd)
{
    tell(fd, "", 1);
}

static void nodded(int fd)
{
    char c;
    hear(fd, &c, 1);
}

static struct peer peer_start(void (*act)(int fd))
{
    int fds[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    struct peer p = {.pid = fork(), .fd = fds[0]};
    cr_assert_geq(p.pid, 0);
    if (p.pid == 0) {
        close(fds[0]);
        sim_join();
        act(fds[1]);
        exit(0);
    }
    close(fds[1]);
    return p;
}

static void peer_finish(struct peer p)
{
    int status;
    while (waitpid(p.pid, &status, 0) < 0)
        cr_assert_eq(errno, EINTR);
    cr_assert_eq(status, 0, "the other one ended %x", (unsigned int)status);
    close(p.fd);
}

static CUstream stream_new(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUdeviceptr buffer_new(uint32_t value)
{
    CUdeviceptr x;
    CHECK(cuMemAlloc(&x, BYTES));
    CHECK(cuMemsetD32(x, value, N));
    CHECK(cuCtxSynchronize());
    return x;
}

static void expect_words(CUdeviceptr x, uint32_t value)
{
    uint32_t v[N];
    CHECK(cuMemcpyDtoH(v, x, BYTES));
    for (int i = 0; i < N; i++)
        cr_assert_eq(v[i], value, "word %d is %u, not %u", i, v[i], value);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_send(int fd, CUdeviceptr x)
{
    CUipcMemHandle handle;
    CHECK(cuIpcGetMemHandle(&handle, x));
    tell(fd, &handle, sizeof(handle));
}

static CUresult memory_hear(int fd, CUdeviceptr *x)
{
    CUipcMemHandle handle;
    hear(fd, &handle, sizeof(handle));
    return cuIpcOpenMemHandle(x, handle, LAZY);
}

static void mix_theirs(int fd)
{
    CUdeviceptr x, base;
    size_t bytes;
    CHECK(memory_hear(fd, &x));
    CHECK(cuMemGetAddressRange(&base, &bytes, x + 40));
    cr_assert_eq(base, x);
    cr_assert_eq(bytes, BYTES);
    expect_words(x, 3);
    launch_mix(NULL, x, 5, 7, N);
    CHECK(cuCtxSynchronize());
    CHECK(cuIpcCloseMemHandle(x));
    nod(fd);
}

/* The handle may name any address in the allocation, which begins in the middle of a page. */
Test(ipc, opened_handle_maps_the_exporters_memory)
{
    struct peer p = peer_start(mix_theirs);
    sim_join();
    CUdeviceptr before = buffer_new(1), x = buffer_new(3), after = buffer_new(2);
    cr_assert_neq(x % 4096, 0);
    memory_send(p.fd, x + 100);
    nodded(p.fd);
    expect_words(x, 22);
    expect_words(before, 1);
    expect_words(after, 2);
    peer_finish(p);
}

static void open_twice(int fd)
{
    CUipcMemHandle handle;
    CUdeviceptr x, again;
    hear(fd, &handle, sizeof(handle));
    CHECK(cuIpcOpenMemHandle(&x, handle, LAZY));
    CHECK(cuIpcOpenMemHandle(&again, handle, LAZY));
    cr_assert_eq(x, again);
    CHECK(cuIpcCloseMemHandle(x));
    expect_words(x, 3);
    CHECK(cuIpcCloseMemHandle(x));
    EXPECT(cuIpcCloseMemHandle(x), CUDA_ERROR_INVALID_VALUE);
    launch_mix(NULL, x, 5, 7, N);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(ipc, memory_opened_twice_stays_until_closed_twice)
{
    struct peer p = peer_start(open_twice);
    sim_join();
    CUdeviceptr x = buffer_new(3);
    memory_send(p.fd, x);
    peer_finish(p);
    expect_words(x, 3);
}

static void misuse_theirs(int fd)
{
    CUipcMemHandle handle, wrong;
    CUdeviceptr x;
    hear(fd, &handle, sizeof(handle));
    wrong = handle;
    wrong.reserved[0] = (char)(wrong.reserved[0] + 1);
    EXPECT(cuIpcOpenMemHandle(&x, wrong, LAZY), CUDA_ERROR_INVALID_HANDLE);
    memset(&wrong, 0, sizeof(wrong));
    EXPECT(cuIpcOpenMemHandle(&x, wrong, LAZY), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuIpcOpenMemHandle(&x, handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcOpenMemHandle(NULL, handle, LAZY), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcOpenMemHandle(&x, handle, LAZY));
    EXPECT(cuMemFree(x), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcGetMemHandle(&wrong, x), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcCloseMemHandle(x + 4), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcCloseMemHandle(x));
}

Test(ipc, invalid_memory_handles_are_refused)
{
    struct peer p = peer_start(misuse_theirs);
    sim_join();
    CUdeviceptr x = buffer_new(3), managed, opened;
    CUipcMemHandle handle;
    void *host;
    memory_send(p.fd, x);
    peer_finish(p);
    CHECK(cuMemAllocHost(&host, 64));
    CHECK(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    EXPECT(cuIpcGetMemHandle(NULL, x), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcGetMemHandle(&handle, managed), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcGetMemHandle(&handle, (CUdeviceptr)(uintptr_t)host), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuIpcCloseMemHandle(x), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcGetMemHandle(&handle, x));
    EXPECT(cuIpcOpenMemHandle(&opened, handle, LAZY), CUDA_ERROR_INVALID_CONTEXT); /* one's own */
}

static void refused_elsewhere(int fd)
{
    CUdeviceptr x;
    EXPECT(memory_hear(fd, &x), CUDA_ERROR_INVALID_HANDLE);
}

Test(ipc, memory_handle_of_another_simulated_gpu_is_refused)
{
    setenv("SIMGPU_ID", "elsewhere", 1);
    struct peer p = peer_start(refused_elsewhere);
    setenv("SIMGPU_ID", sim.id, 1);
    sim_join();
    memory_send(p.fd, buffer_new(3));
    peer_finish(p);
}

static void export_and_die(int fd)
{
    memory_send(fd, buffer_new(3));
    nodded(fd);
    raise(SIGKILL);
}

Test(ipc, memory_of_killed_exporter_lives_until_closed)
{
    CUipcMemHandle handle;
    CUdeviceptr x, again;
    struct peer p = peer_start(export_and_die);
    sim_join();
    hear(p.fd, &handle, sizeof(handle));
    CHECK(cuIpcOpenMemHandle(&x, handle, LAZY));
    nod(p.fd);
    waitpid(p.pid, NULL, 0);
    launch_mix(NULL, x, 5, 7, N);
    expect_words(x, 22);
    CHECK(cuIpcCloseMemHandle(x));
    EXPECT(cuIpcOpenMemHandle(&again, handle, LAZY), CUDA_ERROR_INVALID_HANDLE);
}

/* A context's imports end with it, as its allocations do. */
static void end_context(int fd)
{
    CUipcMemHandle handle;
    CUcontext other;
    CUdeviceptr x, y;
    hear(fd, &handle, sizeof(handle));
    CHECK(cuIpcOpenMemHandle(&x, handle, LAZY));
    CHECK(cuCtxCreate_v2(&other, 0, 0));
    CHECK(cuIpcOpenMemHandle(&y, handle, LAZY));
    cr_assert_neq(x, y, "each context has it at an address of its own");
    CHECK(cuCtxDestroy(other));
    CHECK(cuCtxSetCurrent(sim.ctx));
    EXPECT(cuIpcCloseMemHandle(y), CUDA_ERROR_INVALID_VALUE);
    expect_words(x, 3);
}

Test(ipc, context_destroy_closes_its_imports)
{
    struct peer p = peer_start(end_context);
    sim_join();
    memory_send(p.fd, buffer_new(3));
    peer_finish(p);
}

/* ---- events ---------------------------------------------------------------------------------- */

struct shared {
    CUipcEventHandle event;
    CUipcMemHandle memory;
};

enum { KIND = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING };

/* What one process has and shares with the other. */
static struct {
    CUstream s;
    CUdeviceptr x;
    CUevent e;
    uint32_t *word;
} mine;

static void mine_make(void)
{
    void *word;
    mine.s = stream_new();
    mine.x = buffer_new(3);
    CHECK(cuEventCreate(&mine.e, KIND));
    CHECK(cuMemAllocHost(&word, 64));
    memset(word, 0, 64);
    mine.word = word;
}

static void mine_send(int fd)
{
    struct shared shared;
    CHECK(cuIpcGetEventHandle(&shared.event, mine.e));
    CHECK(cuIpcGetMemHandle(&shared.memory, mine.x));
    tell(fd, &shared, sizeof(shared));
}

static void mine_open(int fd)
{
    struct shared shared;
    hear(fd, &shared, sizeof(shared));
    mine.s = stream_new();
    CHECK(cuIpcOpenEventHandle(&mine.e, shared.event));
    CHECK(cuIpcOpenMemHandle(&mine.x, shared.memory, LAZY));
}

/* mix in a stream that waits until go(), and a record behind it. */
static void mix_later(CUstream s, const uint32_t *word)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)word;
    CHECK(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_mix(s, mine.x, 5, 7, N);
    CHECK(cuEventRecord(mine.e, s));
}

static void go(uint32_t *word)
{
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

static void follow_theirs(int fd)
{
    mine_open(fd);
    CUdeviceptr y = buffer_new(0);
    EXPECT(cuEventQuery(mine.e), CUDA_ERROR_NOT_READY);
    CHECK(cuStreamWaitEvent(mine.s, mine.e, 0));
    CHECK(cuMemcpyDtoDAsync(y, mine.x, BYTES, mine.s));
    EXPECT(cuStreamQuery(mine.s), CUDA_ERROR_NOT_READY);
    nod(fd);
    CHECK(cuEventSynchronize(mine.e));
    CHECK(cuEventQuery(mine.e));
    CHECK(cuStreamSynchronize(mine.s));
    expect_words(y, 22);
    CHECK(cuEventDestroy(mine.e));
}

Test(ipc, stream_waits_for_record_of_another_process)
{
    struct peer p = peer_start(follow_theirs);
    sim_join();
    mine_make();
    mix_later(mine.s, mine.word);
    mine_send(p.fd);
    nodded(p.fd);
    EXPECT(cuEventQuery(mine.e), CUDA_ERROR_NOT_READY);
    go(mine.word);
    peer_finish(p);
    CHECK(cuEventQuery(mine.e));
}

static void record_for_them(int fd)
{
    uint32_t *word;
    mine_open(fd);
    CHECK(cuMemAllocHost((void **)&word, 64));
    *word = 0;
    mix_later(mine.s, word);
    nod(fd);
    nodded(fd);
    go(word);
    CHECK(cuStreamSynchronize(mine.s));
    nodded(fd);
}

/* Before any record there is nothing to wait for. Then the process that opened the event
 * records. */
Test(ipc, event_creator_waits_for_record_by_importer)
{
    struct peer p = peer_start(record_for_them);
    sim_join();
    mine_make();
    CUdeviceptr y = buffer_new(0);
    CHECK(cuEventQuery(mine.e));
    mine_send(p.fd);
    nodded(p.fd);
    EXPECT(cuEventQuery(mine.e), CUDA_ERROR_NOT_READY);
    CHECK(cuStreamWaitEvent(mine.s, mine.e, 0));
    CHECK(cuMemcpyDtoDAsync(y, mine.x, BYTES, mine.s));
    nod(p.fd);
    CHECK(cuEventSynchronize(mine.e));
    CHECK(cuStreamSynchronize(mine.s));
    expect_words(y, 22);
    nod(p.fd);
    peer_finish(p);
}

/* A node of a graph waits as a stream does: for the latest record at the launch of the graph. */
static void follow_in_graph(int fd)
{
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode wait, copy;
    CUdeviceptr y = buffer_new(0);
    mine_open(fd);
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = mine.x,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = y,
                       .WidthInBytes = BYTES,
                       .Height = 1,
                       .Depth = 1};
    CHECK(cuGraphCreate(&graph, 0));
    CHECK(cuGraphAddEventWaitNode(&wait, graph, NULL, 0, mine.e));
    CHECK(cuGraphAddMemcpyNode(&copy, graph, &wait, 1, &c, sim.ctx));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    CHECK(cuGraphLaunch(exec, mine.s));
    EXPECT(cuStreamQuery(mine.s), CUDA_ERROR_NOT_READY);
    nod(fd);
    CHECK(cuStreamSynchronize(mine.s));
    expect_words(y, 22);
}

Test(ipc, graph_waits_for_record_of_another_process)
{
    struct peer p = peer_start(follow_in_graph);
    sim_join();
    mine_make();
    mix_later(mine.s, mine.word);
    mine_send(p.fd);
    nodded(p.fd);
    go(mine.word);
    peer_finish(p);
}

static void record_and_die(int fd)
{
    mine_make();
    mix_later(mine.s, mine.word);
    mine_send(fd);
    nodded(fd);
    raise(SIGKILL);
}

Test(ipc, kill_of_the_recorder_ends_waits_for_its_event)
{
    struct peer p = peer_start(record_and_die);
    sim_join();
    mine_open(p.fd);
    CHECK(cuStreamWaitEvent(mine.s, mine.e, 0));
    EXPECT(cuEventQuery(mine.e), CUDA_ERROR_NOT_READY);
    nod(p.fd);
    waitpid(p.pid, NULL, 0);
    CHECK(cuEventSynchronize(mine.e));
    CHECK(cuStreamSynchronize(mine.s));
}

static void misuse_event(int fd)
{
    CUipcEventHandle handle, wrong;
    CUevent e;
    hear(fd, &handle, sizeof(handle));
    wrong = handle;
    wrong.reserved[0] = (char)(wrong.reserved[0] + 1);
    EXPECT(cuIpcOpenEventHandle(&e, wrong), CUDA_ERROR_INVALID_HANDLE);
    memset(&wrong, 0, sizeof(wrong));
    EXPECT(cuIpcOpenEventHandle(&e, wrong), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuIpcOpenEventHandle(NULL, handle), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcOpenEventHandle(&e, handle));
    EXPECT(cuIpcGetEventHandle(&wrong, e), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuEventQuery(e));
    CHECK(cuEventDestroy(e));
    EXPECT(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
}

Test(ipc, invalid_event_handles_are_refused)
{
    CUipcEventHandle handle;
    CUevent plain, e;
    struct peer p = peer_start(misuse_event);
    sim_join();
    CHECK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    EXPECT(cuEventCreate(&e, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuEventCreate(&e, KIND));
    EXPECT(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuIpcGetEventHandle(NULL, e), CUDA_ERROR_INVALID_VALUE);
    CHECK(cuIpcGetEventHandle(&handle, e));
    tell(p.fd, &handle, sizeof(handle));
    peer_finish(p);
    EXPECT(cuIpcOpenEventHandle(&plain, handle), CUDA_ERROR_INVALID_CONTEXT); /* its own */
    CHECK(cuEventDestroy(e));
    EXPECT(cuIpcGetEventHandle(&handle, e), CUDA_ERROR_INVALID_HANDLE);
}

Test(ipc, destroyed_events_free_their_slots)
{
    CUevent e;
    sim_join();
    for (int i = 0; i < 200000; i++) {
        CHECK(cuEventCreate(&e, KIND));
        CHECK(cuEventDestroy(e));
    }
}

/* Daemons do so; what the test framework has open is spared. */
static void close_the_drivers_files(void)
{
    for (int fd = 3; fd < 256; fd++) {
        char link[64], target[64] = "";
        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (readlink(link, target, sizeof(target) - 1) > 0 && strstr(target, "simgpu"))
            close(fd);
    }
}

Test(ipc, closed_device_file_disables_only_exports)
{
    CUipcEventHandle event;
    CUipcMemHandle memory;
    sim_join();
    mine_make();
    close_the_drivers_files();
    EXPECT(cuIpcGetMemHandle(&memory, mine.x), CUDA_ERROR_OPERATING_SYSTEM);
    EXPECT(cuIpcGetEventHandle(&event, mine.e), CUDA_ERROR_OPERATING_SYSTEM);
    launch_mix(mine.s, mine.x, 5, 7, N);
    CHECK(cuEventRecord(mine.e, mine.s));
    CHECK(cuEventSynchronize(mine.e));
    expect_words(mine.x, 22);
}
