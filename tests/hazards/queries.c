/*
 * queries.c - asks whether a stream is done, from a thread that did not launch its work, or that
 * can no longer name the stream that did it.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>

enum { SLOW_US = 20000 };

static uint32_t *out;
static CUdeviceptr in;

static void slow_copy(CUstream s)
{
    MUST(launch_slow(in, 3, 1, SLOW_US, s));
    MUST(cuMemcpyDtoHAsync(out, in, BYTES, s));
}

static void slow_copy_per_thread(void *user)
{
    slow_copy(CU_STREAM_PER_THREAD);
}

static void until_done(CUstream s)
{
    while (cuStreamQuery(s) == CUDA_ERROR_NOT_READY)
        ;
    SAY(cuStreamQuery(s));
    show_host("out", out);
}

HAZARD(legacy_stream_query_counts_work_of_a_destroyed_stream)
{
    out = pinned_new(1);
    in = buffer_new(3);
    warm(CU_STREAM_LEGACY);
    MUST(cuStreamSynchronize(CU_STREAM_LEGACY));
    for (int i = 0; i < 3; i++) {
        CUstream s = stream_new(CU_STREAM_DEFAULT);
        slow_copy(s);
        MUST(cuStreamDestroy(s));
        until_done(CU_STREAM_LEGACY);
    }
}

HAZARD(legacy_stream_query_counts_work_of_a_thread_that_ended)
{
    out = pinned_new(1);
    in = buffer_new(3);
    warm(CU_STREAM_LEGACY);
    MUST(cuStreamSynchronize(CU_STREAM_LEGACY));
    for (int i = 0; i < 3; i++) {
        thread_join(thread_start(slow_copy_per_thread, NULL));
        until_done(CU_STREAM_LEGACY);
    }
}

/* ---- memory whose operations synchronise --------------------------------------------------- */

/* A memset and a copy within the device are complete when they return, except where the program
 * calls the asynchronous ones. */
static void operations_synchronise(CUdeviceptr x)
{
    out = pinned_new(1);
    in = buffer_new(3);
    warm(NULL);
    MUST(launch_slow(in, 3, 1, SLOW_US, NULL));
    SAY(cuMemsetD32(x, 7, N));
    SAY(cuStreamQuery(NULL));
    MUST(launch_slow(in, 3, 1, SLOW_US, NULL));
    SAY(cuMemcpyDtoD(x, in, BYTES));
    SAY(cuStreamQuery(NULL));
    show("x", x);
    MUST(cuLaunchHostFunc(NULL, until_told, NULL));
    SAY(cuMemsetD32Async(x, 8, N, NULL));
    SAY(cuMemcpyDtoDAsync(in, x, BYTES, NULL));
    SAY(cuStreamQuery(NULL));
    atomic_store(&told, true);
    SAY(cuStreamSynchronize(NULL));
    show("in", in);
}

HAZARD(operations_on_sync_memops_memory_are_done_on_return)
{
    int yes = 1;
    CUdeviceptr x = buffer_new(1);
    SAY(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, x));
    operations_synchronise(x);
}

#if CUDA_VERSION >= 12010
HAZARD(operations_in_a_sync_memops_context_are_done_on_return)
{
    SAY(cuDevicePrimaryCtxSetFlags(device, CU_CTX_SYNC_MEMOPS));
    operations_synchronise(buffer_new(1));
}
#endif

/* ---- copies of nothing --------------------------------------------------------------------- */

static _Atomic bool may_end;

static void CUDA_CB until_it_may(void *user)
{
    UNTIL(atomic_load(&may_end));
}

static void say_state(const char *what, CUresult r, CUstream s)
{
    printf("%s = %d, query %d\n", what, r, cuStreamQuery(s));
}
#define SAY_STATE(call, s) say_state(#call, call, s)

