/*
 * public.c - the functions that are cutin's own (see cutin.h): they act on queues of streams, and
 * take hints of the program.
 *
 * To the scheduler a section is work like any other, from cutin_section_begin to cutin_section_end.
 */
#define CUTIN_LIBRARY
#include "shim/cutin.h"

#include <errno.h>

#include "common/thread.h"
#include "scheduler/client/client.h"
#include "shim/objects/stream.h"
#include "shim/path/call.h"

EXPORT const char *cutin_version(void)
{
    return CUTIN_VERSION;
}

/* CUDA_SUCCESS: the stream has a queue, which stays alive until context_put. */
static CUresult queue_enter(CUstream stream, struct shim_stream **known, struct shim_context **ctx)
{
    struct shim_stream *s = *known = call_stream(&stream, false);
    if (!s)
        return thread_bypasses() ? CUTIN_NOT_LOADED : CUDA_ERROR_INVALID_HANDLE;
    if (!s->q)
        return CUDA_ERROR_NOT_SUPPORTED;
    *ctx = s->ctx;
    context_get(*ctx); /* another thread may be destroying the context */
    return CUDA_SUCCESS;
}

EXPORT unsigned int cutin_stream_reset(CUstream stream)
{
    struct shim_context *ctx;
    struct shim_stream *s;
    if (queue_enter(stream, &s, &ctx) != CUDA_SUCCESS)
        return 0;
    unsigned int dropped = vhq_reset(s->q);
    context_put(ctx);
    return dropped;
}

EXPORT unsigned int cuResetHQ(CUstream stream)
{
    return cutin_stream_reset(stream);
}

static CUresult with_queue(CUstream stream, void (*act)(struct vhq *))
{
    struct shim_context *ctx;
    struct shim_stream *s;
    CUresult r = queue_enter(stream, &s, &ctx);
    if (r == CUDA_SUCCESS) {
        act(s->q);
        context_put(ctx);
    }
    return r;
}

EXPORT CUresult cutin_stream_hold(CUstream stream)
{
    return with_queue(stream, vhq_hold);
}

EXPORT CUresult cutin_stream_release(CUstream stream)
{
    return with_queue(stream, vhq_release);
}

EXPORT CUresult cutin_stream_state(CUstream stream, struct cutin_stream_state *state)
{
    struct shim_context *ctx;
    struct shim_stream *s;
    if (!state || state->size != sizeof(*state))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult r = queue_enter(stream, &s, &ctx);
    if (!s)
        return r;
    *state = (struct cutin_stream_state){.size = sizeof(*state), .level = s->level};
    if (r != CUDA_SUCCESS)
        return CUDA_SUCCESS;
    struct vhq_stats stats;
    vhq_get_stats(s->q, &stats);
    state->queued = 1;
    state->held = (client_held(ctx->gpu->index, s->level) ? CUTIN_HELD_BY_OTHERS : 0) |
                  (vhq_held(s->q) ? CUTIN_HELD_BY_PROGRAM : 0);
    state->buffered = stats.buffered_now;
    state->in_flight = stats.in_flight_now + (uint32_t)counters_pending(s);
    state->submitted = stats.submitted;
    state->dropped = stats.dropped;
    context_put(ctx);
    return CUDA_SUCCESS;
}

/* ---- hints: levels, what will come ----------------------------------------------------------- */

static CUresult level_allowed(int level)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    if (config_get()->stream_priority == STREAM_PRIORITY_FLAT)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (level >= CUTIN_LEVELS)
        return CUDA_ERROR_INVALID_VALUE;
    /* Before the first context the daemon has not been asked which level it grants. */
    bool asked = atomic_load_explicit(&context_count, memory_order_relaxed);
    uint32_t most = asked ? client_level() : config_get()->level;
    return level > (int)most ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

EXPORT CUresult cutin_thread_set_level(int level)
{
    CUresult r = level < CUTIN_LEVEL_OF_PROCESS ? CUDA_ERROR_INVALID_VALUE : level_allowed(level);
    if (r == CUDA_SUCCESS)
        thread_level_wanted = level;
    return r;
}

EXPORT CUresult cutin_stream_set_level(CUstream stream, unsigned int level)
{
    CUresult r = level_allowed(level < CUTIN_LEVELS ? (int)level : CUTIN_LEVELS);
    if (r != CUDA_SUCCESS)
        return r;
    struct shim_stream *s = call_stream(&stream, false);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (stream_is_default(stream))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (capture_active(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (s->level == level)
        return CUDA_SUCCESS;
    if (s->q)
        vhq_release(s->q);
    r = cuStreamSynchronize(stream);
    if (r == CUDA_SUCCESS) {
        /* To the shim, the stream goes and another one with the same handle comes. */
        CUstream handle = s->handle;
        struct shim_context *ctx = s->ctx;
        int keep = thread_level_wanted;
        context_get(ctx);
        bool captures = capture_active(s);
        stream_leave(s);
        if (s->q)
            vhq_release(s->q);
        stream_end(s, !captures);
        thread_level_wanted = (int)level;
        stream_created(handle);
        thread_level_wanted = keep;
        context_put(ctx);
    }
    return r;
}

/* The device of the current context, and the level of this thread's work there. */
static CUresult where(int *device, uint32_t *level)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    const struct shim_context *ctx = context_current();
    if (!ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    *device = ctx->gpu->index;
    *level = client_level();
    if (thread_level_wanted >= 0 && (uint32_t)thread_level_wanted < *level)
        *level = (uint32_t)thread_level_wanted;
    return *device < 0 || *level == CUTIN_LEVEL_BE ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

EXPORT CUresult cutin_hint_soon(unsigned int us)
{
    int device, keep = errno;
    uint32_t level;
    CUresult r = where(&device, &level);
    if (r == CUDA_SUCCESS)
        client_announce(device, level, us);
    errno = keep;
    return r;
}

EXPORT CUresult cutin_hint_deadline(unsigned int us)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    client_hint_deadline(us);
    return CUDA_SUCCESS;
}

/* The section that this thread is in. */
static _Thread_local struct {
    unsigned depth;
    int device;
    uint32_t level;
} section __attribute__((tls_model("initial-exec")));

static void thread_ended(void *unused)
{
    if (section.depth && !thread_bypasses())
        client_work_end(section.device, section.level);
    section.depth = 0;
}

EXPORT CUresult cutin_section_begin(void)
{
    static _Atomic unsigned key;
    int keep = errno;
    CUresult r = CUDA_SUCCESS;
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    if (section.depth == 0) {
        r = where(&section.device, &section.level);
        if (r == CUDA_SUCCESS && !thread_at_end(&key, thread_ended))
            r = CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS)
            client_work_begin(section.device, section.level);
    }
    section.depth += r == CUDA_SUCCESS;
    errno = keep;
    return r;
}

EXPORT CUresult cutin_section_end(void)
{
    if (thread_bypasses())
        return CUTIN_NOT_LOADED;
    if (section.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (--section.depth == 0)
        client_work_end(section.device, section.level);
    return CUDA_SUCCESS;
}
