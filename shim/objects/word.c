/*
 * word.c - completion words (see word.h).
 */
#include "shim/objects/word.h"

#include <stdlib.h>
#include <utlist.h>

#include "common/mutant.h"
#include "shim/objects/context.h"

/* One page of pinned memory, a cache line per word: the host polls one while the GPU writes
 * others. */
enum { WORDS = 64, WORD_BYTES = 64 };
struct word_page {
    struct word_page *next;
    char *host;
    CUdeviceptr device;
    uint64_t used;    /* one bit per word */
    uint64_t leaving; /* given back, the GPU has not written `last` yet */
    uint32_t last[WORDS];
};

static _Atomic uint32_t *word_at(struct word_page *page, unsigned i)
{
    return (_Atomic uint32_t *)(void *)(page->host + i * WORD_BYTES);
}

static void words_reclaim(struct word_page *page)
{
    for (unsigned i = 0; page->leaving && i < WORDS; i++)
        if ((page->leaving >> i & 1) && atomic_load(word_at(page, i)) == page->last[i]) {
            page->leaving &= ~(UINT64_C(1) << i);
            page->used &= ~(UINT64_C(1) << i);
        }
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

static struct word_page *words_with_room(struct shim_context *ctx)
{
    for (struct word_page *page = ctx->words; page; page = page->next) {
        if (page->used == UINT64_MAX)
            words_reclaim(page);
        if (page->used != UINT64_MAX)
            return page;
    }
    return NULL;
}

_Atomic uint32_t *word_get(struct shim_context *ctx, CUdeviceptr *device)
{
    if (!ctx->memops)
        return NULL;
    pthread_mutex_lock(&ctx->lock);
    _Atomic uint32_t *word = NULL;
    struct word_page *page = words_with_room(ctx);
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

/*
 * Attributes tell of memops version 1 only, and a driver may refuse them for reasons of its own: so
 * try one. Its word is never used again, because nobody waits for the write.
 */
bool words_probe(struct shim_context *ctx)
{
    CUstream stream;
    bool works = false;
    struct word_page *page = words_new(ctx);
    if (!page)
        return false;
    page->used = 1;
    LL_PREPEND(ctx->words, page); /* nobody else knows the context yet */
    struct context_scope scope = context_push(ctx);
    if (REAL(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS) {
        works = word_write(stream, page->device, 1) == CUDA_SUCCESS;
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