/* The call waits for nothing, so nothing is known complete afterwards. */
static void copy_nothing(CUstream s)
{
    CUDA_MEMCPY2D flat = {.dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = calloc(1, BYTES),
                          .dstPitch = 64,
                          .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = in,
                          .srcPitch = 64,
                          .WidthInBytes = 64};
    CUDA_MEMCPY3D deep = {.dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = flat.dstHost,
                          .dstPitch = 64,
                          .dstHeight = 1,
                          .srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = in,
                          .srcPitch = 64,
                          .srcHeight = 1,
                          .WidthInBytes = 64,
                          .Height = 1};
    CUdeviceptr host = (CUdeviceptr)(uintptr_t)flat.dstHost;
    atomic_store(&may_end, false);
    MUST(cuLaunchHostFunc(s, until_it_may, NULL));
    SAY_STATE(cuMemcpyDtoHAsync(flat.dstHost, in, 0, s), s);
    SAY_STATE(cuMemcpyHtoDAsync(in, flat.dstHost, 0, s), s);
    SAY_STATE(cuMemcpyAsync(host, in, 0, s), s);
    SAY_STATE(cuMemcpy2DAsync(&flat, s), s);
    SAY_STATE(cuMemcpy3DAsync(&deep, s), s);
    if (!s) {
        SAY_STATE(cuMemcpyDtoH(flat.dstHost, in, 0), s);
        SAY_STATE(cuMemcpyHtoD(in, flat.dstHost, 0), s);
        SAY_STATE(cuMemcpy(host, in, 0), s);
        SAY_STATE(cuMemcpy2D(&flat), s);
        SAY_STATE(cuMemcpy2DUnaligned(&flat), s);
        SAY_STATE(cuMemcpy3D(&deep), s);
    }
    atomic_store(&may_end, true);
    SAY(cuStreamSynchronize(s));
}

HAZARD(copy_of_zero_bytes_completes_no_work)
{
    in = buffer_new(3);
    copy_nothing(NULL);
    copy_nothing(stream_new(CU_STREAM_NON_BLOCKING));
}

/* ---- while another thread's call runs ------------------------------------------------------- */

static CUstream asked;
static _Atomic uint32_t turn; /* odd while a host function runs */
static _Atomic bool over;

static void CUDA_CB host_function(void *user)
{
    atomic_fetch_add(&turn, 1);
    nap();
    atomic_fetch_add(&turn, 1);
}

static void give_functions(void *user)
{
    for (int i = 0; i < 100; i++) {
        MUST(cuLaunchHostFunc(asked, host_function, NULL));
        MUST(cuStreamSynchronize(asked));
    }
    atomic_store(&over, true);
}

/* The call that gave the function to the stream may not have returned. */
HAZARD(stream_is_busy_while_a_host_function_runs)
{
    unsigned int early = 0;
    asked = stream_new(CU_STREAM_NON_BLOCKING);
    struct thread *t = thread_start(give_functions, NULL);
    while (!atomic_load(&over)) {
        uint32_t now = atomic_load(&turn);
        early += now % 2 && cuStreamQuery(asked) == CUDA_SUCCESS && atomic_load(&turn) == now;
    }
    thread_join(t);
    printf("early %u\n", early);
}

static void *memory;

static void download(void *user)
{
    MUST(cuMemcpyDtoHAsync(memory, in, BYTES, asked));
}

/* The stream is busy while the driver works at the copy, which lasts as long as the call: here
 * until the legacy stream is told to go on. */
HAZARD(stream_is_busy_while_a_pageable_copy_runs)
{
    unsigned int busy = 0;
    asked = stream_new(CU_STREAM_DEFAULT);
    memory = calloc(1, BYTES);
    in = buffer_new(3);
    MUST(cuLaunchHostFunc(CU_STREAM_LEGACY, until_told, NULL));
    struct thread *t = thread_start(download, NULL);
    thread_waits(t);
    for (int i = 0; i < 100; i++)
        busy += cuStreamQuery(asked) == CUDA_ERROR_NOT_READY;
    atomic_store(&told, true);
    thread_join(t);
    printf("busy %u\n", busy);
    SAY(cuStreamQuery(asked));
    show_host("memory", memory);
    free(memory);
}
