/*
 * waits.c - a call waits for no more than the driver does. What it must not wait for goes on only
 * after it has returned: a thread is in a copy that waits for a word, work of another stream waits
 * for a second word, and this thread writes both after the call.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>
#include <string.h>

#include "shim/cutin.h"

/* From cudaProfiler.h, which the runtime's headers do not include. */
CUresult cuProfilerStart(void);

static volatile uint32_t *word; /* two of them, pinned */
static CUdeviceptr word_at, copied, changed;
static CUstream copying, waiting;
static uint32_t host[N]; /* pageable */
static CUmodule spare;
static CUlibrary library;
static CUkernel kernel;
static CUevent event;
static struct thread *copier;

/* With a profiler nothing is buffered, and calls wait for the hold. */
static unsigned int patience(unsigned int ms)
{
    return getenv("CUDA_INJECTION64_PATH") ? 3 : ms;
}

static void copy(void *arg)
{
    (void)arg;
    MUST(cuMemcpyDtoHAsync(host, copied, BYTES, copying));
}

/* Waits until the thread has come to its copy, which only cutin can tell. */
static void copy_begun(unsigned int ahead)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    if (!held(copying) || getenv("CUDA_INJECTION64_PATH"))
        return;
    UNTIL(!held(copying) ||
          (cutin_stream_state(copying, &state) == CUDA_SUCCESS && state.buffered > ahead));
}

