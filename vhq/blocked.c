/*
 * blocked.c - when the dispatcher looks again while the cap blocks it, and what it asks meanwhile.
 * And the progress guard, which lets commands in where nothing gets complete.
 */
#include "vhq/internal.h"

enum {
    LOOK_LEAST_NS = 20 * 1000,
    LOOK_MOST_NS = 100 * 1000,
    LOOKS = 32,
    DUE_SLACK_NS = 5 * 1000, /* a due time this near counts as come */
    LONGEST_TIMES = 16,      /* how much longer than MAX_EST_NS a command may take */
    GLANCES = 8,             /* one wait of so many has a look half-way */
    ADMITS_PART = 32,        /* what the guard lets in may take one part in so many of the stall */
};

/* ---- set's lock held, after a look ----------------------------------------------------------- */

void blocked_cap_let_in(struct vhq_set *s, uint64_t now)
{
    s->quiet_since_ns = now;
    s->stalled = false;
    for (const struct vhq *q = s->in_flight; q && !s->stalled; q = q->in_flight_next)
        s->stalled = q->stall != STALL_NONE;
    if (!s->stalled)
        s->blocked_since_ns = 0;
}

void blocked_stall_ends(struct vhq *q)
{
    if (unlikely(q->stall == STALL_GUARDED))
        q->set->admits = q->set->admitted = 0;
    q->stall = STALL_NONE;
    q->beside = false;
}

/* What has stalled may wait for what is buffered, even if other work makes progress. */
void blocked_progress(struct vhq_set *s, uint64_t now)
{
    bool guarded = false, beside = false;
    for (const struct vhq *q = s->in_flight; q; q = q->in_flight_next) {
        guarded |= q->stall == STALL_GUARDED;
        beside |= q->beside;
    }
    blocked_cap_let_in(s, now);
    if (!guarded)
        s->admits = s->admitted = 0;
    s->admits_beside = guarded && !beside && !MUTANT(guard_each_time);
}

static void excuse(uint64_t *since, uint64_t from, uint64_t now)
{
    if (from < *since)
        from = *since;
    if (from < now)
        *since += now - from;
}

void blocked_excuse(struct vhq_set *s, uint64_t from, uint64_t now)
{
    if (s->blocked_since_ns == 0)
        return;
    if (from < s->excused_ns)
        from = s->excused_ns;
    excuse(&s->blocked_since_ns, from, now);
    excuse(&s->quiet_since_ns, from, now);
    s->excused_ns = now;
}

/* A command could go in a stream whose work has stalled. */
static bool blocked_behind(const struct vhq_set *s)
{
    bool behind = false;
    for (struct vhq *q = s->in_flight; q && !behind; q = q->in_flight_next)
        behind = q->stall != STALL_NONE && q->held_since_ns == 0 && ring_head(&q->ring);
    return behind;
}

/* What the guard let in has taken its part of the time. */
static bool blocked_enough(const struct vhq_set *s, uint64_t now)
{
    return s->admits_part && s->admitted_ns * ADMITS_PART > now - s->stalled_since_ns;
}

void blocked_admitted(struct vhq_set *s, uint32_t load, uint64_t now)
{
    uint64_t est = load_ns(load), least = peek(s->budget_us) * NS_PER_US / 2;
    s->admits--;
    s->admitted_ns += est > least ? est : least; /* little may be known of it */
    if (blocked_enough(s, now))
        s->admits = 0;
}

/*
 * Work in flight in a stream makes no progress for long. It may wait for what is buffered. Or it is
 * a long queue: as much more behind it would make the next look as late as this one, for ever. Or a
 * host function sleeps. So one command is let in, and twice as many each further time, while all of
 * them are taken; while others' work makes progress, it is one each time. They are of streams that
 * stalled, and where nothing at all makes progress also of streams with nothing in flight.
 *
 * While a client above is there and no thread waits for what is let in, that takes a small part of
 * the time without progress: a client that comes then waits for little more than before.
 *
 * Streams that stalled may have thousands of commands ahead of all others. So one command of a
 * stream with nothing in flight is let in, too, and the next such one when that is complete: one at
 * a time goes beside what has stalled, however many streams there are. It is no progress of that.
 */
