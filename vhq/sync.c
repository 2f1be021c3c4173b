/*
 * sync.c - drain (until submitted) and sync (until complete).
 *
 * A sync needs a marker behind the last command. Only the thread with the submission right places
 * markers, so a sync takes that right for a moment, or leaves word for its holder. There is no
 * interrupt: after a short spin the thread sleeps in short naps and looks at the completion word.
 */
#include "vhq/internal.h"

#include <sys/prctl.h>

enum {
    SPIN_NS = 2000,
    NAP_MIN_NS = 5 * 1000,
    NAP_MAX_NS = 50 * 1000,
};

/* ---- drain ----------------------------------------------------------------------------------- */

bool vhq_empty(struct vhq *q)
{
    return ring_empty(&q->ring);
}

bool vhq_pending(struct vhq *q)
{
    uint64_t submitted = atomic_load_explicit(&q->submitted_seq, memory_order_acquire);
    return atomic_load_explicit(&q->ring.tail_seq, memory_order_acquire) != submitted ||
           peek(q->waiting) != 0;
}

bool vhq_set_empty(struct vhq_set *set)
{
    return set_empty(set);
}

bool vhq_set_blocking_empty(struct vhq_set *set)
{
    bool empty = true;
    set_lock(set);
    for (const struct vhq *q = set->all; q && empty; q = q->next)
        empty = q->desc.kind != VHQ_BLOCKING || ring_empty(&q->ring);
    set_unlock(set);
    return empty;
}

bool vhq_set_in_flight(const struct vhq_set *set)
{
    return peek(set->area_ns) != 0;
}

void vhq_drain(struct vhq *q, bool boost, bool for_end)
{
    if (ring_empty(&q->ring) || passive())
        return;
    if (boost) {
        order_boost(&q->boost_below, atomic_load(&q->set->issued));
        dispatcher_kick(q->set);
    }
    const struct goal g = {
        .what = VHQ_DRAIN_QUEUE,
        .q = q,
        .for_end = for_end,
        .target = atomic_load_explicit(&q->ring.tail_seq, memory_order_acquire),
    };
    goal_wait(q->set, &g, NEVER);
}

/* `q`: only this vHQ and what goes ahead of it; NULL: all. */
static int set_drain(struct vhq_set *s, struct vhq *q, enum vhq_drain what, bool boost,
                     uint64_t deadline_ns)
{
    if (set_empty(s) || passive())
        return 0;
    uint64_t below = atomic_load_explicit(&s->issued, memory_order_acquire);
    if (boost) {
        order_boost(q ? &q->boost_below : &s->boost_below, below);
        dispatcher_kick(s);
    }
    const struct goal g = {.what = what, .q = q, .target = below};
    return goal_wait(s, &g, deadline_ns);
}

void vhq_set_drain(struct vhq_set *set, enum vhq_drain what, bool boost)
{
    set_drain(set, NULL, what, boost, NEVER);
}

void vhq_drain_unblocked(struct vhq *q, bool boost)
{
    set_drain(q->set, q, VHQ_DRAIN_UNBLOCKED, boost, NEVER);
}

int vhq_set_drain_timeout(struct vhq_set *set, uint32_t timeout_ms)
{
    return set_drain(set, NULL, VHQ_DRAIN_ALL, false, clock_ns() + timeout_ms * NS_PER_MS);
}

/* ---- the submission right, for a moment ------------------------------------------------------ */

enum claim { CLAIM_NONE, CLAIM_LOCK, CLAIM_RUNNING };

/* The producer lock is held. */
static bool claim_locked(const struct vhq *q)
{
    return !q->dead && !q->left && ring_empty(&q->ring) &&
           atomic_load_explicit(&q->running, memory_order_acquire) == RUN_NONE;
}

/* While the ring is empty the right belongs to the producer lock. Else it can be taken from under
 * the dispatcher, which may have to wait long (a hold) before it submits anything itself. */
static enum claim claim_take(struct vhq *q)
{
    if (queue_trylock(q)) {
        if (claim_locked(q))
            return CLAIM_LOCK;
        queue_unlock(q);
    }
    set_lock(q->set);
    bool mine = !q->dead && !ring_empty(&q->ring) && peek(q->running) == RUN_NONE;
    if (mine)
        atomic_store_explicit(&q->running, RUN_MARK, memory_order_relaxed);
    set_unlock(q->set);
    return mine ? CLAIM_RUNNING : CLAIM_NONE;
}

static void claim_drop(struct vhq *q, enum claim claim)
{
    struct vhq_set *s = q->set;
    if (claim == CLAIM_LOCK) {
        queue_unlock(q);
        return;
    }
    set_lock(s);
    atomic_store_explicit(&q->running, RUN_NONE, memory_order_release);
    set_unlock(s);
    futex_wake(&q->running);
    dispatcher_kick(s);
}

/* ---- sync ------------------------------------------------------------------------------------ */

