/*
 * copies.c - copies and memsets behind held kernels: none overtakes, none reads stale data, and the
 * caller may use host memory again when it natively could.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>
#include <string.h>

/* A held stream with one launch in it: x becomes 3 * 5 + 7 = 22. */
static CUdeviceptr behind_a_kernel(CUstream s)
{
    CUdeviceptr x = buffer_new(3);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    buffered(s);
    return x;
}

HAZARD(generic_copy_does_not_overtake)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s), y = buffer_new(0);
    uint32_t *host = pinned_new(0);
    SAY(cuMemcpyAsync(y, x, BYTES, s));
    SAY(cuMemcpyAsync((CUdeviceptr)(uintptr_t)host, y, BYTES, s));
    SAY(launch_mix(y, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copy", y);
    show_host("host", host);
}

HAZARD(peer_copy_does_not_overtake)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s), y = buffer_new(0);
    SAY(cuMemcpyPeerAsync(y, context, x, context, BYTES, s));
    SAY(launch_mix(x, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copy", y);
    show("source", x);
}

#if CUDA_VERSION >= 12080
HAZARD(batch_copies_do_not_overtake)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s), y = buffer_new(0), z = buffer_new(0);
    CUdeviceptr to[] = {y, z}, from[] = {x, x};
    size_t sizes[] = {BYTES, BYTES / 2}, first = 0;
    CUmemcpyAttributes how = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
#if CUDA_VERSION >= 13000
    SAY(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, s));
#else
    size_t failed = 0;
    SAY(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, &failed, s));
