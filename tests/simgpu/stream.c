/*
 * stream.c - streams, events, memops and host functions of the simulated driver.
 */
#include "sim.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tools/simgpu/device/shared.h"

TestSuite(stream, .init = sim_open, .fini = sim_close);

enum { N = 256 };

static CUdeviceptr words(uint32_t value)
{
    CUdeviceptr p;
    CHECK(cuMemAlloc(&p, N * 4));
    CHECK(cuMemsetD32(p, value, N));
    return p;
}

static uint32_t first_word(CUdeviceptr p)
{
    uint32_t v[N];
    CHECK(cuMemcpyDtoH(v, p, sizeof(v)));
    for (int i = 1; i < N; i++)
        cr_assert_eq(v[i], v[0]);
    return v[0];
}

static CUstream stream(unsigned int flags)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, flags));
    return s;
}

static CUevent event(void)
{
    CUevent e;
    CHECK(cuEventCreate(&e, 0));
    return e;
}

static atomic_bool let_go;
static void block(void *arg)
{
    (void)arg;
    while (!atomic_load(&let_go))
        usleep(100);
}

Test(stream, launches_run_in_order_and_once)
{
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = words(1);
    uint32_t expected = 1;
    CHECK(cuCtxSynchronize());
    for (uint32_t i = 0; i < 3000; i++) { /* more than the queue holds */
        launch_mix(s, x, 2 * i + 3, i, N);
        expected = expected * (2 * i + 3) + i;
    }
    CHECK(cuStreamSynchronize(s));
    cr_expect_eq(first_word(x), expected);
}

Test(stream, an_event_orders_two_streams)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = words(1);
    CUevent e = event();
    CHECK(cuCtxSynchronize());
    launch_spin(a, 1, 3 * MS);
    launch_mix(a, x, 3, 1, N);
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    launch_mix(b, x, 5, 2, N);
    CHECK(cuStreamSynchronize(b));
    cr_expect_eq(first_word(x), (1 * 3 + 1) * 5 + 2);
}

Test(stream, wait_ignores_records_made_after_it)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    CUevent e = event();
    CHECK(cuEventRecord(e, a));
    CHECK(cuStreamWaitEvent(b, e, 0));
    CHECK(cuStreamWaitValue32(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuEventRecord(e, a)); /* b does not wait for this one */
    CHECK(cuStreamSynchronize(b));
    EXPECT(cuEventQuery(e), CUDA_ERROR_NOT_READY);
    *word = 1;
    CHECK(cuEventSynchronize(e));
}

Test(stream, elapsed_time_is_the_modelled_time_of_the_kernels_between)
{
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUevent a = event(), b = event();
    float ms = 0;
    CHECK(cuLaunchHostFunc(s, block, NULL)); /* until all are queued */
    CHECK(cuEventRecord(a, s));
    launch_spin(s, 1, 2 * MS);
    launch_spin(s, 1, 2 * MS);
    CHECK(cuEventRecord(b, s));
    EXPECT(cuEventElapsedTime(&ms, a, b), CUDA_ERROR_NOT_READY);
    atomic_store(&let_go, true);
    CHECK(cuEventSynchronize(b));
    CHECK(cuEventElapsedTime(&ms, a, b));
    cr_expect_eq(ms, 4.0f, "%f ms: each begins at the modelled end of the one before", ms);
}

static void open_within_400_gbps(void)
{
    setenv("SIMGPU_WITHIN_GBPS", "400", 1);
    sim_open();
}