/* True: everything up to `target` has a marker behind it, or never will. */
static bool sync_mark(struct vhq *q, uint64_t target)
{
    if (atomic_load_explicit(&q->mark_cover, memory_order_acquire) >= target)
        return true;
    enum claim claim = claim_take(q);
    if (claim == CLAIM_NONE) {
        atomic_store_explicit(&q->want_mark, 1, memory_order_relaxed);
        return false;
    }
    enum mark mark = MARK_OK;
    if (peek(q->mark_cover) < target)
        mark = cap_mark(q);
    claim_drop(q, claim);
    return mark != MARK_FULL;
}

/* Around a call of ops: vhq_destroy and vhq_leave wait for its end. `names`: the call names
 * the stream, so not once that has left. */
static bool sync_call_begin(struct vhq *q, bool names)
{
    struct vhq_set *s = q->set;
    set_lock(s);
    bool alive = !q->dead && !(names && q->left);
    if (alive)
        atomic_fetch_add(&q->calls, 1);
    set_unlock(s);
    return alive;
}

static void sync_call_end(struct vhq *q)
{
    struct vhq_set *s = q->set;
    set_lock(s);
    atomic_fetch_sub(&q->calls, 1);
    set_unlock(s);
    futex_wake(&q->calls);
}

/* Under the set's lock: a vHQ that is destroyed meanwhile has no word any more. */
static bool sync_over(struct vhq *q, uint32_t value)
{
    struct vhq_set *s = q->set;
    if (!q->desc.done && sync_call_begin(q, false)) {
        cap_poll(q);
        sync_call_end(q);
    }
    set_lock(s);
    bool over = q->dead || peek(q->failed) || cap_reached(q, value);
    set_unlock(s);
    return over;
}

struct patience {
    uint64_t began_ns, probe_ns, nap_ns;
    int slack; /* the thread's own timer slack; -1: untouched */
    bool asks; /* gives up instead of a probe */
    bool over;
};

static void patience_probe(struct patience *p, struct vhq *q)
{
    /* No thread can place a marker while one is in the driver, and that may never come back. */
    uint64_t now = clock_ns(), again_ns = NEVER;
    set_lock(q->set);
    if (q->turn && turn_late(q->turn, now, &again_ns))
        turn_revoke(q);
    set_unlock(q->set);
    if (gate_used(q->set) && order_held(q, true))
        return; /* a marker would only pile up behind a gate */
    if (p->asks) {
        p->over = true;
        return;
    }
    /* The context may have died while no thread submits: a marker would tell. The newest number
     * once more changes nothing else. */
    enum claim claim = claim_take(q);
    if (claim == CLAIM_NONE)
        return;
    struct vhq_set *s = q->set;
    lock_none_inside();
    if (s->ops.mark(s->user, q, q->desc.stream, peek(q->newest)) != 0)
        atomic_store_explicit(&q->failed, 1, memory_order_relaxed);
    claim_drop(q, claim);
}

static void patience_wait(struct patience *p, struct vhq *q)
{
    uint64_t now = clock_ns();
    if (p->began_ns == 0) {
        p->began_ns = now;
        p->probe_ns = now + GUARD_MS * NS_PER_MS;
        p->nap_ns = NAP_MIN_NS;
        p->slack = -1;
    }
    if (now - p->began_ns < SPIN_NS)
        return;
    if (p->slack < 0) {
        /* The default of 50 us would turn every nap into a long one. */
        p->slack = prctl(PR_GET_TIMERSLACK);
        prctl(PR_SET_TIMERSLACK, 1ul);
    }
    if (now > p->probe_ns) {
        patience_probe(p, q);
        p->probe_ns = now + GUARD_MS * NS_PER_MS;
    }
    clock_nap(p->nap_ns);
    p->nap_ns = p->nap_ns * 2 < NAP_MAX_NS ? p->nap_ns * 2 : NAP_MAX_NS;
}

static void sync_look(struct vhq *q)
{
    set_lock(q->set);
    cap_poll_words(q->set, clock_ns());
    set_unlock(q->set);
}

static void patience_end(const struct patience *p, struct vhq *q)
{
    if (p->began_ns != 0 && p->slack > 0)
        prctl(PR_SET_TIMERSLACK, (unsigned long)p->slack);
    sync_look(q);
}

/* Asks the driver. If it is complete, and nothing was sent since `target`, the cap learns that. */
static bool sync_complete(struct vhq *q, uint64_t target)
{
    struct vhq_set *s = q->set;
    bool complete = true;
    if (sync_call_begin(q, true)) {
        lock_none_inside();
        complete = s->ops.complete(s->user, q, q->desc.stream);
        sync_call_end(q);
    }
    enum claim claim = complete ? claim_take(q) : CLAIM_NONE;
    if (claim == CLAIM_NONE)
        return complete;
    set_lock(s);
    if (peek(q->sent) == target)
        cap_complete_all(q, clock_ns());
    set_unlock(s);
    claim_drop(q, claim);
    return complete;
}

