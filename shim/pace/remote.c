/*
 * remote.c - orders from outside (`cutin set`, `cutin reset`) to this process while it runs.
 *
 * A stream keeps the level at which it was made, and the hold word of that level. The scheduler
 * counts all streams of a process whose level was changed as of the new one. Only one thing changes
 * here: streams of a process that rose must say when they are active.
 */
#include "shim/pace/pace.h"

#include "shim/path/call.h"

/* 0: as configured. */
static _Atomic uint32_t budget_us, depth;

uint32_t remote_budget_us(void)
{
    uint32_t told = atomic_load(&budget_us);

    return told ? told : config_get()->budget_us;
}

uint32_t remote_depth(void)
{
    uint32_t told = atomic_load(&depth);

    return told ? told : config_get()->depth;
}

static void configure(struct shim_context *ctx, void *unused)
{
    if (ctx->set)
        vhq_set_configure(ctx->set, remote_budget_us(), remote_depth());
}

static void track(struct shim_context *ctx, void *unused)
{
    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s; s = s->next)
        if (ctx->gpu->index >= 0)
            s->tracked = true;
    pthread_mutex_unlock(&ctx->lock);
}

struct reset {
    uint32_t wanted, number, dropped;
};

/* Streams are numbered from 0 in the order in which they were made, context by context. What was
 * dropped is counted at once, so the next command that asks is not shown it. */
static void reset(struct shim_context *ctx, void *user)
{
    struct reset *r = user;

    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s; s = s->next) {
        if (atomic_load(&s->state) != STREAM_LIVE)
            continue;
        if (s->q && (r->wanted == CONTROL_ALL_STREAMS || r->wanted == r->number))
            r->dropped += vhq_reset(s->q);
        r->number++;
    }
    pthread_mutex_unlock(&ctx->lock);
    if (!context_poll_begin(ctx))
        return;
    counters_publish(ctx);
    context_poll_end(ctx);
}

void remote_take(void *user, enum control_kind kind, uint32_t value)
{
    struct reset r = {.wanted = value};

    if (shim_bypassed())
        return;
    if (kind == CONTROL_LEVEL && value > CUTIN_LEVEL_BE)
        context_each(track, NULL);
    if (kind == CONTROL_BUDGET_US || kind == CONTROL_DEPTH) {
        atomic_store(kind == CONTROL_DEPTH ? &depth : &budget_us, value);
        context_each(configure, NULL);
    }
    if (kind == CONTROL_RESET) {
        context_each(reset, &r);
        log_line(LOG_INFO, "a reset from another process dropped %u commands", r.dropped);
    }
}
