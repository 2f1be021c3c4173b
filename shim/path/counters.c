/*
 * counters.c - sums up the vHQs and streams into the counters of the page (see call.h). The
 * client's thread does so at its looks; a context or a stream does so once more when it ends. What
 * a vHQ times itself, and what is rare, goes to the page at once.
 */
#include "shim/path/call.h"

#include "scheduler/client/client.h"
#include "common/clock.h"
#include "common/mutant.h"

static void add(_Atomic uint64_t *counter, uint64_t now, uint64_t before)
{
    atomic_fetch_add_explicit(counter, now - before, memory_order_relaxed);
}

static struct page_counters *counters_of(const struct shim_context *ctx)
{
    struct cutin_page *page = client_page();
    return page && ctx->gpu->index >= 0 ? &page->device[ctx->gpu->index].counters : NULL;
}

/* The time since the last look in which no buffered work was held, but all work in flight stood at
 * gates. If it did not stand there at the last look, this is one tick at most. */
static uint64_t gated_ns(struct shim_context *ctx, const struct vhq_stats *now)
{
    const struct vhq_stats *before = &ctx->published;
    const uint64_t tick_ns = CLIENT_TICK_MS * NS_PER_MS;
    bool gated = client_held(ctx->gpu->index, level_lowest()) &&
                 atomic_load_explicit(&ctx->gates_usable, memory_order_relaxed) != 0 &&
                 now->in_flight_ns != 0 && !MUTANT(gated_unheld),
         was_gated = ctx->gated;
    uint64_t ns = now->at_ns - before->at_ns;
    ctx->gated = gated;
    if (!gated || now->total_held_ns != before->total_held_ns)
        return 0;
    return was_gated || ns < tick_ns ? ns : tick_ns;
}

static void publish_queues(struct shim_context *ctx, struct page_counters *c)
{
    struct vhq_stats now, *before = &ctx->published;
    /* After a fault no more markers come, and a reset lets the driver free their words. Nothing is
     * in flight any more, and what is buffered will not run: no other process is held for it. */
    if (context_unusable(ctx)) {
        if (MUTANT(failed_in_flight))
            return;
        add(&c->in_flight, 0, before->in_flight_now);
        add(&c->waiting, 0, before->buffered_now);
        before->in_flight_now = before->buffered_now = 0;
        return;
    }
    vhq_set_weigh(ctx->set, estimate_weights());
    vhq_set_stats(ctx->set, &now);
    now.gates += atomic_load_explicit(&ctx->graph_gates, memory_order_relaxed);
    add(&c->submitted, now.submitted, before->submitted);
    add(&c->buffered, now.buffered, before->buffered);
    add(&c->inlined, now.inlined, before->inlined);
    add(&c->in_flight, now.in_flight_now, before->in_flight_now);
    add(&c->holds, now.holds, before->holds);
    add(&c->hold_ns, now.total_held_ns + gated_ns(ctx, &now), before->total_held_ns);
    add(&c->gpu_ns, now.gpu_ns, before->gpu_ns);
    add(&c->unsure_ns, now.gpu_ns - now.sure_ns, before->gpu_ns - before->sure_ns);
    add(&c->waiting, now.buffered_now, before->buffered_now);
    add(&c->gates, now.gates, before->gates);
    add(&c->dropped, now.dropped, before->dropped);
    add(&c->padded, now.padded, before->padded);
    add(&c->peer_releases, now.peer_releases, before->peer_releases);
    atomic_store_explicit(&client_page()->long_us[ctx->gpu->index], now.long_ns / 1000,
                          memory_order_relaxed);
    *before = now;
}

uint64_t counters_pending(struct shim_stream *s)
{
    uint64_t complete = atomic_load(&s->complete), epoch = atomic_load(&s->epoch);
    int32_t calls = (int32_t)(EPOCH_CALLS(epoch) - EPOCH_CALLS(complete));
    if (s->q) /* in a stream that never runs dry it is not known how many of them are complete */
        return vhq_loose(s->q) && calls > 0;
    return schedule_busy(s) && calls > 0 ? (uint64_t)calls : 0;
}

static void publish_stream(struct shim_stream *s, struct page_counters *c)
{
    struct stream_counters *before = &s->published;
    uint64_t epoch = atomic_load(&s->epoch);
    struct stream_counters now = {.kernels = EPOCH_KERNELS(epoch), .pending = counters_pending(s)};
    add(&c->kernels, now.kernels - before->kernels, 0);
    add(&c->in_flight, now.pending, before->pending);
    if (s->direct) {
        now.calls = EPOCH_CALLS(epoch);
        uint32_t calls = now.calls - before->calls;
        add(&c->submitted, calls, 0);
        add(&c->inlined, calls, 0);
    }
    *before = now;
}

void counters_publish(struct shim_context *ctx)
{
    struct page_counters *c = counters_of(ctx);
    if (!c)
        return;
    if (ctx->set)
        publish_queues(ctx, c);
    pthread_mutex_lock(&ctx->lock);
    for (struct shim_stream *s = ctx->streams; s; s = s->next)
        publish_stream(s, c);
    pthread_mutex_unlock(&ctx->lock);
}

/* Counts the last figures of the context's vHQs: nothing of them is in flight any more. */
static void counters_end(struct shim_context *ctx, bool alive)
{
    struct page_counters *c = counters_of(ctx);
    if (!c || !ctx->set)
        return;
    publish_queues(ctx, c);
    add(&c->in_flight, 0, ctx->published.in_flight_now);
    add(&c->waiting, 0, ctx->published.buffered_now);
}
CONTEXT_END(CONTEXT_ENDING, counters_end)

/* Counts the last figures of a stream that ends. */
static void counters_forget(struct shim_stream *s)
{
    struct page_counters *c = counters_of(s->ctx);
    if (!c)
        return;
    publish_stream(s, c);
    add(&c->in_flight, 0, s->published.pending);
}
STREAM_NOTE(STREAM_ENDS, counters_forget)

void counters_ungated_graph(const struct shim_context *ctx)
{
    struct page_counters *c = counters_of(ctx);
    if (c)
        atomic_fetch_add_explicit(&c->ungated_graphs, 1, memory_order_relaxed);
}

const struct vhq_times *counters_times(struct shim_context *ctx)
{
    struct cutin_page *page = client_page();
    if (!page)
        return NULL;
    ctx->times = (struct vhq_times){
        .bucket = histogram_bucket, .hold = page->times.hold, .stop = page->times.preemption};
    return &ctx->times;
}
