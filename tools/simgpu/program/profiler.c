/*
 * profiler.c - cudaProfiler.h: there is never a profiler to be told.
 */
#include "tools/simgpu/device/context.h"

SIM_EXPORT CUresult cuProfilerInitialize(const char *config, const char *output, int mode);
SIM_EXPORT CUresult cuProfilerStart(void);
SIM_EXPORT CUresult cuProfilerStop(void);

static CUresult context_wanted(void)
{
    struct sim_context *ctx;
    return context_enter(&ctx);
}

SIM_EXPORT CUresult cuProfilerInitialize(const char *config, const char *output, int mode)
{
    (void)config, (void)output, (void)mode;
    return context_wanted();
}

SIM_EXPORT CUresult cuProfilerStart(void)
{
    return context_wanted();
}

SIM_EXPORT CUresult cuProfilerStop(void)
{
    return context_wanted();
}
