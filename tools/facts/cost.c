/*
 * cost.c - what the operations cost that cutin adds to a stream: for the thread that queues them,
 * and for the stream.
 */
#include <sys/prctl.h>

#include "gpu.h"

enum {
    SAMPLES = 2048,
    QUICK_SAMPLES = 256,
    CHUNK = 64,    /* calls between two waits for the stream */
    IN_STREAM = 64 /* operations in a row (a launch, a marker and a gate at most) that fit */
};

static struct {
    CUstream stream;
    CUevent event, done;
    CUdeviceptr memory;
    void *host;
    struct word mark, open;
    uint32_t next;
} it;

GPU_CALL(launch, gpu_spin(it.stream, 1, 0))
GPU_CALL(event_record, gpu.cuEventRecord(it.event, it.stream))
GPU_CALL(event_wait, gpu.cuStreamWaitEvent(it.stream, it.done, 0))
GPU_CALL(marker, mark_enqueue(it.stream, it.mark.device, ++it.next))
GPU_CALL(marker_no_barrier, gpu.cuStreamWriteValue32(it.stream, it.mark.device, ++it.next,
                                                     CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))
GPU_CALL(open_gate, gate_enqueue(it.stream, it.open.device))
GPU_CALL(batch, batch_enqueue(it.stream, it.mark.device, ++it.next, it.open.device))
GPU_CALL(copy, gpu.cuMemcpyHtoDAsync(it.memory, it.host, 64, it.stream))
GPU_CALL(event_query, gpu.cuEventQuery(it.done))
GPU_CALL(synchronize, gpu.cuStreamSynchronize(it.stream))

static CUresult launch_and(CUresult (*other)(void))
{
    CUresult result = launch();

    return result ? result : other();
}

GPU_CALL(launch_event, launch_and(event_record))
GPU_CALL(launch_marker, launch_and(marker))
GPU_CALL(launch_batch, launch_and(batch))

static CUresult stream_query(void)
{
    CUresult result = gpu.cuStreamQuery(it.stream);

    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

static const struct cost {
    const char *name;
    CUresult (*call)(void);
    bool in_stream;
} costs[] = {
    {"launch", launch, true},
    {"event_record", event_record, true},
    {"event_wait", event_wait, true},
    {"marker", marker, true},
    {"marker_no_barrier", marker_no_barrier, true},
    {"open_gate", open_gate, true},
    {"batch_marker_gate", batch, true},
    {"launch_event", launch_event, true},
    {"launch_marker", launch_marker, true},
    {"launch_batch", launch_batch, true},
    {"copy_64_bytes", copy, true},
    {"stream_query", stream_query, false},
    {"event_query", event_query, false},
    {"synchronize_idle", synchronize, false},
};

/* Measures what the calling thread pays. */
static CUresult time_host(const struct cost *c)
{
    static uint64_t ns[SAMPLES];
    size_t n = fact_quick ? QUICK_SAMPLES : SAMPLES;
    char key[64];

    for (size_t i = 0; i < n; i++) {
        uint64_t before = clock_ns();
        CUresult result = c->call();

        ns[i] = clock_ns() - before;
        if (result != CUDA_SUCCESS)
            return result;
        if (i % CHUNK == CHUNK - 1)
            CU(cuStreamSynchronize, it.stream);
    }
    snprintf(key, sizeof(key), "%s_host_us", c->name);
    fact_samples(key, ns, n);
    return CUDA_SUCCESS;
}

/* Measures what the stream pays: many operations in a row between two events. They are behind a
 * kernel so long that all of them are queued before the first begins. */
static void time_stream(const struct cost *c)
{
    CUevent from, to;
    float ms = 0;
    char key[64];

    CU(cuEventCreate, &from, CU_EVENT_DEFAULT);
    CU(cuEventCreate, &to, CU_EVENT_DEFAULT);
    gpu_check(gpu_spin(it.stream, 1, 20000), "cuLaunchKernel");
    CU(cuEventRecord, from, it.stream);
    for (int i = 0; i < IN_STREAM; i++)
        gpu_check(c->call(), c->name);
    CU(cuEventRecord, to, it.stream);
    CU(cuStreamSynchronize, it.stream);
    CU(cuEventElapsedTime_v1, &ms, from, to);
    CU(cuEventDestroy, from);
    CU(cuEventDestroy, to);
    snprintf(key, sizeof(key), "%s_stream_us", c->name);
    fact_number(key, (double)ms * 1000 / IN_STREAM);
}

/* Naps between polls in every other round. A thread that spins keeps its processor from a simulated
 * GPU, also a thread. One that naps sees a real GPU's write late on a busy machine. */
static void poll_pause(int round)
{
    if (round % 2)
        clock_sleep_us(10);
}

/* How much later a thread sees a marker in memory than an event tells, at best. On a busy machine
 * many are late, but not all of them for seconds. */
static void time_marker(void)
{
    enum { ROUNDS = 16, PATIENCE_MS = 20, ROUNDS_MS = 3000, LATE_NS = 100000 };
    uint64_t event_ns = UINT64_MAX, marker_ns = UINT64_MAX, first_ns = clock_ns(), began_ns, ns;

    prctl(PR_SET_TIMERSLACK, 1UL);
    for (int i = 0; i < ROUNDS || (marker_ns > event_ns + LATE_NS &&
                                   clock_ns() - first_ns < ROUNDS_MS * UINT64_C(1000000));
         i++) {
        began_ns = clock_ns();
        gpu_check(event_record(), "cuEventRecord");
        while (gpu.cuEventQuery(it.event) == CUDA_ERROR_NOT_READY)
            poll_pause(i);
        ns = clock_ns() - began_ns;
        event_ns = ns < event_ns ? ns : event_ns;
        began_ns = clock_ns();
        if (marker() != CUDA_SUCCESS)
            return;
        while (word_get(it.mark) != it.next &&
               clock_ns() - began_ns < PATIENCE_MS * UINT64_C(1000000))
            poll_pause(i);
        ns = clock_ns() - began_ns;
        marker_ns = ns < marker_ns ? ns : marker_ns;
    }
    fact_number("marker_late_us", marker_ns > event_ns ? (double)(marker_ns - event_ns) / 1000 : 0);
}

void fact_cost(void)
{
    gpu_open();
    it.stream = stream_new();
    it.mark = word_new();
    it.open = word_new();
    CU(cuEventCreate, &it.event, CU_EVENT_DISABLE_TIMING);
    CU(cuEventCreate, &it.done, CU_EVENT_DISABLE_TIMING);
    CU(cuEventRecord, it.done, it.stream);
    CU(cuMemAlloc, &it.memory, 64);
    CU(cuMemAllocHost, &it.host, 64);
    CU(cuStreamSynchronize, it.stream);
    time_marker();
    for (size_t i = 0; i < sizeof(costs) / sizeof(costs[0]); i++) {
        char key[64];
        CUresult result = time_host(&costs[i]);

        if (result == CUDA_SUCCESS) {
            if (costs[i].in_stream)
                time_stream(&costs[i]);
            continue;
        }
        snprintf(key, sizeof(key), "%s_error", costs[i].name);
        fact_text(key, "%s", gpu_error(result));
    }
}
