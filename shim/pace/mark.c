/*
 * mark.c - completion markers (see mark.h).
 */
#include "shim/pace/mark.h"

#include <errno.h>
#include <stdlib.h>

#include "shim/objects/capture.h"
#include "shim/objects/thread_stream.h"
#include "common/mutant.h"

enum { RING = 32 };

/* Events in the order they were recorded, oldest at `head`. */
struct mark_ring {
    pthread_mutex_t lock;
    CUevent event[RING];
    uint32_t value[RING];
    unsigned head, count;
    uint32_t complete;
};

int mark_ring_new(struct shim_stream *s)
{
    s->ring = calloc(1, sizeof(*s->ring));
    if (!s->ring)
        return -ENOMEM;
    pthread_mutex_init(&s->ring->lock, NULL);
    return 0;
}

void mark_ring_free(struct shim_stream *s)
{
    if (!s->ring)
        return;
    struct context_scope scope = context_push(s->ctx);
    for (unsigned i = 0; i < RING; i++)
        if (s->ring->event[i])
            REAL(cuEventDestroy_v2)(s->ring->event[i]);
    context_pop(scope);
    mark_ring_forget(s);
}

void mark_ring_forget(struct shim_stream *s)
{
    free(s->ring);
    s->ring = NULL;
}

/* With the ring full, the newest event moves to where the stream is now: one value is skipped. */
static CUresult ring_record(struct mark_ring *ring, CUstream stream, uint32_t value)
{
    pthread_mutex_lock(&ring->lock);
    unsigned newest = ring->count < RING ? ring->count++ : RING - 1;
    unsigned at = (ring->head + newest) % RING;
    CUresult r = CUDA_SUCCESS;
    if (!ring->event[at])
        r = REAL(cuEventCreate)(&ring->event[at], CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS)
        r = REAL(cuEventRecord)(ring->event[at], stream);
    ring->value[at] = value;
    pthread_mutex_unlock(&ring->lock);
    return r;
}

CUresult mark_memop(CUstream stream, CUdeviceptr word, uint32_t value)
{
    if (likely(api_real[API_cuStreamWriteValue32_v2]))
        return REAL(cuStreamWriteValue32_v2)(stream, word, value, 0);
    return REAL(cuStreamWriteValue32)(stream, word, value, 0);
}

CUresult mark_gate(CUstream stream, CUdeviceptr word, uint32_t value, CUdeviceptr gate)
{
    bool closed = MUTANT(gate_not_opened) && value % 64 == 0;
    CUstreamBatchMemOpParams op[2] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                        .address = word,
                        .value = value}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = gate,
                       .value = closed,
                       .flags = closed ? CU_STREAM_WAIT_VALUE_GEQ : CU_STREAM_WAIT_VALUE_EQ}},
    };
    return REAL(cuStreamBatchMemOp_v2)(stream, 2, op, 0);
}

/* Any other one, of the same primary context though it may be, has another default stream, and
 * what is made there goes with it. */
static bool means_the_same(CUcontext handle, const struct shim_context *ctx)
{
    return handle == ctx->handle || handle == ctx->base;
}

/* The application's thread may have another context current, or none. */
static struct context_scope context_here(const struct shim_stream *s)
{
    if (likely(vhq_in_dispatcher() || means_the_same(context_handle(), s->ctx)))
        return (struct context_scope){.pushed = false};
    return context_push(s->ctx);
}

bool mark_nameable(const struct shim_stream *s)
{
    if (!s->undeferred)
        return true;
    return s->per_thread ? thread_stream_mine(s) : context_handle() == s->ctx->handle;
}

/* A stream that must not be marked says so: to its vHQ what is in it counts as complete then. */
static bool mark_refused(const struct shim_stream *s)
{
    return !mark_nameable(s) || (capture_any() && capture_active(s->handle));
}

static CUresult value_write(struct shim_stream *s, uint32_t value, CUdeviceptr gate)
{
    if (mark_refused(s))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    struct context_scope scope = context_here(s);
    CUresult r = gate      ? mark_gate(s->handle, s->word_device, value, gate)
                 : s->ring ? ring_record(s->ring, s->handle, value)
                           : mark_memop(s->handle, s->word_device, value);
    context_pop(scope);
    return r;
}

/* Any work in the legacy stream spoils the capture of a blocking one, so no such may begin between
 * the look and the marker, which may have to wait for room in the stream. Other streams are marked
 * in turns, and so do their captures begin. */
CUresult mark_write_gate(struct shim_stream *s, uint32_t value, CUdeviceptr gate)
{
    bool legacy = s->kind == VHQ_LEGACY;
    if (legacy)
        pthread_mutex_lock(&capture_legacy);
    bool lost = MUTANT(marker_lost) && value % 8 == 0;
    CUresult r = lost ? CUDA_SUCCESS : value_write(s, value, gate);
    if (legacy)
        pthread_mutex_unlock(&capture_legacy);
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
        return true; /* as where a marker is refused */
    struct context_scope scope = context_here(s);
    CUresult r = capture_query(s->handle, &captures);
    context_pop(scope);
    return r != CUDA_ERROR_NOT_READY;
}

uint32_t mark_poll(void *user, struct vhq *q, void *stream)
{
    struct shim_stream *s = vhq_user(q);
    struct mark_ring *ring = s->ring;
    if (!ring)
        return 0;
    struct context_scope scope = context_push(s->ctx);
    pthread_mutex_lock(&ring->lock);
    while (ring->count && REAL(cuEventQuery)(ring->event[ring->head]) != CUDA_ERROR_NOT_READY) {
        ring->complete = ring->value[ring->head];
        ring->head = (ring->head + 1) % RING;
        ring->count--;
    }
    uint32_t complete = ring->complete;
    pthread_mutex_unlock(&ring->lock);
    context_pop(scope);
    return complete;
}
