/*
 * departed.c - work of streams that are gone (see departed.h).
 */
#include "shim/pace/departed.h"

#include <stdlib.h>
#include <utlist.h>

#include "scheduler/client/client.h"
#include "shim/objects/capture.h"
#include "shim/objects/schedule.h"
#include "common/mutant.h"
#include "shim/objects/context.h"

struct departed {
    CUevent end; /* NULL: of a thread's own stream, which the legacy stream follows */
    uint32_t level;
    uint32_t ticks; /* in which it has not ended */
    struct departed *next;
};

static bool end_record(struct shim_stream *s, CUevent *end)
{
    struct context_scope scope = context_push(s->ctx);
    CUresult r = REAL(cuEventCreate)(end, CU_EVENT_DISABLE_TIMING);
    if (r == CUDA_SUCCESS && (r = REAL(cuEventRecord)(*end, s->handle)) != CUDA_SUCCESS)
        REAL(cuEventDestroy_v2)(*end);
    context_pop(scope);
    return r == CUDA_SUCCESS;
}

/* Whom it holds stays held until its work is complete. Allocates; where it cannot, the hold
 * ends. */
static void departed_add(struct shim_stream *s)
{
    if (!s->tracked || !schedule_busy(s) || (s->q && vhq_busy(s->q)) || capture_any() ||
        MUTANT(departed_forgotten))
        return;
    struct departed *d = calloc(1, sizeof(*d));
    if (!d || (!s->per_thread && !end_record(s, &d->end)) || !schedule_part(s)) {
        if (d && d->end)
            REAL(cuEventDestroy_v2)(d->end);
        free(d);
        return;
    }
    d->level = s->level;
    pthread_mutex_lock(&s->ctx->lock);
    LL_PREPEND(s->ctx->departed, d);
    pthread_mutex_unlock(&s->ctx->lock);
}
STREAM_NOTE(STREAM_LEAVES, departed_add)

uint32_t departed_stuck_ticks(void)
{
    uint32_t ms = config_get()->stuck_ms;
    return ms == 0 ? UINT32_MAX : ms < CLIENT_TICK_MS ? 1 : ms / CLIENT_TICK_MS;
}

static bool stuck(const struct departed *d)
{
    return d->ticks >= departed_stuck_ticks();
}

static void end(const struct shim_context *ctx, struct departed *d, bool alive)
{
    if (!stuck(d))
        client_idle(ctx->gpu->index, d->level);
    if (d->end && alive)
        REAL(cuEventDestroy_v2)(d->end);
    free(d);
}

static void all_end(const struct shim_context *ctx, struct departed **all, bool alive)
{
    struct departed *d, *next;
    LL_FOREACH_SAFE(*all, d, next)
    end(ctx, d, alive);
    *all = NULL;
}

/* True: it is stuck. */
static bool goes_on(const struct shim_context *ctx, struct departed *d)
{
    if (stuck(d))
        return true;
    d->ticks++;
    if (stuck(d))
        client_idle(ctx->gpu->index, d->level);
    return stuck(d);
}

/* Nobody else takes any away, so the driver is asked without the lock. */
uint32_t departed_look(struct shim_context *ctx, bool tick)
{
    struct departed *ended = NULL;
    uint32_t count = 0;
    pthread_mutex_lock(&ctx->lock);
    for (struct departed *d = ctx->departed, *next; d; d = next) {
        pthread_mutex_unlock(&ctx->lock);
        bool captures = false;
        CUresult r = d->end ? REAL(cuEventQuery)(d->end) : capture_query(ctx->legacy, &captures);
        bool over = r != CUDA_ERROR_NOT_READY && !captures;
        pthread_mutex_lock(&ctx->lock);
        next = d->next;
        count += !over && (tick ? goes_on(ctx, d) : stuck(d));
        if (over) {
            LL_DELETE(ctx->departed, d);
            LL_PREPEND(ended, d);
        }
    }
    pthread_mutex_unlock(&ctx->lock);
    all_end(ctx, &ended, true);
    return count;
}

static void departed_end(struct shim_context *ctx, bool alive)
{
    all_end(ctx, &ctx->departed, alive);
}
CONTEXT_END(CONTEXT_ENDED, departed_end)
