/*
 * queue.c - streams share hardware queues: which other streams of a process does a closed gate
 * stop? CUDA_DEVICE_MAX_CONNECTIONS sets the number of queues. Each of its values is a row of the
 * table in main.c, because the driver reads the variable once.
 */
#include "gpu.h"

enum { STREAMS = 48, STOPPED_MS = 300, OPENED_MS = 20000 };

static struct word marks[2 * STREAMS];

/* How many of the marked streams make no progress while the gate is closed. */
static int count_stopped(int first, int count, const uint32_t *expected)
{
    int stopped = 0;
    uint64_t end_ns = clock_ns() + STOPPED_MS * UINT64_C(1000000);

    do {
        stopped = 0;
        for (int i = first; i < first + count; i++)
            stopped += word_get(marks[i]) != *expected;
    } while (stopped > 0 && clock_ns() < end_ns);
    return stopped;
}

void fact_queue(void)
{
    CUstream gated, streams[2 * STREAMS];
    struct word gate;
    int least, greatest, stopped, urgent_stopped;
    uint32_t value = 1;

    gpu_open();
    need_memops();
    CU(cuCtxGetStreamPriorityRange, &least, &greatest);
    gate = word_new();
    CU(cuStreamCreateWithPriority, &gated, CU_STREAM_NON_BLOCKING, least);
    for (int i = 0; i < 2 * STREAMS; i++) {
        CU(cuStreamCreateWithPriority, &streams[i], CU_STREAM_NON_BLOCKING,
           i < STREAMS ? least : greatest);
        marks[i] = word_new();
        gpu_check(gpu_spin(streams[i], 1, 1), "cuLaunchKernel");
    }
    gpu_check(gpu_spin(gated, 1, 1), "cuLaunchKernel");
    gpu_check(gpu.cuCtxSynchronize(), "cuCtxSynchronize");

    word_set(gate, 1);
    gpu_check(gate_enqueue(gated, gate.device), "cuStreamWaitValue32");
    gpu_check(gpu_spin(gated, 1, 1), "cuLaunchKernel");
    for (int i = 0; i < 2 * STREAMS; i++) {
        gpu_check(gpu_spin(streams[i], 1, 1), "cuLaunchKernel");
        gpu_check(mark_enqueue(streams[i], marks[i].device, value), "cuStreamWriteValue32");
    }
    stopped = count_stopped(0, STREAMS, &value);
    urgent_stopped = count_stopped(STREAMS, STREAMS, &value);
    fact_value("streams", json_integer(STREAMS));
    fact_value("stopped_of_same_priority", json_integer(stopped));
    if (greatest != least)
        fact_value("stopped_of_greatest_priority", json_integer(urgent_stopped));
    word_set(gate, 0);
    for (uint64_t end_ns = clock_ns() + OPENED_MS * UINT64_C(1000000);
         gpu.cuStreamQuery(gated) == CUDA_ERROR_NOT_READY; clock_sleep_us(1000))
        if (clock_ns() > end_ns)
            fact_fail("the gated stream did not end %d ms after the gate was opened", OPENED_MS);
}
