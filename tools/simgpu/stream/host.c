/*
 * host.c - host functions in streams: cuLaunchHostFunc, and the older cuStreamAddCallback. The
 * latter is called even if the context has failed.
 */
#include "tools/simgpu/device/context.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/submit.h"

static CUresult host_effect(struct work *w)
{
    CUhostFn fn;
    *(void **)&fn = w->args.ptr[0];
    fn(w->args.ptr[1]);
    return CUDA_SUCCESS;
}

CUresult host_prepare(CUhostFn fn, void *data, struct work *w)
{
    if (!fn)
        return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){.kind = WORK_HOST,
                       .name = "host_func",
                       .effect = host_effect,
                       .node_type = CU_GRAPH_NODE_TYPE_HOST};
    w->args.ptr[0] = *(void **)&fn;
    w->args.ptr[1] = data;
    return CUDA_SUCCESS;
}

static CUresult launch_host(CUstream stream, CUhostFn fn, void *data, bool ptds)
{
    struct work w;
    TRY(host_prepare(fn, data, &w));
    return work_submit(stream, ptds, &w, false);
}
STREAM_API(cuLaunchHostFunc, (CUstream s, CUhostFn fn, void *data), launch_host(s, fn, data, ptds))

/* 13.1 lets the caller say how the thread that will run it waits. Ours sleeps either way. */
enum { HOST_BLOCKING, HOST_SPINS };
STREAM_API(cuLaunchHostFunc_v2, (CUstream s, CUhostFn fn, void *data, unsigned int mode),
           mode <= HOST_SPINS ? launch_host(s, fn, data, ptds) : CUDA_ERROR_INVALID_VALUE)

static CUresult callback_effect(struct work *w)
{
    struct sim_context *ctx = (struct sim_context *)(void *)w->context;
    CUstreamCallback fn;
    *(void **)&fn = w->args.ptr[0];
    fn(w->args.ptr[2], atomic_load(&ctx->error), w->args.ptr[1]);
    return CUDA_SUCCESS;
}

static CUresult add_callback(CUstream stream, CUstreamCallback fn, void *data, unsigned int flags,
                             bool ptds)
{
    struct work w = {.kind = WORK_HOST,
                     .name = "callback",
                     .effect = callback_effect,
                     .even_on_error = true,
                     .node_type = CU_GRAPH_NODE_TYPE_HOST};
    struct sim_stream *s;
    if (!fn || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    TRY(stream_arg(stream, ptds, NULL, &s));
    TRY(capture_forbids_stream(s)); /* a graph cannot hold a callback */
    w.args.ptr[0] = *(void **)&fn;
    w.args.ptr[1] = data;
    w.args.ptr[2] = stream;
    return work_submit_stream(s, &w, NULL);
}
STREAM_API(cuStreamAddCallback, (CUstream s, CUstreamCallback fn, void *data, unsigned int flags),
           add_callback(s, fn, data, flags, ptds))
