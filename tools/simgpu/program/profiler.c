/*
 * profiler.c - cudaProfiler.h: there is never a profiler to be told.
 */
#include "tools/simgpu/device/context.h"

SIM_EXPORT CUresult cuProfilerInitialize(const char *config, const char *output, int mode);
SIM_EXPORT CUresult cuProfilerStart(void);
SIM_EXPORT CUresult cuProfilerStop(void);

SIM_EXPORT CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
    (void)config, (void)output, (void)mode;
    return cuProfilerStart();
}

SIM_EXPORT CUresult cuProfilerStart(void)
{
    return context_enter(NULL);
}
SIM_ALIAS(cuProfilerStop, (void), cuProfilerStart)
