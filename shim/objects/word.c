/*
 * word.c - completion words (see word.h).
 */
#include "shim/objects/word.h"

#include <sched.h>
#include <stdlib.h>
#include <utlist.h>

#include "common/clock.h"

/* One page of pinned memory with a cache line for each word: the host polls one while the GPU
 * writes others. */
enum { WORDS = 64, WORD_BYTES = 64 };
struct word_page {
    struct word_page *next;
    char *host;
    CUdeviceptr device;
    uint64_t used;    /* one bit per word */
    uint64_t leaving; /* given back, but the GPU has not written `last` yet */
    uint32_t last[WORDS];
};

static _Atomic uint32_t *word_at(struct word_page *page, unsigned i)
{
    return (_Atomic uint32_t *)(void *)(page->host + i * WORD_BYTES);
}

/* False: the page has no free word. */
static bool words_reclaim(struct word_page *page)
{
    for (unsigned i = 0; page->leaving && i < WORDS; i++)
        if ((page->leaving >> i & 1) && atomic_load(word_at(page, i)) == page->last[i]) {
            page->leaving &= ~(UINT64_C(1) << i);
            page->used &= ~(UINT64_C(1) << i);
        }
    return page->used != UINT64_MAX;
}

static struct word_page *words_new(struct shim_context *ctx)
{
    struct word_page *page = calloc(1, sizeof(*page));
    if (!page)
        return NULL;
    struct context_scope scope = context_push(ctx);
    void *host = NULL;
    CUresult r = REAL(cuMemHostAlloc)(&host, (size_t)WORDS * WORD_BYTES,
                                      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    if (r == CUDA_SUCCESS)
        r = REAL(cuMemHostGetDevicePointer_v2)(&page->device, host, 0);
    context_pop(scope);
    if (r != CUDA_SUCCESS) {
        free(page);
        return NULL;
    }
    page->host = host;
    return page;
}

_Atomic uint32_t *word_get(struct shim_context *ctx, CUdeviceptr *device)
{
    if (!ctx->memops)
        return NULL;
    pthread_mutex_lock(&ctx->lock);
    _Atomic uint32_t *word = NULL;
    struct word_page *page = ctx->words;
    while (page && page->used == UINT64_MAX && !words_reclaim(page))
        page = page->next;
    if (!page) {
        pthread_mutex_unlock(&ctx->lock);
        page = words_new(ctx);
        pthread_mutex_lock(&ctx->lock);
        if (page)
            LL_PREPEND(ctx->words, page);
    }
    if (page) {
        unsigned i = (unsigned)__builtin_ctzll(~page->used);
        page->used |= UINT64_C(1) << i;
        word = word_at(page, i);
        atomic_store(word, 0);
        *device = page->device + i * WORD_BYTES;
    }
    pthread_mutex_unlock(&ctx->lock);
    return word;
}

void word_put(struct shim_context *ctx, _Atomic uint32_t *word, uint32_t last)
{
    pthread_mutex_lock(&ctx->lock);
    for (struct word_page *page = ctx->words; page; page = page->next) {
        ptrdiff_t at = (char *)word - page->host;
        if (at < 0 || at >= WORDS * WORD_BYTES)
            continue;
        page->last[at / WORD_BYTES] = last;
        page->leaving |= UINT64_C(1) << (at / WORD_BYTES);
        words_reclaim(page);
    }
    pthread_mutex_unlock(&ctx->lock);
}

CUresult word_write(CUstream stream, CUdeviceptr word, uint32_t value)
{
    if (likely(api_real[API_cuStreamWriteValue32_v2]))
        return REAL(cuStreamWriteValue32_v2)(stream, word, value, 0);
    return REAL(cuStreamWriteValue32)(stream, word, value, 0);
}

CUresult word_write_gate(CUstream stream, CUdeviceptr word, uint32_t value, CUdeviceptr gate)
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

/* ---- by events ----------------------------------------------------------------------------- */

enum { RING = 32 };

/* Events in the order of their records, the oldest at `head`. `head` is not reduced modulo RING. */
struct mark_ring {
    pthread_mutex_t lock;
    CUevent event[RING];
    uint32_t value[RING];
    unsigned head, count;
    uint32_t complete;
};

bool mark_ring_new(struct shim_stream *s)
{
    if ((s->ring = calloc(1, sizeof(*s->ring))))
        pthread_mutex_init(&s->ring->lock, NULL);
    return s->ring;
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

uint32_t mark_ring_poll(void *user, struct vhq *q, void *stream)
{
    const struct shim_stream *s = vhq_user(q);
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

/* ---- whether ------------------------------------------------------------------------------- */

enum {
    ROUNDS = 8,
    ROUNDS_NS = 200000000, /* at least, if no marker was seen in time */
    LATE_NS = 100000,      /* half of the default budget */
    BUSY_NS = 200000000,   /* by then the GPU has not come to this process */
};

/* How long the GPU takes, by an event: that is queried, not read from memory. 0: not known. */
static uint64_t event_round(CUstream stream, CUevent event)
{
    uint64_t began_ns = clock_ns(), ns = 0;
    CUresult r = REAL(cuEventRecord)(event, stream);
    while (r == CUDA_SUCCESS && (r = REAL(cuEventQuery)(event)) == CUDA_ERROR_NOT_READY &&
           (ns = clock_ns() - began_ns) < BUSY_NS) {
        r = CUDA_SUCCESS;
        sched_yield();
    }
    return r == CUDA_SUCCESS ? ns + 1 : 0;
}

/* False: the marker was seen much later than the event would have told. No driver call in between,
 * since a call may make the write visible. */
static bool word_round(CUstream stream, struct word_page *page, uint32_t value, uint64_t event_ns)
{
    uint64_t began_ns = clock_ns();
    if (word_write(stream, page->device, value) != CUDA_SUCCESS)
        return false;
    while (atomic_load(word_at(page, 0)) != value) {
        if (clock_ns() - began_ns > LATE_NS + 2 * event_ns)
            return false;
        sched_yield();
    }
    return true;
}

/* Confidential computing and WSL2 may have something between the GPU and pinned memory. A busy
 * machine looks the same in some rounds, but not in all. */
static bool words_late(CUstream stream, CUevent event, struct word_page *page)
{
    static _Atomic bool said;
    uint64_t began_ns = clock_ns(), event_ns;
    if (MUTANT(words_believed))
        return false;
    for (uint32_t i = 1; i <= ROUNDS || clock_ns() - began_ns < ROUNDS_NS; i++) {
        event_ns = event_round(stream, event);
        if (event_ns > LATE_NS) /* again, now that the GPU is at this process */
            event_ns = event_round(stream, event);
        if (!event_ns || word_round(stream, page, i, event_ns))
            return false;
    }
    if (!atomic_exchange(&said, true))
        log_line(LOG_INFO, "writes by the GPU to pinned memory arrive late: cutin learns of "
                           "completion from events and uses no gates");
    return true;
}

/*
 * Attributes tell of memops version 1 only, and a driver may refuse memops for reasons of its own,
 * so this tries one. Its word is never used again, because the last write is not waited for.
 */
bool words_probe(struct shim_context *ctx)
{
    static _Atomic uint32_t known; /* devices whose writes are late; finding that takes 0.2 s */
    const uint32_t device = ctx->gpu->index < 0 ? 0 : 1u << ctx->gpu->index;
    CUstream stream;
    CUevent event;
    bool works = false;
    struct word_page *page = atomic_load(&known) & device ? NULL : words_new(ctx);
    if (!page)
        return false;
    page->used = 1;
    LL_PREPEND(ctx->words, page); /* no other thread knows the context yet */
    struct context_scope scope = context_push(ctx);
    if (REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        works = word_write(stream, page->device, 0) == CUDA_SUCCESS;
        if (works && REAL(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS) {
            works = !words_late(stream, event, page);
            if (!works)
                atomic_fetch_or(&known, device);
            REAL(cuEventDestroy_v2)(event);
        }
        REAL(cuStreamDestroy_v2)(stream);
    }
    context_pop(scope);
    return works;
}

/* The memory itself went with the context. */
static void words_end(struct shim_context *ctx, bool alive)
{
    while (ctx->words) {
        struct word_page *page = ctx->words;
        ctx->words = page->next;
        free(page);
    }
}
CONTEXT_END(CONTEXT_ENDED, words_end)