Test(stream_within, copy_within_the_device_has_its_own_speed, .init = open_within_400_gbps,
     .fini = sim_close)
{
    enum { BYTES = 8000000, LINK_US = 320, WITHIN_US = 20, LATENCY_US = 2 };
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUevent marks[3] = {event(), event(), event()};
    CUdeviceptr x, y;
    float within_ms = 0, link_ms = 0;
    void *host;
    CHECK(cuMemAlloc(&x, BYTES));
    CHECK(cuMemAlloc(&y, BYTES));
    CHECK(cuMemAllocHost(&host, BYTES));
    CHECK(cuLaunchHostFunc(s, block, NULL)); /* until all are queued */
    CHECK(cuEventRecord(marks[0], s));
    CHECK(cuMemcpyDtoDAsync(y, x, BYTES, s));
    CHECK(cuEventRecord(marks[1], s));
    CHECK(cuMemcpyDtoHAsync(host, y, BYTES, s));
    CHECK(cuEventRecord(marks[2], s));
    atomic_store(&let_go, true);
    CHECK(cuEventSynchronize(marks[2]));
    CHECK(cuEventElapsedTime(&within_ms, marks[0], marks[1]));
    CHECK(cuEventElapsedTime(&link_ms, marks[1], marks[2]));
    CHECK(cuMemFreeHost(host));
    cr_expect_float_eq(link_ms * 1000, LINK_US + LATENCY_US, 0.1, "%f ms", link_ms);
    cr_expect_float_eq(within_ms * 1000, WITHIN_US + LATENCY_US, 0.1, "%f ms", within_ms);
}

