/*
 * mark.c - completion markers: how the host learns what a stream has finished.
 *
 * A marker is a small stream-ordered write of a rising value to the stream's completion word. Where
 * the device has no memops, a marker is an event from the stream's own ring, and polling queries
 * it.
 */
#include "shim/pace/pace.h"

#include "shim/objects/word.h"

/* The application's thread may have another context current, or none. */
static struct context_scope context_here(const struct shim_stream *s)
{
    if (likely(vhq_in_dispatcher()))
        return (struct context_scope){.pushed = false};
    return context_push_other(s->ctx);
}

bool mark_nameable(const struct shim_stream *s)
{
    if (!s->undeferred)
        return true;
    return s->per_thread ? stream_is_own(s) : context_current_handle() == s->ctx->handle;
}

/* Refuses a stream that must not be marked: its vHQ then counts what is in it as complete. */
CUresult mark_write_gate(struct shim_stream *s, uint32_t value, CUdeviceptr gate)
{
    /* In any other stream both markers and the begin of a capture take the stream's turn. */
    bool legacy = s->kind == VHQ_LEGACY;
    if (!mark_nameable(s) || (legacy ? !capture_enter(s) : capture_active(s)))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct context_scope scope = context_here(s);
    CUresult r = MUTANT(marker_lost) && value % 8 == 0 ? CUDA_SUCCESS
                 : gate    ? word_write_gate(s->handle, s->word_device, value, gate)
                 : s->ring ? mark_ring_record(s->ring, s->handle, value)
                           : word_write(s->handle, s->word_device, value);
    context_pop(scope);
    if (legacy)
        capture_leave(s);
    if (r == CUDA_SUCCESS)
        atomic_store_explicit(&s->marked, value, memory_order_relaxed);
    return r;
}

int mark_write(void *user, struct vhq *q, void *stream, uint32_t value)
{
    return (int)mark_write_gate(vhq_user(q), value, 0);
}

bool mark_complete(void *user, struct vhq *q, void *stream)
{
    struct shim_stream *s = vhq_user(q);
    bool captures;
    if (!mark_nameable(s))
        return true; /* as if a marker were refused */
    struct context_scope scope = context_here(s);
    CUresult r = capture_query(s, &captures);
    context_pop(scope);
    return r != CUDA_ERROR_NOT_READY;
}
