/*
 * link.c - the local GPU without a distance: how long copies and empty delays take.
 */
#include "tools/lab/distance/distance.h"

#include "common/clock.h"

enum { SMALL = 4096, LARGE = 256 * 1024, TIMES = 8, ROUNDS = 12, GOOD = 3 };
enum { HEAD_START_NS = 100000, MOST_NS = 3200000, PATIENCE_NS = 20000000 };

static const struct distance_link assumed = {.fixed_ns = 1500, .bytes_per_us = 12000};
static struct distance_link native;
static _Atomic int measuring; /* 1: a thread is measuring; 2: done */

struct rig {
    CUkernel kernel;
    uint64_t head_start_ns; /* the delay during which the host submits */
    CUstream stream;
    CUevent start, end;
    CUdeviceptr device;
    void *host; /* kept, because freeing it may wait for running work */
};

/* Makes two timing events. False: the driver has none. */
static bool events_make(struct rig *rig)
{
    if (DRIVER(cuEventCreate)(&rig->start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (DRIVER(cuEventCreate)(&rig->end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        return true;
    DRIVER(cuEventDestroy_v2)(rig->start);
    return false;
}

/* Gives up on a device that does not end a few copies in time. */
static bool wait_for(CUevent event)
{
    for (uint64_t from = clock_ns(); clock_ns() - from < PATIENCE_NS;) {
        CUresult r = DRIVER(cuEventQuery)(event);
        if (r != CUDA_ERROR_NOT_READY)
            return r == CUDA_SUCCESS;
    }
    return false;
}

CUresult link_delay(CUkernel k, CUstream stream, uint64_t ns)
{
    void *params[] = {&ns};
    return DRIVER(cuLaunchKernel)((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL);
}

/* One round. All is submitted while a delay runs, so that it then follows one another without
 * waiting for the host. Copies `bytes`, or runs empty delays if `bytes` is 0. `ms` negative: the
 * host was too slow. False: the device does not get to it. */
static bool round_ms(struct rig *rig, size_t bytes, float *ms)
{
    uint64_t from = clock_ns();
    link_delay(rig->kernel, rig->stream, rig->head_start_ns);
    DRIVER(cuEventRecord)(rig->start, rig->stream);
    for (int i = 0; i < TIMES && bytes; i++)
        DRIVER(cuMemcpyHtoDAsync_v2)(rig->device, rig->host, bytes, rig->stream);
    for (int i = 0; i < TIMES && !bytes; i++)
        link_delay(rig->kernel, rig->stream, 0);
    DRIVER(cuEventRecord)(rig->end, rig->stream);
    bool queued = clock_ns() - from < rig->head_start_ns; /* the delay was still running then */
    if (!wait_for(rig->end) || DRIVER(cuEventElapsedTime)(ms, rig->start, rig->end) != CUDA_SUCCESS)
        return false;
    if (queued)
        return true;
    *ms = -1;
    rig->head_start_ns *= rig->head_start_ns < MOST_NS ? 2 : 1;
    return true;
}

/* How long one of them takes: the least of several rounds; 0: not known. */
static uint64_t least_ns(struct rig *rig, size_t bytes)
{
    float least = 0, ms;
    int good = 0;
    for (int round = 0; round < ROUNDS && good < GOOD && round_ms(rig, bytes, &ms); round++)
        if (ms >= 0)
            least = good++ && least < ms ? least : ms;
    return (uint64_t)(least * 1e6f / TIMES);
}

static void link_learn(struct rig *rig)
{
    native.delay_ns = least_ns(rig, 0);
    uint64_t small_ns = least_ns(rig, SMALL), large_ns = small_ns ? least_ns(rig, LARGE) : 0;
    if (large_ns <= small_ns)
        return;
    native.bytes_per_us = (uint64_t)(LARGE - SMALL) * 1000 / (large_ns - small_ns);
    uint64_t bytes_ns = SMALL * 1000 / native.bytes_per_us;
    native.fixed_ns = small_ns > bytes_ns ? small_ns - bytes_ns : 0;
}

CUresult link_measure(CUkernel kernel)
{
    int nobody = 0;
    struct rig rig = {.kernel = kernel, .head_start_ns = HEAD_START_NS};
    if (!atomic_compare_exchange_strong(&measuring, &nobody, 1))
        return CUDA_SUCCESS;
    CUresult r = DRIVER(cuStreamCreate)(&rig.stream, CU_STREAM_NON_BLOCKING);
    if (r == CUDA_SUCCESS)
        r = link_delay(kernel, rig.stream, 0);
    if (r == CUDA_SUCCESS) {
        native = assumed;
        if (events_make(&rig)) {
            if (DRIVER(cuMemHostAlloc)(&rig.host, LARGE, CU_MEMHOSTALLOC_PORTABLE) ==
                    CUDA_SUCCESS &&
                DRIVER(cuMemAllocAsync)(&rig.device, LARGE, rig.stream) == CUDA_SUCCESS) {
                link_learn(&rig);
                DRIVER(cuMemFreeAsync)(rig.device, rig.stream);
            }
            DRIVER(cuEventDestroy_v2)(rig.end);
            DRIVER(cuEventDestroy_v2)(rig.start);
        }
        SAY(LOG_INFO,
            "measured without distance: copies to the device take %u ns and 1 us per %u bytes, an "
            "empty delay %u ns",
            (unsigned)native.fixed_ns, (unsigned)native.bytes_per_us, (unsigned)native.delay_ns);
    }
    if (rig.stream)
        DRIVER(cuStreamDestroy_v2)(rig.stream);
    atomic_store_explicit(&measuring, r == CUDA_SUCCESS ? 2 : 0, memory_order_release);
    return r;
}

struct distance_link link_get(void)
{
    return atomic_load_explicit(&measuring, memory_order_acquire) == 2 ? native : assumed;
}
