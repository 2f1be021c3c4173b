/*
 * stats.c - figures of vHQs and sets, and what traces tell of them. Counters are written where
 * things happen, without locks. So a reading is as exact as it can be while other threads count.
 */
#include "vhq/internal.h"

/*
 * ---- how long the device has worked for this set -----------------------------------------------
 *
 * While something is in flight the device works for the set, or for another process that has its
 * turn: so for no longer than that time. What completed, and what is in flight, took no longer than
 * the estimates say, and no shorter, as far as they can be believed (vhq_set_weigh). The lesser of
 * the two counts, while the work goes on and not when a long queue is complete. There are two sums:
 * what estimates and the measure of the cap allow at most, and what is sure.
 */

enum { OWED_MOST_NS = 20 * 1000 * 1000 }; /* of estimated time that the clock has not had yet */

void vhq_set_weigh(struct vhq_set *set, struct vhq_weights w)
{
    set_lock(set);
    set->used.weights = w;
    measure_relax(set);
    set_unlock(set);
}

void used_look(struct vhq_set *s, bool busy, bool completed, uint64_t now)
{
    if ((busy || completed || s->used.busy) && s->polled_at_ns != 0 && now > s->polled_at_ns)
        s->used.busy_ns +=
            s->used.of ? (now - s->polled_at_ns) / s->used.of : now - s->polled_at_ns;
    if (s->share_of || !busy) /* what it left runs out between others' turns, too */
        s->used.of = s->share_of;
    s->used.busy = busy;
}

/* `ran`: by the clock. By the estimates: `done` since the last time, `ahead` is in flight. */
static void account_add(struct account *a, int64_t ran, int64_t done, int64_t ahead, bool busy)
{
    int64_t most = busy ? OWED_MOST_NS : 0, room = a->owed_ns + done + ahead;
    ran = ran < room ? ran : room > 0 ? room : 0;
    a->ns += (uint64_t)ran;
    a->owed_ns += done - ran;
    a->owed_ns = a->owed_ns < -ahead ? -ahead : a->owed_ns > most ? most : a->owed_ns;
}

/* ---- counters -------------------------------------------------------------------------------- */

void stats_add(struct vhq_stats *sum, struct vhq *q)
{
    uint64_t published = atomic_load_explicit(&q->ring.tail_seq, memory_order_acquire);
    uint64_t retired = atomic_load_explicit(&q->ring.head_seq, memory_order_acquire);
    uint64_t left = q->reset_seq > retired ? q->reset_seq - q->begun : retired; /* not dropped */
    sum->inlined += peek(q->inlined);
    sum->buffered += published;
    sum->submitted += peek(q->sent);
    sum->completed += peek(q->completed);
    sum->dropped += peek(q->dropped);
    sum->markers += peek(q->markers);
    sum->gates += peek(q->gates);
    sum->holds += peek(q->holds);
    sum->buffered_now += (uint32_t)(published > left ? published - left : 0);
    sum->in_flight_now += peek(q->counted) - peek(q->complete);
}

void vhq_get_stats(struct vhq *q, struct vhq_stats *out)
{
    *out = (struct vhq_stats){0};
    if (atomic_load(&vhq_forked))
        return;
    set_lock(q->set);
    cap_poll_words(q->set, clock_ns());
    stats_add(out, q);
    set_unlock(q->set);
}

void vhq_set_stats(struct vhq_set *set, struct vhq_stats *out)
{
    *out = (struct vhq_stats){0};
    if (atomic_load(&vhq_forked))
        return;
    set_lock(set);
    uint64_t now = clock_ns();
    cap_poll_words(set, now);
    *out = set->past;
    out->at_ns = now;
    out->total_held_ns = set->total_held_ns + (set->held ? now - set->any_held_since_ns : 0);
    uint64_t est_ns = peek(set->done_est_ns);
    out->padded = peek(set->padded);
    out->peer_releases = peek(set->peer_releases);
    out->in_flight_ns = peek(set->area_ns);
    for (struct vhq *q = set->all; q; q = q->next) {
        if (q->dead)
            continue;
        stats_add(out, q);
        est_ns += peek(q->loose_ns);
    }
    struct used *u = &set->used;
    int64_t done = (int64_t)(est_ns - u->est_ns), ahead = (int64_t)peek(set->area_ns);
    int64_t least = u->weights.least, most = u->weights.most, ran = (int64_t)u->busy_ns;
    if (set->scale > most) /* estimates are too low, or others ran */
        most = set->scale;
    account_add(&u->high, ran, done * most / SCALE_ONE, ahead * most / SCALE_ONE, u->busy);
    account_add(&u->sure, ran, done * least / SCALE_ONE, ahead * least / SCALE_ONE, u->busy);
    u->est_ns = est_ns;
    u->busy_ns = 0;
    out->gpu_ns = u->high.ns;
    out->sure_ns = u->sure.ns;
    uint64_t budget = peek(set->budget_us) * NS_PER_US;
    out->long_ns = set->long_ns > budget + budget / 2 ? set->long_ns : 0;
    set_unlock(set);
}

void vhq_set_device_work(struct vhq_set *set, const void *stream, const struct vhq *own,
                         struct vhq_device_work *out)
{
    enum { FEW = 8 }; /* beside more there are others in any case: none is looked at */
    *out = (struct vhq_device_work){.own = false};
    set_lock(set);
    cap_adopt(set);
    if (peek(set->in_flight_count) > FEW)
        out->others = peek(set->in_flight_count);
    else
        for (const struct vhq *q = set->in_flight; q; q = q->in_flight_next) {
            uint64_t ns = cap_stream_ns(q) + peek(q->loose_ns);
            bool mine = own ? q == own : q->desc.stream == stream;
            out->own |= mine;
            out->others += !mine;
            out->others_ns = !mine && ns > out->others_ns ? ns : out->others_ns;
        }
    if (cap_client_above(set) && shift_any(set)) {
        uint64_t now = clock_ns();
        if (shift_update(set, now) != 0 && !shift_shared(set, now))
            out->shift_end_ns = set->shift_end_ns;
    }
    set_unlock(set);
}

