/* drain.c - see drain.h. */
#include "shim/path/drain.h"

#include "shim/objects/event.h"
#include "shim/objects/memory.h"

void drain_legacy_order(struct shim_stream *s)
{
    struct vhq *legacy = s->ctx->legacy->q;
    if (s->kind == VHQ_BLOCKING && legacy && !vhq_empty(legacy))
        vhq_drain(legacy, true, false);
    else if (s->kind == VHQ_LEGACY)
        vhq_set_drain(s->ctx->set, VHQ_DRAIN_LEGACY, true);
}

void drain_before_legacy(struct shim_stream *legacy)
{
    struct vhq_set *set = legacy->ctx->set;
    if (!set || vhq_set_empty(set) || vhq_set_blocking_empty(set))
        return;
    context_get(legacy->ctx);
    vhq_set_drain(set, VHQ_DRAIN_UNBLOCKED, thread_boosts(legacy));
    context_put(legacy->ctx);
}

/* A record on a stream that is never held replaces one for which buffered waits may still wait.
 * Only their vHQs know which waits those are; this is rare enough to wait for all. */
void drain_displaced(struct vhq_fence *fence)
{
    vhq_fence_drain(fence, true);
    drain_all(true);
}

void drain_event(struct shim_event *ev)
{
    bool waited;
    struct vhq_fence *old = event_fence_swap(ev, NULL, &waited);
    if (old && (waited || !vhq_fence_submitted(old)))
        drain_displaced(old);
    vhq_fence_put(old);
}

void drain_before_record(CUevent event)
{
    struct shim_event *ev = event_find(event);
    if (!ev)
        return;
    drain_event(ev);
    event_note(ev, NULL, 0);
}

void drain_sync_stream(struct shim_stream *s, bool boost)
{
    struct vhq_set *set = s->ctx->set;
    if (set && !vhq_set_empty(set)) {
        context_get(s->ctx);
        /* The legacy stream completes after the blocking ones. Those come and go under the list's
         * lock, and no lock is held while waiting, so the set drains them. */
        if (s->kind == VHQ_LEGACY)
            vhq_set_drain(set, VHQ_DRAIN_LEGACY, boost);
        else if (s->q)
            vhq_drain(s->q, boost, true);
        context_put(s->ctx);
    }
    if (!s->q || capture_any() || context_unusable(s->ctx))
        return;
    context_get(s->ctx);
    vhq_sync(s->q, boost);
    context_put(s->ctx);
}

struct draining {
    enum vhq_drain what;
    bool boost;
    const struct shim_context *siblings_of; /* only others with the same base; NULL: all contexts */
};

static void drain_each(struct shim_context *ctx, void *user)
{
    const struct draining *d = user;
    if (d->siblings_of && (ctx == d->siblings_of || ctx->base != d->siblings_of->base))
        return;
    if (ctx->set && !vhq_set_empty(ctx->set))
        vhq_set_drain(ctx->set, d->what, d->boost || thread_boosts(ctx->legacy));
}

void drain_context(struct shim_context *ctx, bool boost)
{
    context_each_kin(ctx, drain_each, &(struct draining){VHQ_DRAIN_RETURNED, boost, NULL});
}

static void sync_each(struct shim_context *ctx, void *user)
{
    if (ctx->set && !context_unusable(ctx))
        vhq_set_sync(ctx->set, thread_boosts(ctx->legacy));
}

void drain_sync_context(struct shim_context *ctx)
{
    drain_context(ctx, false);
    if (!capture_any())
        context_each_kin(ctx, sync_each, NULL);
}

void drain_siblings(struct shim_context *ctx)
{
    if (atomic_load_explicit(&context_queued, memory_order_relaxed) > 1)
        context_each(drain_each, &(struct draining){VHQ_DRAIN_RETURNED, true, ctx});
}

void drain_all_unblocked(void)
{
    if (atomic_load(&context_queued))
        context_each(drain_each, &(struct draining){VHQ_DRAIN_UNBLOCKED, false, NULL});
}

void drain_stream_unblocked(struct shim_stream *s)
{
    if (vhq_set_empty(s->ctx->set))
        return;
    context_get(s->ctx);
    vhq_drain_unblocked(s->q, thread_boosts(s));
    context_put(s->ctx);
}

void drain_all(bool boost)
{
    if (atomic_load(&context_queued))
        context_each(drain_each, &(struct draining){VHQ_DRAIN_RETURNED, boost, NULL});
}

static void idle_each(struct shim_context *ctx, void *user)
{
    if (ctx->set && !vhq_set_empty(ctx->set))
        *(bool *)user = false;
}

bool nothing_buffered(void)
{
    bool nothing = true;
    context_each(idle_each, &nothing);
    return nothing;
}

static void count_foreign(struct shim_context *ctx, void *user)
{
    atomic_fetch_add(&ctx->foreign, 1);
}

void shim_drain(enum drain_scope scope)
{
    if (thread_bypasses())
        return;
    if (scope == DRAIN_UNKNOWN_BEGIN) /* the capture's end is known, and will be counted */
        atomic_fetch_add(&capture_count, 1);
    if (!atomic_load_explicit(&context_count, memory_order_relaxed))
        return;
    if (scope == DRAIN_UNKNOWN || scope == DRAIN_UNKNOWN_BEGIN) {
        /* An unknown function may put work into any stream, free memory, or switch contexts. */
        context_cache_clear();
        if (MUTANT(unknown_undrained))
            return;
        context_each(count_foreign, NULL);
        drain_all(false);
        memory_forget();
        return;
    }
    struct shim_context *ctx;
    if (scope == DRAIN_WORK)
        context_each(count_foreign, NULL);
    if (scope == DRAIN_ALL || scope == DRAIN_WORK) {
        if (MUTANT(exec_update_undrained))
            return;
        drain_all(false);
        if (MUTANT(drain_completes))
            context_each(context_finish, NULL);
        return;
    }
    if (!(ctx = context_current_known()))
        return;
    atomic_fetch_add(&ctx->foreign, 1);
    if (scope == DRAIN_CONTEXT)
        drain_context(ctx, false);
    else if (ctx->set && !vhq_set_empty(ctx->set)) {
        context_get(ctx);
        drain_each(ctx, &(struct draining){VHQ_DRAIN_LEGACY, false, NULL});
        context_put(ctx);
    }
}