/* Another thread is in a copy, for which it has waited for its turn. */
static void world_new(unsigned int flags)
{
    copying = stream_new(flags);
    waiting = stream_new(CU_STREAM_NON_BLOCKING);
    warm(copying);
    warm(waiting);
    copied = buffer_new(3);
    changed = buffer_new(3);
    word = pinned_new(0);
    event = event_new();
    char *text = kernels_text();
    MUST(cuModuleLoadData(&spare, text));
    MUST(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    MUST(cuLibraryGetKernel(&kernel, library, "mix"));
    free(text);
    MUST(cuMemHostGetDevicePointer(&word_at, (void *)(uintptr_t)word, 0));
    MUST(cuMemcpyDtoHAsync(host, copied, BYTES, copying));
    MUST(cuStreamWaitValue32(copying, word_at + 8, 0, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(cuStreamWaitValue32(waiting, word_at + 8, 0, CU_STREAM_WAIT_VALUE_GEQ));
    MUST(cuCtxSynchronize());
    hang_watch("a call waits for a value that is written only after it");
    hold_ms = patience(20000);
    hold(copying);
    SAY(launch_mix(copied, 5, 7, copying));
    SAY(cuStreamWaitValue32(copying, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    copier = thread_start(copy, NULL);
    copy_begun(2);
    release(copying);
}

static void world_end(void)
{
    word[0] = word[1] = 1;
    thread_join(copier);
    SAY(cuCtxSynchronize());
    show("changed", changed);
    show_host("copied", host);
}

static void beside_a_stream(void (*call)(void))
{
    world_new(CU_STREAM_NON_BLOCKING);
    SAY(cuStreamWaitValue32(waiting, word_at + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
    SAY(launch_mix(changed, 5, 7, waiting));
    call();
    world_end();
}

static void beside_the_legacy_stream(void (*call)(void))
{
    world_new(CU_STREAM_DEFAULT);
    SAY(launch_mix(changed, 5, 7, NULL));
    call();
    world_end();
}

/* What the call may have to follow waits behind the copy. */
static void behind_a_call(void (*call)(void))
{
    world_new(CU_STREAM_NON_BLOCKING);
    thread_waits(copier);
    SAY(launch_mix(changed, 5, 7, copying));
    call();
    world_end();
}

/* Makes the call beside another stream that waits, beside the legacy stream that waits, and after a
 * launch of this thread into the stream in which the other thread waits. */
#define RETURNS(name, ...)                                                                         \
    static void name##_call(void){__VA_ARGS__} HAZARD(name##_while_a_stream_waits)                 \
    {                                                                                              \
        beside_a_stream(name##_call);                                                              \
    }                                                                                              \
    HAZARD(name##_while_the_legacy_stream_waits)                                                   \
    {                                                                                              \
        beside_the_legacy_stream(name##_call);                                                     \
    }                                                                                              \
    HAZARD(name##_behind_a_call_that_waits)                                                        \
    {                                                                                              \
        behind_a_call(name##_call);                                                                \
    }

RETURNS(function_attribute_is_set,
        SAY(cuFuncSetAttribute(fill, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024));)
RETURNS(kernel_attribute_is_set,
        SAY(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel,
                                 device));)
RETURNS(function_cache_config_is_set, SAY(cuFuncSetCacheConfig(fill, CU_FUNC_CACHE_PREFER_L1));)
RETURNS(kernel_cache_config_is_set,
        SAY(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, device));)
RETURNS(context_cache_config_is_set, SAY(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));)
RETURNS(context_limit_is_set, SAY(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 2048));)
RETURNS(module_is_unloaded, SAY(cuModuleUnload(spare));)
RETURNS(library_is_unloaded, SAY(cuLibraryUnload(library));)
RETURNS(texture_is_destroyed, SAY(cuTexObjectDestroy(1));)
RETURNS(surface_is_destroyed, SAY(cuSurfObjectDestroy(1));)
RETURNS(profiler_starts, SAY(cuProfilerStart());)
RETURNS(context_records_an_event, SAY(cuCtxRecordEvent(context, event));)
RETURNS(context_waits_for_an_event, SAY(cuCtxWaitEvent(context, event));)
RETURNS(another_stream_is_synchronised,
        SAY(cuStreamSynchronize(stream_new(CU_STREAM_NON_BLOCKING)));)

/* ---- streams that the legacy one does not know ----------------------------------------------- */

HAZARD(legacy_stream_sync_returns_while_a_stream_waits)
{
    world_new(CU_STREAM_NON_BLOCKING);
    SAY(cuStreamWaitValue32(waiting, word_at + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
    SAY(launch_mix(changed, 5, 7, waiting));
    SAY(cuStreamSynchronize(NULL));
    world_end();
}

/* This stream waits behind no other thread's call. */
HAZARD(stream_sync_waits_for_no_call_of_another_thread)
{
    world_new(CU_STREAM_NON_BLOCKING);
    SAY(cuStreamWaitValue32(waiting, word_at + 4, 1, CU_STREAM_WAIT_VALUE_GEQ));
    SAY(launch_mix(changed, 5, 7, waiting));
    word[1] = 1;
    SAY(cuStreamSynchronize(waiting));
    world_end();
}

/* The legacy stream follows blocking streams only. */
HAZARD(legacy_stream_sync_does_not_wait_for_a_held_stream)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold_ms = patience(10000);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    SAY(cuStreamSynchronize(NULL));
    still_held(s);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- another stream of the hardware queue stands at a wait -------------------------------- */

/* There is one hardware queue, and the cap counts what is in flight. What comes late into the first
 * stream, which is done, is behind the second stream's wait, unless this thread is even later. */
HAZARD_RAW(idle_stream_sync_returns_while_another_stream_waits)
{
    enum { TIMES = 20 };
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
    setenv("CUTIN_ALONE", "capped", 1);
    gpu_open();
    hang_watch("a wait for an idle stream waits for another stream");
    CUstream done = stream_new(CU_STREAM_NON_BLOCKING);
    waiting = stream_new(CU_STREAM_NON_BLOCKING);
    warm(done);
    warm(waiting);
    changed = buffer_new(3);
    word = pinned_new(0);
    MUST(cuMemHostGetDevicePointer(&word_at, (void *)(uintptr_t)word, 0));
    for (uint32_t i = 1; i <= TIMES; i++) {
        SAY(launch_mix(changed, 5, 7, done));
        SAY(cuStreamWaitValue32(waiting, word_at, i, CU_STREAM_WAIT_VALUE_GEQ));
        SAY(cuStreamSynchronize(done));
        *word = i;
        SAY(cuStreamSynchronize(waiting));
    }
    show("changed", changed);
}

/* Asks for the stream as soon as it is done, when commands of the library may still be in it. */
HAZARD_RAW(completed_stream_is_idle_after_a_context_wait)
{
    enum { TIMES = 200 };
    unsigned not_idle = 0;
    setenv("CUTIN_ALONE", "capped", 1);
    setenv("SIMGPU_WRITE_NS", "200000", 1); /* longer than a busy host delays this thread */
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING), other = stream_new(CU_STREAM_NON_BLOCKING);
    CUevent last = event_new();
    CUdeviceptr y = buffer_new(3);
    changed = buffer_new(3);
    warm(s);
    warm(other);
    MUST(cuEventRecord(last, s));
    SAY(cuCtxWaitEvent(context, last));
    for (int i = 0; i < TIMES; i++) {
        MUST(launch_mix(changed, 5, 7, s));
        MUST(cuEventRecord(last, s));
        for (int k = 0; k < 3; k++)
            MUST(launch_slow(y, 5, 7, 71, other));
        MUST(cuEventSynchronize(last));
        not_idle += cuStreamQuery(s) != CUDA_SUCCESS;
    }
    printf("not idle %u times\n", not_idle);
    show("changed", changed);
}

/* ---- captures that begin while another thread waits ------------------------------------------ */

static CUstream before;
static CUdeviceptr freed;

static void call_that_waits(void *call)
{
    ((void (*)(void))(uintptr_t)call)();
}

/* The call came first: neither it nor the capture fails. Under cutin it waits for a hold. */
static void beside_a_capture(void (*call)(void), CUstream s)
{
    CUstream captured = stream_new(CU_STREAM_NON_BLOCKING);
    CUgraph graph = NULL;
    before = s;
    changed = buffer_new(3);
    warm(s);
    MUST(cuMemAlloc(&freed, BYTES));
    MUST(cuMemHostRegister(host, sizeof(host), CU_MEMHOSTREGISTER_PORTABLE));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuLaunchHostFunc(s, until_told, NULL));
    hold_ms = patience(20000);
    hold(s);
    MUST(launch_mix(changed, 5, 7, s));
    MUST(cuEventRecord(event, s));
    struct thread *t = thread_start(call_that_waits, (void *)(uintptr_t)call);
    thread_waits(t); /* it waits now */
    SAY(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    SAY(launch_mix(changed, 1, 0, captured));
    release(s);
    atomic_store(&told, true);
    thread_join(t);
    SAY(cuStreamEndCapture(captured, &graph));
    SAY(cuStreamSynchronize(s));
    show("changed", changed);
}

#define BEFORE_A_CAPTURE(name, stream, ...)                                                        \
    static void name##_call(void){__VA_ARGS__} HAZARD(name##_succeeds_when_a_capture_begins)       \
    {                                                                                              \
        beside_a_capture(name##_call, stream);                                                     \
    }
BEFORE_A_CAPTURE(context_sync, stream_new(CU_STREAM_NON_BLOCKING), SAY(cuCtxSynchronize());)
BEFORE_A_CAPTURE(stream_sync, stream_new(CU_STREAM_NON_BLOCKING), SAY(cuStreamSynchronize(before));)
BEFORE_A_CAPTURE(event_sync, stream_new(CU_STREAM_NON_BLOCKING), SAY(cuEventSynchronize(event));)
BEFORE_A_CAPTURE(memory_free, stream_new(CU_STREAM_NON_BLOCKING), SAY(cuMemFree(freed));)
BEFORE_A_CAPTURE(memory_unregister, stream_new(CU_STREAM_NON_BLOCKING),
                 SAY(cuMemHostUnregister(host));)
BEFORE_A_CAPTURE(memory_copy, NULL, SAY(cuMemcpyDtoH(host, changed, BYTES));)

/* ---- memory that another stream frees -------------------------------------------------------- */

/* The device has no other memory. The driver lets the allocation wait for the free, which is behind
 * a word that the allocating stream writes before. */
static void allocation_behind_a_free(unsigned int flags, CUstream writes)
{
    enum { MOST = 40 << 20 }; /* of 64 MiB */
    CUdeviceptr p = 0, q = 0;
    CUstream frees = stream_new(CU_STREAM_NON_BLOCKING), s = stream_new(flags);
    writes = writes ? writes : s;
    changed = buffer_new(3);
    word = pinned_new(0);
    MUST(cuMemHostGetDevicePointer(&word_at, (void *)(uintptr_t)word, 0));
    warm(s);
    warm(writes);
    MUST(cuStreamWriteValue32(writes, word_at + 4, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    MUST(cuMemAllocAsync(&p, MOST, frees));
    MUST(cuCtxSynchronize());
    hang_watch("an allocation waits for a write behind it");
    hold(writes);
    SAY(cuStreamWaitValue32(frees, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    SAY(cuMemFreeAsync(p, frees));
    SAY(launch_mix(changed, 5, 7, writes));
    SAY(cuStreamWriteValue32(writes, word_at, 1, CU_STREAM_WRITE_VALUE_DEFAULT));
    buffered(writes);
    SAY(cuMemAllocAsync(&q, MOST, s));
    SAY(cuMemsetD32Async(q, 2, N, s));
    release(writes);
    SAY(cuCtxSynchronize());
    show("changed", changed);
    show("allocated", q);
}

static void small_gpu(void)
{
    setenv("SIMGPU_MEM_MB", "64", 1);
    gpu_open();
}

HAZARD_RAW(allocation_waits_for_another_streams_free)
{
    small_gpu();
    allocation_behind_a_free(CU_STREAM_NON_BLOCKING, NULL);
}

HAZARD_RAW(allocation_after_legacy_work_waits_for_another_streams_free)
{
    small_gpu();
    allocation_behind_a_free(CU_STREAM_DEFAULT, CU_STREAM_LEGACY);
}