static bool blocked_guard(struct vhq_set *s, uint64_t now)
{
    /* A kernel that is known to be long is no reason. A kernel of MAX_EST_NS may be longer. */
    uint64_t longest = s->longest_est_ns;
    if (longest + LOAD_STEP_NS >= MAX_EST_NS && !MUTANT(known_long_clamped))
        longest *= LONGEST_TIMES;
    uint64_t most = GUARD_MS * NS_PER_MS + longest;
    if (s->blocked_since_ns == 0) {
        s->blocked_since_ns = s->quiet_since_ns = now;
        s->beat = word_read(s->cfg.shift) / VHQ_SHIFT_PROGRESS;
        s->admits_idle = false;
        s->stalled = true;
        for (struct vhq *q = s->in_flight; q; q = q->in_flight_next)
            if (q->stall == STALL_NONE && vhq_in_flight(q))
                q->stall = STALL_BLOCKED;
    }
    bool quiet = now - s->quiet_since_ns >= most;
    if (!quiet && (now - s->blocked_since_ns < most || !blocked_behind(s)))
        return false;
    s->past.guard_lifts++;
    if (trace_on())
        trace_put(&(struct trace_record){.kind = TRACE_LIFTED});
    if (s->admitted == 0) {
        s->stalled_since_ns = s->blocked_since_ns;
        s->admitted_ns = 0;
    }
    s->blocked_since_ns = 0;
    s->admits_part = cap_client_above(s) && !waiter_presses(s) && !MUTANT(guard_unbounded);
    if (s->admitted == 0 || s->admits != 0 || blocked_enough(s, now) ||
        word_read(s->cfg.shift) / VHQ_SHIFT_PROGRESS != s->beat)
        s->admitted = 1;
    else if (s->admitted < s->cfg.queue)
        s->admitted *= 2;
    if (MUTANT(guard_of_old))
        s->admitted = s->cfg.queue;
    s->admits = s->admitted;
    s->admits_idle = quiet;
    s->admits_beside = true;
    for (struct vhq *q = s->in_flight; q; q = q->in_flight_next) {
        if (q->stall != STALL_NONE || (quiet && vhq_in_flight(q))) {
            q->stall = STALL_GUARDED;
            q->beside = false;
        }
        s->admits_beside &= !q->beside;
    }
    return true;
}

/* When there is room by the estimates (at_ns), and when there may be if kernels are as short as
 * some were of late (soonest_ns). */
struct due {
    uint64_t soonest_ns, at_ns, began_ns;
};

static struct due due_of(const struct vhq_set *s, uint64_t began_ns, uint64_t ns, uint64_t lead_ns)
{
    uint64_t need = ns > lead_ns ? ns - lead_ns : ns / 2, soonest = need * s->pace / PACE_ONE;
    if (need - soonest < LOOK_LEAST_NS)
        soonest = need;
    return (struct due){began_ns + soonest, began_ns + need, began_ns};
}

/* The first of all that waits for room. As much work may then be left as a command may follow, so
 * that one wake-up feeds more than one short command; of a cap by number, half of what there is. */
static struct due due_first(struct vhq_set *s, uint32_t load, uint64_t budget)
{
    bool all = load != 0, alone = cap_alone(s);
    struct due first = {0};
    if (all)
        first = due_of(s, cap_oldest_since(s), peek(s->area_ns),
                       cap_lead_ns(s, load_area_ns(load), budget));
    for (struct vhq *q = s->in_flight; q; q = q->in_flight_next) {
        const struct slot *head = ring_head(&q->ring);
        if (!head || q->held_since_ns != 0 || !(alone || cap_stream_full(q, head->load, 0)))
            continue;
        struct due d =
            due_of(s, cap_stream_since(q), cap_stream_ns(q),
                   alone ? peek(s->loose_unit_ns) : cap_lead_ns(s, load_ns(head->load), budget));
        if (!all || d.soonest_ns < first.soonest_ns)
            first = d;
        all = true;
    }
    return first;
}