uint64_t vhq_set_padded(const struct vhq_set *set)
{
    return peek(set->padded);
}

/* ---- what the device still has to do --------------------------------------------------------- */

static_assert(UNITS <= 32, "a bit for each");

void vhq_set_residue(struct vhq_set *set, struct vhq_residue *out)
{
    *out = (struct vhq_residue){0};
    if (atomic_load(&vhq_forked))
        return;
    uint64_t now = clock_ns();
    set_lock(set);
    cap_poll_words(set, now);
    for (const struct vhq *q = set->in_flight; q; q = q->in_flight_next) {
        /* Its hold word stops it at the gate now, and nothing of it runs. A stream that came to the
         * gate before the hold began has passed it. */
        const _Atomic uint64_t *since = q->desc.hold_since;
        uint32_t complete = peek(q->complete_mark);
        if (gate_used(q->set) && order_held(q, true) &&
            peek(q->gate_units) >> complete % UNITS & 1 &&
            !(since && q->completed_at_ns < peek(*since)))
            continue;
        const struct unit *u = cap_oldest(q);
        uint64_t ns = peek(q->counted_ns) - peek(q->complete_est_ns);
        if (u) {
            /* It runs since it came, or since what was before it completed. */
            uint64_t began = q->completed_at_ns > u->since_ns ? q->completed_at_ns : u->since_ns,
                     ran = now > began ? now - began : 0;
            ns = gate_used(set) ? u->est_ns : ns;
            ns -= ran < u->est_ns && ran < ns ? ran : 0;
        }
        out->running |= peek(q->counted) != peek(q->complete);
        out->ns = ns > out->ns ? ns : out->ns;
    }
    for (const struct vhq *q = set->all; q; q = q->next)
        out->markers += q->dead ? 0 : peek(q->complete_mark);
    set_unlock(set);
}

/*
 * ---- how long holds last, and how soon after a hold the device has stopped --------------------
 *
 * Everything is measured at the dispatcher's looks, which are 50 us apart while something buffered
 * is held. A completion that was first seen long after it may have happened says nothing and is not
 * counted. Nor is a hold that ended before anything completed.
 */

enum { FRESH_NS = 1000 * 1000 }; /* after a look so recent, a completion is not seen late */

static void times_count(const struct vhq_times *t, _Atomic uint32_t *times, uint64_t ns)
{
    atomic_fetch_add_explicit(&times[t->bucket(ns)], 1, memory_order_relaxed);
}

void times_hold_begins(struct vhq *q, uint64_t now)
{
    struct vhq_set *s = q->set;
    const _Atomic uint64_t *since = q->desc.hold_since;
    bool by_word =
        since && q->desc.hold && atomic_load_explicit(q->desc.hold, memory_order_acquire) != 0;
    uint64_t began = by_word ? atomic_load_explicit(since, memory_order_relaxed) : now;
    bool fresh = now - s->polled_at_ns < FRESH_NS;

    PROBE2(hold, q->desc.stream, ring_head(&q->ring)->ticket);
    if (s->held++ == 0)
        s->any_held_since_ns = now;
    q->held_since_ns = now;
    q->padded = false;
    q->stopping_since_ns = began != 0 && began < now ? began : now;
    q->stopping_after_ns = fresh ? now - 1 : now;
    if (trace_on())
        traced_queue(TRACE_HELD, q, NEVER, 0, 0);
}

void times_hold_ends(struct vhq *q, uint64_t now)
{
    struct vhq_set *s = q->set;
    const struct vhq_times *t = s->cfg.times;
    uint64_t held = now - q->held_since_ns;

    if (q->held_since_ns == 0)
        return;
    bump(q->holds, 1u);
    if (--s->held == 0)
        s->total_held_ns += now - s->any_held_since_ns;
    if (t)
        times_count(t, t->hold, held);
    /* What has no marker yet runs behind the last command that has one. With padding the device
     * does not stop. */
    if (t && q->completed_at_ns > q->stopping_after_ns && !q->padded)
        times_count(t, t->stop, q->completed_at_ns - q->stopping_since_ns + peek(q->tail_est_ns));
    if (gate_used(s)) /* it stopped the device, too */
        blocked_excuse(s, q->held_since_ns, now);
    q->held_since_ns = 0;
    PROBE2(release, q->desc.stream, held);
    if (trace_on())
        traced_queue(TRACE_RELEASED, q, NEVER, 0, 0);
}

void traced_queue(enum trace_kind kind, struct vhq *q, uint64_t ticket, int change,
                  uint64_t from_ns)
{
    uint64_t buffered = peek(q->ring.tail_seq) - peek(q->ring.head_seq) + (uint64_t)change;
    struct trace_record r = {.kind = (uint16_t)kind,
                             .ns = from_ns,
                             .level = (uint16_t)q->desc.level,
                             .stream = q->desc.id};

    r.queue.ticket = ticket;
    r.queue.op = trace_op;
    r.queue.took_ns = from_ns ? trace_elapsed_ns(from_ns) : 0;
    r.queue.buffered = (uint32_t)buffered;
    r.queue.in_flight = peek(q->counted) - peek(q->complete);
    trace_put(&r);
}