#endif
    memset(to, 0, sizeof(to));
    memset(sizes, 0, sizeof(sizes));
    SAY(launch_mix(y, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("first", y);
    show("second", z);
}
#endif

HAZARD(copies_in_2d_and_3d_do_not_overtake)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s), y = buffer_new(0), z = buffer_new(0);
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = x,
                          .srcPitch = 128,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = y,
                          .dstPitch = 128,
                          .WidthInBytes = 64,
                          .Height = BYTES / 128};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = x,
                         .srcPitch = 128,
                         .srcHeight = 8,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = z,
                         .dstPitch = 128,
                         .dstHeight = 8,
                         .WidthInBytes = 64,
                         .Height = 4,
                         .Depth = 4};
    SAY(cuMemcpy2DAsync(&flat, s));
    SAY(cuMemcpy3DAsync(&box, s));
    memset(&flat, 0, sizeof(flat));
    memset(&box, 0, sizeof(box));
    SAY(launch_mix(x, 0, 0, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("rectangle", y);
    show("box", z);
}

HAZARD(memsets_of_every_kind_do_not_overtake)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s);
    SAY(cuMemsetD8Async(x, 1, 100, s));
    SAY(launch_mix(x, 3, 1, s));
    SAY(cuMemsetD16Async(x + 400, 2, 100, s));
    SAY(launch_mix(x, 3, 1, s));
    SAY(cuMemsetD32Async(x + 800, 3, 100, s));
    SAY(launch_mix(x, 3, 1, s));
    SAY(cuMemsetD2D8Async(x, 64, 4, 8, 8, s));
    SAY(cuMemsetD2D32Async(x + 2048, 64, 4, 8, 8, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- synchronous copies -------------------------------------------------------------------- */

/* A stream with which synchronous calls are ordered. */
static CUstream stream_in_order(void)
{
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    return CU_STREAM_PER_THREAD;
#else
    return stream_new(CU_STREAM_DEFAULT);
#endif
}

HAZARD(synchronous_copy_after_a_buffered_kernel_reads_its_result)
{
    CUstream s = stream_in_order();
    static uint32_t host[N];
    CUdeviceptr x = behind_a_kernel(s);
    SAY(cuMemcpyDtoH(host, x, BYTES));
    show_host("result", host);
    release(s);
}

HAZARD(synchronous_upload_does_not_overtake_a_buffered_kernel)
{
    CUstream s = stream_in_order();
    static uint32_t host[N] = {1, 2, 3};
    CUdeviceptr x = behind_a_kernel(s);
    SAY(cuMemcpyHtoD(x, host, BYTES / 2));
    memset(host, 0xff, sizeof(host));
    SAY(launch_mix(x, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(synchronous_device_copy_does_not_overtake_a_buffered_kernel)
{
    CUstream s = stream_in_order();
    CUdeviceptr x = behind_a_kernel(s), y = 0;
    MUST(cuMemAlloc(&y, BYTES));
    SAY(cuMemcpyDtoD(y, x, BYTES));
    SAY(cuMemcpy(y, x, BYTES / 2));
    SAY(launch_mix(y, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("y", y);
}

HAZARD(synchronous_2d_copy_reads_the_kernels_result)
{
    CUstream s = stream_in_order();
    static uint32_t host[N];
    CUdeviceptr x = behind_a_kernel(s);
    CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = x,
                          .srcPitch = 128,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .dstPitch = 128,
                          .WidthInBytes = 64,
                          .Height = BYTES / 128};
    SAY(cuMemcpy2D(&flat));
    show_host("aligned", host);
    SAY(cuMemcpy2DUnaligned(&flat));
    show_host("unaligned", host);
    release(s);
}

HAZARD(synchronous_memset_does_not_overtake_a_buffered_kernel)
{
    CUstream s = stream_in_order();
    CUdeviceptr x = behind_a_kernel(s);
    SAY(cuMemsetD32(x, 4, N / 2));
    SAY(cuMemsetD8(x, 5, 16));
    release(s);
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD(synchronous_copy_waits_for_the_held_default_stream)
{
    static uint32_t host[N];
    CUdeviceptr x = buffer_new(3);
    warm(NULL);
    hold(NULL);
    SAY(launch_mix(x, 5, 7, NULL));
    SAY(launch_mix(x, 5, 7, NULL));
    SAY(cuMemcpyDtoH(host, x, BYTES));
    show_host("result", host);
    release(NULL);
}

/* ---- host memory --------------------------------------------------------------------------- */

HAZARD(pageable_source_may_be_reused_when_the_call_returns)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s);
    uint32_t *host = calloc(N, 4);
    for (uint32_t i = 0; i < N; i++)
        host[i] = i;
    SAY(cuMemcpyHtoDAsync(x, host, BYTES, s));
    memset(host, 0xff, BYTES);
    free(host);
    SAY(launch_mix(x, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(pageable_destination_is_written_when_the_call_returns)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s);
    uint32_t *host = calloc(N, 4);
    SAY(cuMemcpyDtoHAsync(host, x, BYTES, s));
    show_host("host", host);
    free(host);
    release(s);
}

#ifndef __SANITIZE_THREAD__ /* a race on purpose */
/* A pinned source is read when the copy runs: what is written to it before the release must arrive.
 * Natively a host function that waits for the writing delays the copy. */
static _Atomic bool written;

static void CUDA_CB until_written(void *user)
{
    while (!atomic_load(&written))
        nap();
}

HAZARD(pinned_source_is_read_when_the_copy_runs)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    uint32_t *host = pinned_new(1);
    CUdeviceptr x = buffer_new(0);
    warm(s);
    SAY(cuLaunchHostFunc(s, until_written, NULL));
    hold(s);
    SAY(cuMemcpyHtoDAsync(x, host, BYTES, s));
    for (int i = 0; i < N; i++)
        host[i] = 6;
    atomic_store(&written, true);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}
#endif

HAZARD(registered_memory_is_unregistered_behind_buffered_copies)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s);
    uint32_t *host = aligned_alloc(4096, 4096);
    memset(host, 0, 4096);
    SAY(cuMemHostRegister(host, 4096, 0));
    SAY(cuMemcpyDtoHAsync(host, x, BYTES, s));
    SAY(cuMemHostUnregister(host));
    release(s);
    SAY(cuStreamSynchronize(s));
    show_host("host", host);
    /* The memory is pageable again. */
    SAY(cuMemcpyHtoDAsync(x, host, BYTES, s));
    memset(host, 0, BYTES);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD(bad_copies_are_refused_while_work_is_buffered)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = behind_a_kernel(s);
    uint32_t *host = pinned_new(1);
    hold_ms = 10;
    SAY(cuMemcpyHtoDAsync(0x10, host, BYTES, s));
    SAY(cuMemcpyHtoDAsync(x + BYTES - 4, host, BYTES, s));
    SAY(cuMemsetD32Async(0x10, 0, N, s));
    SAY(cuMemsetD32Async(x + 2, 0, 1, s));
    SAY(cuMemcpyDtoDAsync(x, 0, BYTES, s));
    SAY(cuMemcpyDtoHAsync(NULL, x, BYTES, s));
    SAY(cuMemcpyHtoDAsync(x, host, 0, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- large copies, which go in pieces -------------------------------------------------------- */

enum { LARGE = 256 << 10, FAR = 1 << 30 };

static void in_pieces(void)
{
    setenv("CUTIN_ALONE", "capped", 1);
    setenv("CUTIN_COPY_BYTES", "4096", 1);
    gpu_open();
}

static CUdeviceptr large_new(void)
{
    CUdeviceptr x;
    MUST(cuMemAlloc(&x, LARGE));
    MUST(cuMemsetD32(x, 1, LARGE / 4));
    return x;
}

static void large_show(const char *what, CUdeviceptr x)
{
    static uint32_t got[LARGE / 4];
    uint32_t sum = 0;
    MUST(cuMemcpyDtoH(got, x, LARGE));
    for (uint32_t i = 0; i < LARGE / 4; i++)
        sum = sum * 31 + got[i];
    printf("%s %u\n", what, sum);
}

HAZARD_RAW(large_copies_keep_their_order)
{
    in_pieces();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = large_new(), y = large_new();
    uint32_t *pageable = malloc(LARGE), *pinned;
    CUevent e = event_new();
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = x,
                       .srcPitch = 8192,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = y,
                       .dstPitch = 8192,
                       .WidthInBytes = 6000,
                       .Height = LARGE / 8192};
    MUST(cuMemHostAlloc((void **)&pinned, LARGE, 0));
    for (uint32_t i = 0; i < LARGE / 4; i++)
        pageable[i] = pinned[i] = i * 2654435761u;
    warm(s);
    hold(s);
    SAY(cuMemcpyHtoDAsync(x, pinned, LARGE, s));
    buffered(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuMemcpyDtoDAsync(y, x, LARGE, s));
    SAY(cuMemcpy2DAsync(&c, s));
    memset(&c, 0, sizeof(c));
    SAY(launch_mix(x, 3, 1, s));
    SAY(cuMemcpyDtoHAsync(pinned, x, LARGE, s));
    SAY(cuEventRecord(e, s));
    SAY(cuMemcpyHtoDAsync(x, pageable, LARGE, s));
    memset(pageable, 0, LARGE);
    SAY(launch_mix(x, 2, 9, s));
    release(s);
    SAY(cuEventSynchronize(e));
    SAY(cuStreamSynchronize(s));
    large_show("x", x);
    large_show("y", y);
    SAY(cuMemcpyHtoD(y, pinned, LARGE));
    large_show("pinned", y);
}

HAZARD_RAW(large_copies_that_are_refused_copy_nothing)
{
    in_pieces();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = large_new(), y = large_new();
    char *pageable = calloc(1, LARGE);
    void *pinned;
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = pageable,
                       .srcPitch = 4096,
                       .srcHeight = 2, /* less than Height */
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = x,
                       .dstPitch = 4096,
                       .dstHeight = 4,
                       .WidthInBytes = 4096,
                       .Height = 4,
                       .Depth = 8};
    MUST(cuMemHostAlloc(&pinned, LARGE, 0));
    warm(s);
    hold(s);
    SAY(cuMemcpyHtoDAsync(x, pinned, FAR, s));
    SAY(cuMemcpyDtoHAsync(pinned, x, FAR, s));
    SAY(cuMemcpyDtoDAsync(x, y, FAR, s));
    SAY(cuMemcpyAsync(x, y, FAR, s));
    SAY(cuMemcpyHtoD(x, pinned, FAR));
    SAY(cuMemcpyHtoDAsync(0x1000, pageable, LARGE, s));
    SAY(cuMemcpyHtoDAsync(x, (void *)0x1000, LARGE, s));
    SAY(cuMemcpy3DAsync(&c, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    large_show("x", x);
}