Test(stream, destroyed_stream_finishes_its_pending_work)
{
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = words(1);
    CUevent e = event();
    CHECK(cuCtxSynchronize());
    launch_spin(s, 1, 5 * MS);
    CHECK(cuEventRecord(e, s));
    launch_mix(s, x, 3, 4, N);
    CHECK(cuEventDestroy(e));
    CHECK(cuStreamDestroy(s));
    EXPECT(cuEventQuery(e), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
    EXPECT(cuStreamDestroy(s), CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuCtxSynchronize());
    cr_expect_eq(first_word(x), 7);
}

Test(stream, invalid_handles_are_refused)
{
    static char junk[64];
    CUstream s[] = {(CUstream)(void *)junk, (CUstream)0x1234, (CUstream)(uintptr_t)-8};
    for (size_t i = 0; i < sizeof(s) / sizeof(*s); i++) {
        EXPECT(cuStreamSynchronize(s[i]), CUDA_ERROR_INVALID_HANDLE);
        EXPECT(cuEventQuery((CUevent)(void *)s[i]), CUDA_ERROR_INVALID_HANDLE);
        EXPECT(cuEventRecord((CUevent)(void *)s[i], NULL), CUDA_ERROR_INVALID_HANDLE);
        EXPECT(cuLaunchKernel((CUfunction)(void *)s[i], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
               CUDA_ERROR_INVALID_HANDLE);
        EXPECT(cuModuleUnload((CUmodule)(void *)s[i]), CUDA_ERROR_INVALID_HANDLE);
    }
    EXPECT(cuStreamDestroy(NULL), CUDA_ERROR_INVALID_HANDLE);
}

Test(stream, legacy_and_blocking_streams_wait_for_each_other)
{
    CUstream a = stream(0), b = stream(0);
    CUdeviceptr x = words(1);
    CHECK(cuCtxSynchronize());
    launch_spin(a, 1, 3 * MS);
    launch_mix(a, x, 3, 1, N);
    launch_mix(NULL, x, 5, 2, N); /* after a */
    launch_mix(b, x, 7, 3, N);    /* after the legacy stream */
    CHECK(cuStreamSynchronize(b));
    cr_expect_eq(first_word(x), ((1 * 3 + 1) * 5 + 2) * 7 + 3);
}

Test(stream, non_blocking_stream_ignores_the_legacy_stream)
{
    CUstream free_stream = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    CHECK(cuStreamWaitValue32(NULL, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_spin(free_stream, 1, 10 * US);
    CHECK(cuStreamSynchronize(free_stream));
    EXPECT(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    *word = 1;
    CHECK(cuStreamSynchronize(NULL));
}

static void *own_stream_main(void *x)
{
    CHECK(cuCtxSetCurrent(sim.ctx));
    launch_mix(CU_STREAM_PER_THREAD, *(CUdeviceptr *)x, 3, 1, N);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

Test(stream, successive_threads_use_per_thread_streams)
{
    enum { THREADS = 200 };
    CUdeviceptr x = words(1);
    uint32_t expected = 1;
    for (int i = 0; i < THREADS; i++) {
        pthread_t t;
        cr_assert_eq(pthread_create(&t, NULL, own_stream_main, &x), 0);
        pthread_join(t, NULL);
        expected = expected * 3 + 1;
    }
    cr_expect_eq(first_word(x), expected);
}

Test(stream, priorities_in_range_and_flags_are_kept)
{
    CUstream s;
    int priority;
    unsigned int flags;
    unsigned long long id, other;
    CUcontext ctx;
    CHECK(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, -100));
    CHECK(cuStreamGetPriority(s, &priority));
    CHECK(cuStreamGetFlags(s, &flags));
    CHECK(cuStreamGetCtx(s, &ctx));
    CHECK(cuStreamGetId(s, &id));
    CHECK(cuStreamGetId(NULL, &other));
    cr_expect_eq(priority, -5, "the range's end");
    cr_expect_eq(flags, CU_STREAM_NON_BLOCKING);
    cr_expect_eq(ctx, sim.ctx);
    cr_expect_neq(id, other);
    EXPECT(cuStreamCreate(&s, 2), CUDA_ERROR_INVALID_VALUE);
    for (int asked = -5; asked <= 0; asked++) {
        CHECK(cuStreamCreateWithPriority(&s, CU_STREAM_DEFAULT, asked));
        CHECK(cuStreamGetPriority(s, &priority));
        CHECK(cuStreamGetFlags(s, &flags));
        cr_expect_eq(priority, asked, "%d, not %d", priority, asked);
        cr_expect_eq(flags, CU_STREAM_DEFAULT);
    }
}

Test(stream, memops_compare_as_documented)
{
    static const struct {
        uint32_t before, wanted;
        unsigned int flags;
        uint32_t then;
    } cases[] = {
        {4, 5, CU_STREAM_WAIT_VALUE_GEQ, 5},
        {0xfffffff0u, 3, CU_STREAM_WAIT_VALUE_GEQ, 4}, /* compares cyclically */
        {4, 5, CU_STREAM_WAIT_VALUE_EQ, 5},
        {4, 3, CU_STREAM_WAIT_VALUE_AND, 2},
        {0xfffffff0u, 0xf, CU_STREAM_WAIT_VALUE_NOR, 0},
    };
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        word[0] = cases[i].before;
        word[1] = 0;
        CHECK(cuStreamWaitValue32(s, at, cases[i].wanted, cases[i].flags));
        CHECK(cuStreamWriteValue32(s, at + 4, 77, 0));
        usleep(2000);
        EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
        cr_expect_eq(word[1], 0);
        word[0] = cases[i].then;
        CHECK(cuStreamSynchronize(s));
        cr_expect_eq(word[1], 77);
    }
    EXPECT(cuStreamWaitValue32(s, at + 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT(cuStreamWriteValue32(s, 0x10, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

Test(stream, batched_memops_run_in_order)
{
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUstreamBatchMemOpParams ops[3];
    memset(ops, 0, sizeof(ops));
    ops[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    ops[0].writeValue.address = at;
    ops[0].writeValue.value = 1;
    ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
    ops[1].waitValue.address = at + 8;
    ops[1].waitValue.value64 = 9;
    ops[1].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
    ops[2] = ops[0];
    ops[2].writeValue.address = at + 16;
    CHECK(cuStreamBatchMemOp(s, 3, ops, 0));
    for (int i = 0; i < 100000 && word[0] != 1; i++)
        usleep(100);
    cr_expect_eq(word[0], 1);
    EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cr_expect_eq(word[4], 0);
    word[2] = 9;
    CHECK(cuStreamSynchronize(s));
    cr_expect_eq(word[4], 1);
}

Test(stream, a_stream_blocked_in_a_wait_does_not_block_others)
{
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuStreamWaitValue32(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_spin(a, 1000, 10 * US);
    launch_spin(b, 1000, 10 * US);
    CHECK(cuStreamWriteValue32(b, at, 1, 0)); /* lets the other stream go on */
    CHECK(cuStreamSynchronize(a));
    cr_expect_eq(*word, 1);
}

static atomic_int calls, in_order;
static _Atomic CUresult inside;

static void count(void *place)
{
    if (atomic_fetch_add(&calls, 1) == (int)(intptr_t)place)
        atomic_fetch_add(&in_order, 1);
}

static void call_inside(void *arg)
{
    (void)arg;
    atomic_store(&inside, cuCtxSynchronize());
}

Test(stream, all_host_functions_run_before_synchronize_returns)
{
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 10; i++)
        CHECK(cuLaunchHostFunc(s, count, (void *)(intptr_t)i));
    CHECK(cuLaunchHostFunc(s, call_inside, NULL));
    CHECK(cuStreamSynchronize(s));
    cr_expect_eq(in_order, 10);
    cr_expect_eq(inside, CUDA_ERROR_NOT_PERMITTED);
    EXPECT(cuLaunchHostFunc(s, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

Test(stream, blocking_host_function_blocks_only_its_stream)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CHECK(cuLaunchHostFunc(a, block, NULL));
    launch_spin(a, 1, 10 * US);
    launch_spin(b, 1, 10 * US);
    CHECK(cuStreamSynchronize(b));
    EXPECT(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
    atomic_store(&let_go, true);
    CHECK(cuStreamSynchronize(a));
}

static _Atomic CUresult told;
static void callback(CUstream s, CUresult status, void *data)
{
    (void)s;
    atomic_fetch_add((atomic_int *)data, 1);
    atomic_store(&told, status);
}

static bool is_told(void *arg)
{
    (void)arg;
    return atomic_load(&told) != CUDA_SUCCESS;
}

Test(stream, sticky_error_drops_queued_work_and_persists)
{
    CUstream s = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = words(1), nowhere = 0x1000, at;
    _Atomic uint32_t *word = host_words(&at);
    CUevent e = event();
    atomic_store(&told, CUDA_SUCCESS);
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_mix(s, nowhere, 1, 1, N);
    launch_mix(s, x, 3, 1, N);
    CHECK(cuLaunchHostFunc(s, count, NULL));
    CHECK(cuStreamAddCallback(s, callback, &calls, 0));
    CHECK(cuEventRecord(e, s));
    *word = 1;
    EXPECT(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuEventQuery(e), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT(cuLaunchHostFunc(s, count, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
    CUdeviceptr more;
    EXPECT(cuMemAlloc(&more, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect(wait_until(is_told, NULL)); /* the synchronisation may return earlier */
    cr_expect_eq(calls, 1, "the callback alone");
    cr_expect_eq(told, CUDA_ERROR_ILLEGAL_ADDRESS);
}

Test(stream, context_error_releases_a_waiting_stream)
{
    CUstream a = stream(CU_STREAM_NON_BLOCKING), b = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr at;
    host_words(&at);
    CHECK(cuStreamWaitValue32(a, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_mix(b, 0x1000, 1, 1, N);
    EXPECT(cuStreamSynchronize(a), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static bool thread_sleeps(pid_t thread)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)thread);
    FILE *f = fopen(path, "r");
    if (!f)
        return false;
    bool read = fgets(line, sizeof(line), f);
    fclose(f);
    const char *name_end = read ? strrchr(line, ')') : NULL;
    return name_end && name_end[1] && name_end[2] == 'S';
}

struct flood {
    CUstream stream;
    atomic_int launched;
    _Atomic pid_t thread;
};

static void *flood_main(void *arg)
{
    struct flood *f = arg;
    CHECK(cuCtxSetCurrent(sim.ctx));
    atomic_store(&f->thread, (pid_t)syscall(SYS_gettid));
    for (int i = 0; i < 1100; i++) {
        launch_spin(f->stream, 1, 1);
        atomic_fetch_add(&f->launched, 1);
    }
    return NULL;
}

static bool flood_stands(void *arg)
{
    struct flood *f = arg;
    return atomic_load(&f->launched) >= 1023 && thread_sleeps(atomic_load(&f->thread));
}

Test(stream, full_queue_of_1024_blocks_the_next_launch)
{
    CUdeviceptr at;
    _Atomic uint32_t *word = host_words(&at);
    struct flood f = {.stream = stream(CU_STREAM_NON_BLOCKING)};
    pthread_t t;
    CHECK(cuStreamWaitValue32(f.stream, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    cr_assert_eq(pthread_create(&t, NULL, flood_main, &f), 0);
    cr_assert(wait_until(flood_stands, &f));
    CUstream other = stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < 100; i++) { /* what other streams complete makes no room */
        launch_spin(other, 1, 1);
        CHECK(cuStreamSynchronize(other));
    }
    cr_assert(wait_until(flood_stands, &f));
    cr_expect_eq(f.launched, 1023, "%d; 1024 with the wait", f.launched);
    *word = 1;
    pthread_join(t, NULL);
    CHECK(cuStreamSynchronize(f.stream));
    cr_expect_eq(f.launched, 1100);
}

Test(stream, attributes_are_kept_and_copied)
{
    CUstream a = stream(0), b = stream(0);
    CUstreamAttrValue v = {.syncPolicy = CU_SYNC_POLICY_YIELD}, got;
    CHECK(cuStreamSetAttribute(a, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    CHECK(cuStreamCopyAttributes(b, a));
    CHECK(cuStreamGetAttribute(b, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    cr_expect_eq(got.syncPolicy, CU_SYNC_POLICY_YIELD);
    EXPECT(cuStreamSetAttribute(a, (CUstreamAttrID)99, &v), CUDA_ERROR_INVALID_VALUE);
}

Test(stream, one_stream_waits_for_events_of_forty_streams)
{
    enum { MANY = 40 };
    CUstream s[MANY], last = stream(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = words(0), at;
    _Atomic uint32_t *word = host_words(&at);
    CUevent begin = event(), e[MANY];
    uint32_t v[N];
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamWaitValue32(last, at, 1, CU_STREAM_WAIT_VALUE_EQ)); /* until all are queued */
    CHECK(cuEventRecord(begin, last));
    for (int i = 0; i < MANY; i++) {
        s[i] = stream(CU_STREAM_NON_BLOCKING);
        e[i] = event();
        CHECK(cuStreamWaitEvent(s[i], begin, 0));
        launch_spin(s[i], 1, (uint64_t)(i + 1) * 20 * US); /* later than the one before */
        launch_mix(s[i], x + (CUdeviceptr)i * 4, 1, 1, 1);
        CHECK(cuEventRecord(e[i], s[i]));
    }
    for (int i = 0; i < MANY; i++) {
        CHECK(cuStreamWaitEvent(last, e[i], 0));
        launch_mix(last, x + (CUdeviceptr)i * 4, 2, 0, 1); /* 0, then 1, if it did not wait */
    }
    launch_mix(last, x, 3, 0, MANY);
    *word = 1;
    CHECK(cuStreamSynchronize(last));
    CHECK(cuMemcpyDtoH(v, x, sizeof(v)));
    for (int i = 0; i < MANY; i++)
        cr_expect_eq(v[i], 6, "stream %d: %u", i, v[i]);
}

static void count_call(void *n)
{
    ++*(int *)n;
}

/* NCCL uses streams of devices that it never makes current. */
Test(stream, stream_of_a_non_current_context_takes_work)
{
    CUstream s;
    CUevent e;
    CUcontext other;
    CUgraph g;
    CUgraphExec x;
    CUdeviceptr p;
    CUstreamCaptureStatus status;
    uint32_t word = 0;
    int calls = 0;
    CHECK(cuMemAlloc(&p, 64));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&e, 0));
    CHECK(cuCtxCreate(&other, NULL, 0, 0));
    CHECK(cuMemsetD32Async(p, 7, 16, s));
    CHECK(cuLaunchHostFunc(s, count_call, &calls));
    CHECK(cuEventRecord(e, s));
    CHECK(cuStreamWaitEvent(s, e, 0));
    CHECK(cuStreamWriteValue32(s, p + 4, 8, 0));
    CHECK(cuMemcpyDtoHAsync(&word, p + 4, 4, s));
    CHECK(cuStreamSynchronize(s));
    cr_expect_eq(word, 8);
    cr_expect_eq(calls, 1);
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CHECK(cuStreamIsCapturing(s, &status));
    cr_expect_eq(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(cuMemsetD32Async(p, 9, 16, s));
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuCtxSetCurrent(sim.ctx));
    CHECK(cuGraphInstantiate(&x, g, 0));
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuGraphLaunch(x, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyDtoH(&word, p + 4, 4));
    cr_expect_eq(word, 9);
    EXPECT(cuEventRecord(e, NULL),
           CUDA_ERROR_INVALID_HANDLE); /* the event belongs to the other context */
}

/* ---- a stream that goes late ----------------------------------------------------------------- */

static _Atomic pid_t leaver;
static atomic_bool stands, may_go;

static void stand(int signal_)
{
    (void)signal_;
    atomic_store(&stands, true);
    while (!atomic_load(&may_go))
        usleep(100);
}

static void *destroy(void *stream)
{
    atomic_store(&leaver, (pid_t)syscall(SYS_gettid));
    CHECK(cuStreamDestroy(stream));
    return NULL;
}

static bool leaver_sleeps(void *unused)
{
    (void)unused;
    return thread_sleeps(atomic_load(&leaver));
}

static bool leaver_stands(void *unused)
{
    (void)unused;
    return atomic_load(&stands);
}

static bool is_idle(void *stream)
{
    return cuStreamQuery(stream) == CUDA_SUCCESS;
}

static struct device_shared *device_mapped(void)
{
    char name[96];
    snprintf(name, sizeof(name), "/simgpu-%u-%s", (unsigned)getuid(), sim.id);
    int fd = shm_open(name, O_RDWR, 0);
    void *at = mmap(NULL, sizeof(struct device_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert(fd >= 0 && at != MAP_FAILED);
    close(fd);
    return at;
}

/* A thread destroys a stream and waits for the devices' lock. Meanwhile the context is destroyed
 * with all that it has on the device, and the next context's stream gets the same place there. */
Test(stream, late_destroy_spares_the_next_stream_in_its_slot)
{
    CUcontext first, second;
    CUstream s, next;
    CUdeviceptr x;
    pthread_t thread;
    struct device_shared *device = device_mapped();
    struct sigaction action = {.sa_handler = stand};
    sigaction(SIGUSR1, &action, NULL);
    CHECK(cuCtxCreate(&first, NULL, 0, 0));
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    pthread_mutex_lock(&device->lock);
    pthread_create(&thread, NULL, destroy, s);
    cr_assert(wait_until(leaver_sleeps, NULL));
    pthread_kill(thread, SIGUSR1);
    cr_assert(wait_until(leaver_stands, NULL));
    pthread_mutex_unlock(&device->lock);
    CHECK(cuCtxDestroy(first));
    CHECK(cuCtxCreate(&second, NULL, 0, 0));
    CHECK(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
    atomic_store(&may_go, true);
    pthread_join(thread, NULL);
    CHECK(cuMemAlloc(&x, 4096));
    CHECK(cuMemsetD32Async(x, 7, 1024, next));
    cr_assert(wait_until(is_idle, next));
    CHECK(cuCtxDestroy(second));
    munmap(device, sizeof(*device));
}
