/*
 * mark_ring.c - markers by events (see mark_ring.h).
 */
#include "shim/objects/mark_ring.h"

#include <errno.h>
#include <stdlib.h>

#include "shim/objects/context.h"

enum { RING = 32 };

/* Events in the order of their records, the oldest at `head`. `head` is not reduced modulo RING. */
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

/* If the ring is full, its newest event is recorded again, so one value is skipped. One marker of a
 * stream is recorded at a time, and until then its event is not among those that are queried. */
CUresult mark_ring_record(struct mark_ring *ring, CUstream stream, uint32_t value)
{
    pthread_mutex_lock(&ring->lock);
    ring->count -= ring->count == RING;
    unsigned at = (ring->head + ring->count) % RING;
    pthread_mutex_unlock(&ring->lock);
    CUresult r = CUDA_SUCCESS;
    if (!ring->event[at])
        r = REAL(cuEventCreate)(&ring->event[at], CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS)
        r = REAL(cuEventRecord)(ring->event[at], stream);
    pthread_mutex_lock(&ring->lock);
    ring->value[at] = value;
    ring->count++;
    pthread_mutex_unlock(&ring->lock);
    return r;
}

uint32_t mark_ring_poll(const struct shim_stream *s)
{
    struct mark_ring *ring = s->ring;
    if (!ring)
        return 0;
    struct context_scope scope = context_push(s->ctx);
    pthread_mutex_lock(&ring->lock);
    while (ring->count) {
        unsigned head = ring->head;
        pthread_mutex_unlock(&ring->lock);
        bool over = REAL(cuEventQuery)(ring->event[head % RING]) != CUDA_ERROR_NOT_READY;
        pthread_mutex_lock(&ring->lock);
        if (!over)
            break;
        if (ring->head == head && ring->count) { /* no other thread has counted it */
            ring->complete = ring->value[head % RING];
            ring->head++;
            ring->count--;
        }
    }
    uint32_t complete = ring->complete;
    pthread_mutex_unlock(&ring->lock);
    context_pop(scope);
    return complete;
}