uint64_t blocked_wake_ns(struct vhq_set *s, uint32_t load, uint64_t now)
{
    if (cap_client_above(s) && shift_update(s, now) > now) {
        /* Another process has the shift: what is in flight may make no progress in it, and the end
         * of the shift is no progress. Only the process's own shifts count. */
        if (s->elsewhere_ns == 0)
            s->elsewhere_ns = now;
        /* The daemon may have changed the shifts by then. */
        return s->shift_begin_ns < now + SHIFT_BASE_NS ? s->shift_begin_ns : now + SHIFT_BASE_NS;
    }
    if (s->elsewhere_ns != 0)
        blocked_excuse(s, s->elsewhere_ns, now);
    s->elsewhere_ns = 0;
    if (blocked_guard(s, now))
        return now;
    if (s->asking) {
        /* The driver is asked, less and less often. */
        s->backoff_ns = (uint32_t)between(LOOK_LEAST_NS, s->backoff_ns * UINT64_C(2), LOOK_MOST_NS);
        return now + s->backoff_ns;
    }
    uint32_t streams = peek(s->in_flight_count);
    bool crowd = streams > 1 && gate_sum_over(s, streams - 1),
         strict = cap_client_above(s) && (!gate_used(s) || crowd), alone = cap_alone(s);
    uint64_t budget = alone ? peek(s->loose_most_ns) : cap_budget_ns(s, strict, now);
    struct due first = due_first(s, load, budget);
    /* Where streams overlap, or other processes had the device while an estimate was taken,
     * estimates are far too high, and waiting for them would let the device run dry. A look per
     * budget costs next to nothing. */
    uint64_t look = now + (alone ? loose_bound_ns(s) / LOOSE_PART : peek(s->budget_us) * NS_PER_US);
    if (first.soonest_ns <= now + DUE_SLACK_NS) {
        /* The work may complete at any time, or only after long: looks follow each other at a 32nd
         * of the time that it has taken. */
        uint64_t took = sub_floor(now, first.began_ns), at = first.at_ns,
                 step = between(LOOK_LEAST_NS, took / LOOKS, LOOK_MOST_NS);
        return at > now + DUE_SLACK_NS && at < now + step ? at : now + step;
    }
    uint64_t at = first.soonest_ns < look ? first.soonest_ns : look;
    /* Without looks before the estimate is over, short ones would never be noticed. */
    bool glance = ++s->waits % GLANCES == 0 && !MUTANT(glance_missing);
    return glance ? now + (at - now) / 2 : at;
}

/* ---- vHQs without a completion word ---------------------------------------------------------- */

void cap_poll(struct vhq *q)
{
    struct vhq_set *s = q->set;
    lock_none_inside();
    uint32_t value = s->ops.poll(s->user, q, q->desc.stream);
    atomic_store_explicit(&q->polled, value, memory_order_release);
}

/* The next vHQ of this pass: to be polled, or, with `asks`, whose submission right is taken. */
static struct vhq *cap_to_poll(struct vhq_set *s, bool asks)
{
    for (struct vhq *q = s->in_flight; q; q = q->in_flight_next) {
        bool due =
            asks ? peek(q->asks) : !q->desc.done && peek(q->newest) != peek(q->complete_mark);
        if (!due || q->pass == s->pass || (asks && !cap_claim_tail(q)))
            continue;
        q->pass = s->pass;
        if (!asks)
            atomic_fetch_add(&q->calls, 1);
        return q;
    }
    return NULL;
}

void cap_poll_all(struct vhq_set *s)
{
    struct vhq *q;
    set_lock(s);
    s->pass++;
    while (s->parked == 0 && (q = cap_to_poll(s, true))) {
        set_unlock(s);
        tail_mark_or_ask(q);
        set_lock(s);
        atomic_store_explicit(&q->running, RUN_NONE, memory_order_release);
        futex_wake(&q->running);
    }
    while (s->parked == 0 && (q = cap_to_poll(s, false))) {
        set_unlock(s);
        cap_poll(q);
        set_lock(s);
        atomic_fetch_sub(&q->calls, 1);
        futex_wake(&q->calls);
    }
    set_unlock(s);
}
