/*
 * external.c - calls that take their place in a stream and are never deferred: they come behind all
 * that their own stream has buffered, whichever context is current, and behind nothing else.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(external, .init = rig_open, .fini = rig_close);

/* From cudaGL.h, whose other types need headers of OpenGL. */
CUresult cuGLUnmapBufferObjectAsync(unsigned int buffer, CUstream stream);

static CUexternalSemaphore semaphore;
static CUgraphicsResource resource;

/* The simulated driver has none of these, and says so. */
static CUresult signal_semaphore(CUstream s)
{
    static CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params;
    return cuSignalExternalSemaphoresAsync(&semaphore, &params, 1, s);
}
static CUresult wait_semaphore(CUstream s)
{
    static CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params;
    return cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, s);
}
static CUresult map_resource(CUstream s)
{
    return cuGraphicsMapResources(1, &resource, s);
}
static CUresult unmap_resource(CUstream s)
{
    return cuGraphicsUnmapResources(1, &resource, s);
}
static CUresult unmap_buffer(CUstream s)
{
    return cuGLUnmapBufferObjectAsync(1, s);
}

struct caller {
    CUresult (*call)(CUstream s);
    CUstream stream;
    CUcontext current;
    struct rig_thread thread;
};

static void call(void *user)
{
    struct caller *c = user;
    ok(cuCtxSetCurrent(c->current));
    answers(CUDA_ERROR_NOT_SUPPORTED, c->call(c->stream));
}

/* Returns a held stream with work buffered. */
static CUstream held_stream(void)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    ok(cuMemsetD32Async(x, 0, N, s));
    ok(cuStreamSynchronize(s));
    ok(cutin_stream_hold(s));
    ok(cuMemsetD32Async(x, 7, N, s));
    return s;
}

Test(external, call_waits_for_buffered_work_of_its_stream)
{
    static CUresult (*const calls[])(CUstream s) = {signal_semaphore, wait_semaphore, map_resource,
                                                    unmap_resource, unmap_buffer};
    enum { CALLS = sizeof(calls) / sizeof(*calls) };
    static struct caller callers[CALLS];
    rig_context_new();
    CUstream s = held_stream();
    ok(cuCtxSetCurrent(rig_context));
    for (int i = 0; i < CALLS; i++) {
        callers[i] = (struct caller){.call = calls[i], .stream = s, .current = rig_context};
        rig_start(&callers[i].thread, call, &callers[i]);
        rig_blocked(&callers[i].thread);
    }
    ok(cutin_stream_release(s));
    for (int i = 0; i < CALLS; i++)
        rig_join(&callers[i].thread);
}

Test(external, call_waits_for_no_other_stream)
{
    static CUresult (*const calls[])(CUstream s) = {signal_semaphore, map_resource, unmap_resource};
    CUstream held = held_stream(), s = rig_stream();
    for (int i = 0; i < 3; i++) {
        struct caller c = {.call = calls[i], .stream = s, .current = rig_context};
        rig_start(&c.thread, call, &c);
        rig_until(&c.thread.returned);
        rig_join(&c.thread);
    }
    ok(cutin_stream_release(held));
    ok(cuCtxSynchronize());
}