/*
 * A late marker ties streams together: in the legacy stream it follows what the blocking ones have
 * been given, and they follow it; in one of them it follows the legacy stream. What stands there
 * may wait for what the caller, or another thread, does next. So may what shares the hardware queue
 * with it (vhq_config.external_waits). So the driver is asked, unless there is a marker anyway. Its
 * answer covers what others submit meanwhile, too: after a while the caller has to wait by itself.
 */
static void sync_asked(struct vhq *q)
{
    struct patience p = {.asks = true};
    uint64_t target = atomic_load_explicit(&q->sent, memory_order_acquire);
    bool over = false;
    while (!p.over && !over) {
        if (atomic_load_explicit(&q->mark_cover, memory_order_acquire) >= target)
            over = sync_over(q, atomic_load_explicit(&q->newest, memory_order_acquire));
        else
            over = sync_complete(q, target) || peek(q->failed);
        if (!over)
            patience_wait(&p, q);
    }
    patience_end(&p, q);
}

static void sync_marked(struct vhq *q)
{
    struct patience p = {0};
    uint64_t target = atomic_load_explicit(&q->sent, memory_order_acquire);
    while (!sync_mark(q, target) && !sync_over(q, peek(q->newest) + 1)) {
        sync_look(q); /* makes room for a marker when all are out */
        patience_wait(&p, q);
    }
    uint32_t value = atomic_load_explicit(&q->newest, memory_order_acquire);
    while (!sync_over(q, value))
        patience_wait(&p, q);
    patience_end(&p, q);
}

/* The vHQ is drained. */
static void sync_queue(struct vhq *q)
{
    const struct vhq_set *s = q->set;
    if ((q->desc.kind != VHQ_NONBLOCKING || word_read(s->cfg.external_waits) != 0) &&
        s->ops.complete)
        sync_asked(q);
    else
        sync_marked(q);
}

/* Is there anything that is not known complete? Unless the set finishes, false also while the
 * caller has to ask the driver itself. */
static inline bool sync_needed(const struct vhq *q, bool finish)
{
    return (peek(q->sent) != peek(q->mark_cover) || peek(q->newest) != peek(q->complete_mark)) &&
           (finish || !cap_alone(q->set));
}

void vhq_sync(struct vhq *q, bool boost)
{
    if (passive())
        return;
    vhq_drain(q, boost, true);
    if (sync_needed(q, false))
        sync_queue(q);
}

bool vhq_loose(const struct vhq *q)
{
    return peek(q->loose_ns) != 0;
}

bool vhq_needs_query(const struct vhq *q)
{
    bool marked = q->desc.done && peek(q->newest) != peek(q->complete_mark);
    return vhq_loose(q) || (!marked && vhq_in_flight(q) && !MUTANT(tail_unasked));
}

uint64_t vhq_sent(const struct vhq *q)
{
    return atomic_load_explicit(&q->sent, memory_order_acquire);
}

void vhq_note_complete(struct vhq *q, uint64_t sent)
{
    struct vhq_set *s = q->set;
    if ((!vhq_loose(q) && (MUTANT(tail_unasked) || !vhq_in_flight(q))) || passive() ||
        !queue_trylock(q))
        return;
    bool mine = claim_locked(q) && lock_try(&s->lock, RANK_SET);
    if (mine && peek(q->sent) == sent)
        cap_complete_all(q, clock_ns());
    if (mine)
        set_unlock(s);
    queue_unlock(q);
}

/* In line: most streams need nothing. */
static inline __attribute__((always_inline)) void set_sync(struct vhq_set *set, bool finish)
{
    set_lock(set);
    for (struct vhq *q = set->all, *next; q; q = next) {
        if (q->dead || !sync_needed(q, finish)) {
            next = q->next;
            continue;
        }
        bool left = q->left; /* no marker can be put behind what that left in flight */
        q->pins++;           /* keeps it, and its place in the list */
        set_unlock(set);
        if (!left && finish)
            sync_marked(q);
        else if (!left)
            sync_queue(q);
        else if (q->mark_expires_ns == 0)
            sync_asked(q);
        set_lock(set);
        next = q->next;
        queue_unpin(q);
    }
    set_unlock(set);
}

void vhq_set_sync(struct vhq_set *set, bool boost)
{
    if (passive())
        return;
    vhq_set_drain(set, VHQ_DRAIN_ALL, boost);
    if (!cap_alone(set)) /* else the caller asks the driver, whatever each of them has */
        set_sync(set, false);
}

void vhq_set_finish(struct vhq_set *set)
{
    if (passive())
        return;
    vhq_set_drain(set, VHQ_DRAIN_ALL, false);
    set_sync(set, true);
    /* What was found complete otherwise is still listed, and looks read words of listed vHQs. */
    set_lock(set);
    for (struct vhq *q = set->all; q; q = q->next)
        if (q->left)
            cap_forget(q); /* the words that their markers are written to will go */
    cap_poll_words(set, clock_ns());
    set_unlock(set);
}
