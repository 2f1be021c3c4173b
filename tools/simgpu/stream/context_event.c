/*
 * context_event.c - events of a whole context: a record comes behind all its streams, and in a wait
 * all of them wait.
 */
#include "tools/simgpu/stream/event.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/capture.h"
#include "tools/simgpu/stream/submit.h"

#if CUDA_VERSION >= 12050
struct streams {
    size_t count;
    struct sim_stream *at[DEVICE_STREAMS];
};

static void stream_collect(struct sim_stream *s, void *streams)
{
    struct streams *all = streams;
    if (all->count < DEVICE_STREAMS)
        all->at[all->count++] = s;
}

static void green_collect(struct sim_context *green, void *streams)
{
    stream_each(green, stream_collect, streams);
}

/* The streams of the context, and those of its green contexts if it is a primary one. */
static void streams_of(struct sim_context *ctx, struct streams *all)
{
    all->count = 0;
    stream_each(ctx, stream_collect, all);
    context_green_each(ctx, green_collect, all);
}

static CUresult context_record(struct sim_context *ctx, CUevent event)
{
    struct streams all;
    struct point tails[DEVICE_STREAMS];
    struct sim_stream *branch;
    TRY(capture_forbids_context(ctx));
    TRY(stream_branch_create(ctx, 0, &branch));
    streams_of(ctx, &all);
    for (size_t i = 0; i < all.count; i++)
        tails[i] = stream_tail(all.at[i]);
    CUresult rc = event_record_after(event, branch, tails, all.count, NULL);
    stream_destroy(branch);
    return rc;
}

/* Streams that are made later do not wait, nor does one that another thread destroys meanwhile. */
static CUresult context_wait(struct sim_context *ctx, CUevent event)
{
    struct streams all;
    struct point at = {0, 0};
    CUresult rc = CUDA_SUCCESS;
    TRY(capture_forbids_context(ctx));
    TRY(event_last_point(event, &at));
    struct work w = event_wait_work(at);
    streams_of(ctx, &all);
    for (size_t i = 0; rc == CUDA_SUCCESS && i < all.count; i++)
        if (at.stream != stream_tail(all.at[i]).stream) {
            rc = work_submit_raw(all.at[i], &w, &at, 1, NULL);
            rc = rc == CUDA_ERROR_INVALID_HANDLE ? CUDA_SUCCESS : rc;
        }
    return rc;
}

#define CONTEXT_EVENT(name, what)                                                                  \
    SIM_EXPORT CUresult cuCtx##name(CUcontext handle, CUevent event)                               \
    {                                                                                              \
        TRY(driver_ready());                                                                       \
        struct sim_context *ctx = context_find(handle);                                            \
        return ctx ? what(ctx, event) : CUDA_ERROR_INVALID_CONTEXT;                                \
    }                                                                                              \
    SIM_EXPORT CUresult cuGreenCtx##name(CUgreenCtx handle, CUevent event)                         \
    {                                                                                              \
        struct sim_context *ctx;                                                                   \
        TRY(green_find(handle, &ctx));                                                             \
        return what(ctx, event);                                                                   \
    }
CONTEXT_EVENT(RecordEvent, context_record)
CONTEXT_EVENT(WaitEvent, context_wait)
#endif
