/*
 * profiler.c - with a profiler attached nothing is buffered: it would see calls at another time and
 * in another thread than the program made them. And the same where the driver's launches block.
 */
#include "tests/hazards/hazard.h"

static void launches_return_when_the_hold_is_over(void)
{
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    for (uint32_t i = 0; i < 3; i++) {
        hold(s);
        SAY(launch_mix(x, 5, i, s));
        printf("returned while held: %d\n", held(s));
        release(s);
        hold(s);
        SAY(cuMemsetD32Async(x, i, N / 2, s));
        printf("returned while held: %d\n", held(s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

HAZARD_RAW(nothing_is_buffered_with_a_profiler_attached)
{
    setenv("CUDA_INJECTION64_PATH", "/nonexistent/libprofiler.so", 1);
    launches_return_when_the_hold_is_over();
}

HAZARD_RAW(nothing_is_buffered_where_launches_block)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    launches_return_when_the_hold_is_over();
}
