/*
 * unknown_linked.c - a program that is linked with a driver function that is in nobody's table: it
 * does not overtake what was deferred, although nobody stands in front of it.
 */
#include "tests/hazards/hazard.h"

CUresult cuSimgpuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);

HAZARD(linked_with_it_keeps_its_order)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = buffer_new(0);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuSimgpuMemcpyAsync(y, x, BYTES, s));
    SAY(launch_mix(x, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copy", y);
    show("source", x);
}
