/*
 * order.c - which command goes next.
 *
 * Tickets are given in call order, before the command becomes visible. So a look at all heads must
 * be a consistent cut: `issued` is read first, and heads with later tickets are left for the next
 * look. Then a command that ended before another began is never missed while the other is seen.
 *
 * Room in the budget goes by stream priority, as the device would choose, and by ticket among
 * equals. So short commands do not for ever pass a long one in front of them that does not fit yet.
 * An early one of low priority is passed PASSES_MOST times in a row at most. Commands that do not
 * consume the cap may pass.
 *
 * Where all wait for room, it goes round. The device begins the next kernel of a stream when the
 * one before has ended, and by then those of other streams have begun. So a stream whose command
 * went last comes after all others, and after what was called since.
 *
 * A wait for a value may stop a hardware queue that other streams share. What was begun before it
 * must not come behind it there, so it goes when it is the earliest of all.
 *
 * A look at all heads costs as much as there are. Most often the earliest of all may go, which is
 * known without one: so short looks follow, which see that head, or a few behind it (near looks).
 *
 * Boosts are ticket bounds: a thread of a higher level waits for everything below. A boosted
 * command that must follow others passes its boost on to them, through fences also into other vHQs
 * and sets. So does one of a higher level than others of its set have: that level may be what holds
 * them.
 */
#include "vhq/internal.h"

/* The smallest tickets of some heads: of those of blocking streams, of legacy ones, of all. */
struct least {
    uint64_t blocking, legacy, earliest;
};
static const struct least least_none = {NEVER, NEVER, NEVER};

struct scan {
    struct vhq_set *s;
    uint64_t limit; /* tickets of this look are below it */
    struct least least;
    uint64_t now; /* 0: not read yet */
    struct job job;
    bool again;              /* something changed that this look has not seen */
    const struct slot *full; /* the first command that waits for room in its own vHQ */
    bool looked;             /* all completion words were looked at */
    bool passes;             /* the command that may go next passes an earlier one */
    bool settles;            /* the end of what is in flight has to be known: a head is held, or
                              * waits for room beside the work of its holders */
    bool plain;              /* no head is uncounted, held or a turn */
    uint32_t held;           /* heads that are held, ... */
    bool by_word;            /* ... by nothing but the set's word and the program, ... */
    uint64_t held_since;     /* ... the last one since then */
    struct vhq *admitted;    /* its head is the earliest command that the guard lets in */
};

static uint64_t scan_now(struct scan *c)
{
    if (c->now == 0)
        gaps_note_hold(c->s, c->now = clock_ns());
    return c->now;
}

static bool lower(uint64_t *least, uint64_t ticket)
{
    bool lowers = ticket < *least;
    if (lowers)
        *least = ticket;
    return lowers;
}

/* True: something changed. */
static bool least_note(struct least *l, const struct vhq *q, uint64_t ticket)
{
    bool changed = lower(&l->earliest, ticket);
    if (q->desc.kind == VHQ_BLOCKING)
        changed |= lower(&l->blocking, ticket);
    if (q->desc.kind == VHQ_LEGACY)
        changed |= lower(&l->legacy, ticket);
    return changed;
}

/* ---- rules ----------------------------------------------------------------------------------- */

bool order_boost(_Atomic uint64_t *boost_below, uint64_t below)
{
    uint64_t old = atomic_load(boost_below);
    bool raises = old < below;
    while (old < below && !atomic_compare_exchange_weak(boost_below, &old, below))
        ;
    return raises;
}

/* True: no client above is at work, only another process has its turn, which may have a marker
 * beside it. A set with a least share has to know what ran, in any hold. */
static bool held_measured(const struct vhq_set *s, const _Atomic uint32_t *hold)
{
    uint32_t word = word_read(hold);
    return word != 0 && ((word & ~s->cfg.unbounded) == 0 || s->had_share);
}

static bool fences_ready(const struct slot *slot)
{
    return (!slot->after || MUTANT(wait_unordered) || fence_wait_ready(slot->after)) &&
           (!slot->displaces || MUTANT(rerecord_unordered) || fence_displaceable(slot->displaces));
}

/* The earliest of those that the rule of the legacy stream may put ahead of q's. */
static uint64_t legacy_ahead(const struct least *l, const struct vhq *q)
{
    return q->desc.kind == VHQ_BLOCKING ? l->legacy
           : q->desc.kind == VHQ_LEGACY ? l->blocking
                                        : NEVER;
}

/* Boosts all heads, or those that are ahead by the legacy rule. */
static void boost_heads(struct scan *c, const struct vhq *q, uint64_t ticket, bool all)
{
    enum vhq_kind ahead = q->desc.kind == VHQ_LEGACY ? VHQ_BLOCKING : VHQ_LEGACY;
    for (uint32_t i = 0; i < c->s->heads; i++)
        if (all || c->s->head[i].q->desc.kind == ahead)
            c->again |= order_boost(&c->s->head[i].q->boost_below, ticket);
}

/* What a boosted command waits for outside its vHQ. The dispatcher boosts fences after this look,
 * because that needs the locks of other sets. */
static void boost_fences(struct scan *c, struct slot *slot)
{
    struct vhq_fence *f = slot->after;
    if (f && !vhq_fence_submitted(f) && !(peek(f->state) & FENCE_BOOSTED)) {
        c->job = (struct job){.kind = JOB_BOOST, .fence = f};
        return;
    }
    f = slot->displaces;
    if (!f || vhq_fence_over(f))
        return;
    uint32_t state = peek(f->state);
    if (!(state & (FENCE_SUBMITTED | FENCE_BOOSTED)))
        c->job = (struct job){.kind = JOB_BOOST, .fence = f};
    else if ((state & FENCE_SUBMITTED) && !(state & FENCE_BOOSTED_WAITS))
        c->job = (struct job){.kind = JOB_BOOST_WAITS, .fence = f};
}

/* ---- the look -------------------------------------------------------------------------------- */

/* Looks at a long hold are rarer, but come within 1 % of its length; in its first second, within a
 * usual pause of real time between two requests. If a hold began since this one was seen, real time
 * comes and goes, and its pauses may be short. */
static void hold_wake_set(struct scan *c, uint64_t since, const _Atomic uint64_t *began)
{
    uint64_t now = scan_now(c), held = now - since, look = held / 100;
    bool often = held < HOLD_LONG_MS * NS_PER_MS || (began && peek(*began) > since);
    uint64_t most = often || MUTANT(ticks_for_ever) ? HOLD_LOOK_MAX_US : HOLD_LOOK_LONG_US;
    lower(&c->job.wake_ns, now + between(HOLD_LOOK_US * NS_PER_US, look, most * NS_PER_US));
}

/* Once in a look: what lands later must not let a command go ahead of one that was passed over. */
static void scan_look(struct scan *c)
{
    if (!c->looked)
        cap_poll_words(c->s, scan_now(c));
    c->looked = true;
}

static void scan_held(struct scan *c, struct vhq *q)
{
    c->plain = false;
    if (q->held_since_ns == 0)
        times_hold_begins(q, scan_now(c));
    if (c->s->cfg.times && peek(c->s->area_ns) != 0)
        scan_look(c);
    c->held++;
    c->held_since = q->held_since_ns > c->held_since ? q->held_since_ns : c->held_since;
    c->by_word &= !c->s->gaps.several && peek(q->hold) == c->s->gaps.hold && peek(q->peers) == 0;
    if (peek(q->own_hold) != 0 && peek(c->s->area_ns) == 0)
        return; /* its end kicks */
    hold_wake_set(c, q->held_since_ns, q->desc.hold_since);
}

static void scan_unheld(struct scan *c, struct vhq *q)
{
    if (q->held_since_ns == 0)
        return;
    if (MUTANT(lost_on_release) && ring_head(&q->ring))
        ring_head(&q->ring)->cmd.run = NULL;
    times_hold_ends(q, scan_now(c));
}

/* NULL: it is empty, and leaves the heads. Partner: dispatcher_ready. */
static struct slot *order_head(struct scan *c, struct vhq *q)
{
    struct slot *slot = ring_head(&q->ring);
    if (likely(slot))
        return slot;
    scan_unheld(c, q);
    atomic_store(&q->ready_listed, 0);
    /* If a producer published meanwhile and saw `ready_listed` still set, the vHQ is ours again. */
    slot = ring_head(&q->ring);
    return slot && !atomic_exchange(&q->ready_listed, 1) ? slot : NULL;
}

static bool order_dropping(const struct scan *c, const struct vhq *q, const struct slot *slot)
{
    return (peek(q->ring.head_seq) < q->reset_seq && !q->begun && !(slot->flags & SLOT_TURN)) ||
           c->s->stage == SET_ABANDONED;
}

static bool turn_granted(const struct slot *slot)
{
    const struct turn *t = slot->cmd.payload;
    return (slot->flags & SLOT_TURN) && peek(t->granted) != TURN_WAITS;
}

/* Its thread is inside the driver, or on its way there. It blocks no other call, as natively: no
 * call can know which of the two came first, and this one may wait for what is called next. */
static bool turn_in_driver(const struct slot *slot)
{
    return turn_granted(slot) && !MUTANT(calls_in_the_way);
}

/* The command of a vHQ with this head that others wait for; NULL: there is none. */
static struct slot *head_returned(struct vhq *q, struct slot *slot)
{
    uint32_t at;
    if (likely(!turn_in_driver(slot)))
        return slot;
    slot = ring_next(&q->ring, NULL, &at);
    return ring_count(&q->ring) > 1 ? ring_next(&q->ring, slot, &at) : NULL;
}

/* First pass: the smallest ticket of each kind. Also finds commands to drop. */
static void scan_tickets(struct scan *c)
{
    struct vhq_set *s = c->s;
    uint32_t n = s->heads;
    s->heads = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct vhq *q = s->head[i].q;
        struct slot *slot = order_head(c, q);
        if (!slot)
            continue;
        s->head[s->heads++] = (struct head){slot->ticket, q};
        if ((slot->flags & (VHQ_UNCOUNTED | SLOT_TURN)) || peek(q->running) == RUN_TURN)
            c->plain = false;
        if (slot->ticket >= c->limit) {
            c->again = true;
            continue;
        }
        const struct slot *returned = head_returned(q, slot);
        if (likely(returned))
            least_note(&c->least, q, returned->ticket);
        if (unlikely(atomic_load_explicit(&q->running, memory_order_acquire) == RUN_TURN)) {
            /* q stands behind a call that is in the driver; without a turn it has returned. */
            if (q->turn && turn_late(q->turn, scan_now(c), &c->job.wake_ns))
                turn_revoke(q);
        } else if (unlikely(turn_granted(slot))) {
            c->again |= turn_take_back(slot->cmd.payload, scan_now(c), &c->job.wake_ns);
        }
        if (peek(q->running) == RUN_NONE && order_dropping(c, q, slot))
            c->job = (struct job){.kind = JOB_DROP, .q = q, .slot = slot};
    }
    heads_order(s);
}

/* A deliberate bug. */
static bool hold_late(struct scan *c, const struct vhq *q, bool held)
{
    static uint64_t seen_ns;
    if (held)
        seen_ns = scan_now(c);
    return held || (q->held_since_ns && scan_now(c) < seen_ns + NS_PER_MS);
}

/* If there is no room for it now, there may be at the next look. */
static bool scan_pads(struct scan *c, struct vhq *q, const struct slot *slot)
{
    lower(&c->job.wake_ns, scan_now(c) + PAD_LOOK_US * NS_PER_US);
    scan_look(c);
    bool fits = pad_fits(q, slot, scan_now(c));
    c->settles |= !fits;
    return fits;
}

static bool order_eligible(struct scan *c, struct vhq *q, struct slot *slot)
{
    bool exempt = slot->ticket < atomic_load(&q->boost_below) ||
                  slot->ticket < atomic_load(&q->set->boost_below);
    /* While its context goes away, no thread will release a vHQ that the application holds. */
    bool held = order_held(q, c->s->stage == SET_OPEN);
    if (MUTANT(hold_opens_late))
        held = hold_late(c, q, held);
    slot->flags &= (uint16_t)~SLOT_PADDED;
    if (held && !exempt) {
        scan_held(c, q);
        c->settles |= held_measured(q->set, q->desc.hold);
        exempt = peer_release(q, slot->ticket, scan_now(c), &c->job.wake_ns);
        if (!exempt && (likely(c->s->room.parts == 0) || !scan_pads(c, q, slot)))
            return false;
        slot->flags |= exempt ? 0 : SLOT_PADDED;
    } else {
        scan_unheld(c, q);
    }
    exempt = exempt || (q->desc.level > c->s->lowest && !MUTANT(level_inverted));
    bool legacy = legacy_ahead(&c->least, q) <= slot->ticket && !MUTANT(legacy_rule_dropped);
    if (legacy || ((slot->flags & VHQ_AFTER_ALL) && c->least.earliest < slot->ticket)) {
        if (exempt)
            boost_heads(c, q, slot->ticket, !legacy);
        return false;
    }
    if (!fences_ready(slot)) {
        if (exempt)
            boost_fences(c, slot);
        return false;
    }
    return true;
}

static bool scan_stream_full(struct scan *c, struct vhq *q, uint32_t load)
{
    bool alone = cap_alone(c->s);
    if (alone ? cap_loose_room(c->s) : !cap_stream_full(q, load, 0))
        return false;
    scan_look(c);
    return alone ? !cap_loose_stream_room(q, scan_now(c)) : cap_stream_full(q, load, scan_now(c));
}

/* When the command was buffered, less was known of its time. */
static void slot_learn(struct slot *slot)
{
    if (!(slot->flags & VHQ_LEARNS) || !slot->cmd.run)
        return;
    const struct vhq_learned *const *learned = slot->cmd.payload;
    uint64_t ns = peek((*learned)->upper_ns);
    if (ns == 0)
        return;
    slot->load = load_make(ns, load_parts(slot->load));
    slot->flags &= (uint16_t)~VHQ_LEARNS;
}

/* A stream whose work makes progress needs no guard. */
static __attribute__((noinline)) bool guard_admits(const struct vhq_set *s, const struct vhq *q)
{
    if (!vhq_in_flight(q))
        return s->admits_beside || (s->admits != 0 && s->admits_idle);
    return s->admits != 0 && q->stall == STALL_GUARDED;
}

/* All of a few streams wait for room. With many, a look at all heads would cost too much. */
static bool order_rounds(const struct vhq_set *s)
{
    return s->blocked_since_ns != 0 && s->heads > 1 && s->heads <= ROUND_MOST &&
           !MUTANT(streams_in_line);
}

/* Since when a stream's next command could have gone: since it was called, or the one before it
 * went. In the order of tickets, and at one ticket in the order in which commands went. */
struct ready {
    uint64_t ticket, nth;
};

static bool ready_before(struct ready a, struct ready b)
{
    return a.ticket != b.ticket ? a.ticket < b.ticket : a.nth < b.nth && !MUTANT(third_waits);
}

/* The command that went last may still be running. */
static struct ready order_ready(const struct vhq *q, uint64_t ticket, bool rounds)
{
    if (rounds && q == q->set->went_last)
        return (struct ready){NEVER - 1, 0};
    if (rounds && q->went > ticket)
        return (struct ready){q->went, q->went_nth};
    return (struct ready){ticket, 0};
}

/* Second pass: the next command that may go, and the smallest ticket among those that do not
 * consume the cap. */
static void scan_heads(struct scan *c, struct vhq **next, struct vhq **first_free)
{
    struct vhq *first = NULL, *earliest = NULL;
    int32_t first_priority = 0;
    struct ready best_first = {NEVER, 0}, best_early = {NEVER, 0};
    uint64_t best_free = NEVER, best_admitted = NEVER;
    bool rounds = order_rounds(c->s);
    bool admits = unlikely(c->s->stalled) && (c->s->admits_beside || c->s->admits != 0);
    for (uint32_t i = 0; i < c->s->heads; i++) {
        struct vhq *q = c->s->head[i].q;
        struct slot *slot = ring_head(&q->ring);
        uint64_t ticket = slot->ticket;
        bool is_free = (slot->flags & VHQ_UNCOUNTED) != 0;
        if (ticket >= c->limit || peek(q->running) != RUN_NONE || ticket > best_free)
            continue;
        slot_learn(slot);
        struct ready ready = order_ready(q, ticket, rounds);
        int32_t priority = q->desc.priority;
        if (MUTANT(priority_goes_round) && ready.ticket == NEVER - 1)
            priority = INT32_MAX;
        bool before = !first || priority < first_priority ||
                      (priority == first_priority && ready_before(ready, best_first)),
             early = !earliest || ready_before(ready, best_early),
             admitted =
                 unlikely(admits) && !is_free && ticket < best_admitted && guard_admits(c->s, q);
        if ((!is_free && !before && !early && !admitted) || !order_eligible(c, q, slot))
            continue;
        if (admitted) {
            c->admitted = q;
            best_admitted = ticket;
        }
        if (is_free) {
            best_free = ticket;
            *first_free = q;
        } else if (scan_stream_full(c, q, slot->load)) {
            if (!c->full || ticket < c->full->ticket)
                c->full = slot;
        } else {
            if (before) {
                first = q;
                first_priority = priority;
                best_first = ready;
            }
            if (early) {
                earliest = q;
                best_early = ready;
            }
        }
    }
    /* The one of highest priority, unless it has passed the earliest once too often. */
    *next = c->s->passes >= PASSES_MOST ? earliest : first;
    c->passes = *next != earliest;
}

/* A turn needs no command: the thread that waits for it submits by itself. */
static bool order_grant(const struct slot *slot)
{
    struct turn *t = slot->cmd.payload;
    if (!(slot->flags & SLOT_TURN))
        return false;
    atomic_store_explicit(&t->granted, TURN_GRANTED, memory_order_release);
    futex_wake(&t->granted);
    return true;
}

static void order_go(struct scan *c, struct vhq *q, struct slot *slot)
{
    if (unlikely(slot->flags & SLOT_PADDED) && !(slot->flags & VHQ_UNCOUNTED)) {
        bump(c->s->padded, 1u);
        q->padded = true;
    }
    if (!(slot->flags & VHQ_UNCOUNTED)) {
        c->s->went_last = q;
        q->went = atomic_load_explicit(&c->s->issued, memory_order_relaxed);
        q->went_nth = ++c->s->went_count;
    }
    atomic_store_explicit(&q->running, RUN_HEAD, memory_order_relaxed);
    c->job = (struct job){.kind = JOB_RUN, .q = q, .slot = slot};
    if (order_grant(slot)) { /* what stands behind the turn is no longer waited for */
        c->job.kind = JOB_AGAIN;
        waiter_check(c->s, q, false);
    }
}

/* It has no room: the guard lets it in. */
static __attribute__((noinline)) void order_admit(struct scan *c, struct vhq *q)
{
    struct slot *slot = ring_head(&q->ring);
    q->beside = c->s->admits_beside && !vhq_in_flight(q);
    if (q->beside)
        c->s->admits_beside = false;
    else
        blocked_admitted(c->s, slot->load, scan_now(c));
    slot->flags &= (uint16_t)~SLOT_LOOSE;
    cap_force(q, slot->load);
    order_go(c, q, slot);
}

static bool order_room(struct scan *c, struct vhq *q, struct slot *slot)
{
    bool loose = cap_alone(c->s);
    slot->flags = (uint16_t)((slot->flags & ~SLOT_LOOSE) | (loose ? SLOT_LOOSE : 0));
    if (!(loose ? cap_loose_room(c->s) : cap_take(q, slot->load))) {
        scan_look(c);
        if (!(loose ? cap_loose_stream_room(q, scan_now(c))
                    : cap_take_credited(q, slot->load, scan_now(c))))
            return false;
    }
    if (unlikely(c->s->blocked_since_ns != 0))
        blocked_cap_let_in(c->s, scan_now(c));
    return true;
}

static bool order_mark(struct scan *c, struct vhq *q)
{
    if (q)
        c->job = (struct job){.kind = JOB_MARK, .q = q};
    return q;
}

/* Something could go if the cap had room. */
static void order_capped(struct scan *c, const struct slot *first)
{
    struct vhq_set *s = c->s;
    if (order_mark(c, cap_claim_unmarked(s, false)))
        return;
    s->poll_due = s->wordless != 0 || s->asking;
    if (!first && cap_alone(s))
        first = c->full; /* which waits for room in its stream, or in all */
    lower(&c->job.wake_ns, blocked_wake_ns(s, first ? first->load : 0, scan_now(c)));
}

static void order_choose(struct scan *c)
{
    struct vhq *first = NULL, *first_free = NULL;
    scan_heads(c, &first, &first_free);
    if (c->job.kind != JOB_SLEEP)
        return;
    struct slot *slot = first ? ring_head(&first->ring) : NULL,
                *free_slot = first_free ? ring_head(&first_free->ring) : NULL;
    bool free_first = free_slot && (!slot || free_slot->ticket < slot->ticket);
    if (!free_first && slot && order_room(c, first, slot)) {
        c->s->passes = c->passes ? c->s->passes + 1 : 0;
        order_go(c, first, slot);
    } else if (free_slot) {
        order_go(c, first_free, free_slot);
    } else if (unlikely(c->admitted) &&
               (!cap_client_above(c->s) || shift_update(c->s, scan_now(c)) <= c->now)) {
        order_admit(c, c->admitted);
    } else if (slot || c->full) {
        order_capped(c, slot);
    } else if (c->settles) {
        scan_look(c);
        order_mark(c, cap_claim_unmarked(c->s, false)); /* to know when there is room */
    } else if (c->least.earliest == NEVER) {
        c->s->blocked_since_ns = 0;
    }
}

/* ---- short looks ----------------------------------------------------------------------------- */

/* The earliest head of all, which is then the first of the heap; NULL: there is none. */
static struct slot *scan_earliest(struct scan *c)
{
    struct vhq_set *s = c->s;
    while (s->heads != 0) {
        struct slot *slot = order_head(c, s->head[0].q);
        if (!slot)
            heads_leaves(s, 0);
        else if (slot->ticket == s->head[0].ticket)
            return slot;
        else
            heads_is(s, 0, slot->ticket);
    }
    return NULL;
}

/* When all heads are to be looked at while the cap blocks: since the last such look heads may have
 * been boosted, or held one by one. This costs little of the time. */
static uint64_t all_due(const struct vhq_set *s)
{
    return s->all_ns + SHORT_LOOKS_US * NS_PER_US + s->heads * SHORT_LOOKS_EACH_NS;
}

/* ---- near looks ------------------------------------------------------------------------------ */

/* Places in the heap of heads, by descending ticket: the last one comes next in call order. */
struct near {
    uint32_t place[NEAR_LOOKS + 2], n;
};

static void near_add(const struct vhq_set *s, struct near *near, uint32_t place)
{
    uint32_t i = near->n;
    if (place >= s->heads)
        return;
    for (; i != 0 && s->head[near->place[i - 1]].ticket < s->head[place].ticket; i--)
        near->place[i] = near->place[i - 1];
    near->place[i] = place;
    near->n++;
}

/* NULL: there are no more, or one was empty and has left: then there has to be another look. */
static struct slot *near_next(struct scan *c, struct near *near, struct vhq **q)
{
    struct vhq_set *s = c->s;
    while (near->n != 0) {
        uint32_t place = near->place[--near->n];
        struct slot *slot = order_head(c, s->head[place].q);
        if (unlikely(!slot)) {
            heads_leaves(s, place);
            c->job.kind = JOB_AGAIN;
            return NULL;
        }
        if (slot->ticket == s->head[place].ticket) {
            *q = s->head[place].q;
            near_add(s, near, 2 * place + 1);
            near_add(s, near, 2 * place + 2);
            return slot;
        }
        heads_is(s, place, slot->ticket); /* another head is here now, with a later ticket */
        near_add(s, near, place);
    }
    return NULL;
}

/* False: this head needs a look at all heads. */
static inline bool near_plain(const struct scan *c, struct vhq *q, const struct slot *slot)
{
    uint32_t running = atomic_load_explicit(&q->running, memory_order_acquire);
    return slot->ticket < c->limit && running != RUN_TURN && !(slot->flags & SLOT_TURN) &&
           ((slot->flags & VHQ_UNCOUNTED) || q->desc.priority == c->s->first) &&
           !(running == RUN_NONE && order_dropping(c, q, slot));
}

/*
 * The earliest may not go, so this tries those that follow it in call order, one after another.
 * What each of them has to follow has been seen by then. So the first that may go is the next one,
 * as in a look at all heads. False: none was found among NEAR_LOOKS.
 */
static __attribute__((noinline)) bool order_near(struct scan *c)
{
    struct vhq_set *s = c->s;
    struct near near = {.n = 0};
    struct slot *slot;
    struct vhq *q;
    const struct slot *full = NULL; /* the first that counts has no room: so none has */
    if (s->stage != SET_OPEN || s->stalled)
        return false;
    near_add(s, &near, 0);
    for (uint32_t i = 0; i < NEAR_LOOKS && (slot = near_next(c, &near, &q)); i++) {
        bool is_free = (slot->flags & VHQ_UNCOUNTED) != 0;
        if (!near_plain(c, q, slot))
            return false;
        bool goes = peek(q->running) == RUN_NONE && (is_free || !full);
        if (goes && !is_free)
            slot_learn(slot);
        if (goes && order_eligible(c, q, slot) && c->job.kind == JOB_SLEEP &&
            (is_free || !scan_stream_full(c, q, slot->load))) {
            if (is_free || order_room(c, q, slot)) {
                s->passes = is_free ? s->passes : 0;
                order_go(c, q, slot);
                return true;
            }
            full = slot;
        }
        if (c->job.kind != JOB_SLEEP)
            break;
        least_note(&c->least, q, slot->ticket);
    }
    if (c->job.kind != JOB_SLEEP)
        return true;
    if (!full || near.n == 0 || c->again || scan_now(c) >= all_due(s))
        return false;
    lower(&c->job.wake_ns, all_due(s));
    order_capped(c, full);
    return true;
}

/* False: a look at all heads is needed. */
static bool order_short(struct scan *c)
{
    struct slot *slot = scan_earliest(c);
    struct vhq *q = slot ? c->s->head[0].q : NULL;
    if (!slot)
        return false;
    /* If only room may keep this head back, it is the next one, whatever the others are. */
    if (c->s->stage != SET_OPEN || !near_plain(c, q, slot) || peek(q->running) != RUN_NONE ||
        q->held_since_ns != 0 || order_held(q, true) || !fences_ready(slot))
        return order_near(c);
    slot->flags &= (uint16_t)~SLOT_PADDED;
    if (!(slot->flags & VHQ_UNCOUNTED)) {
        slot_learn(slot);
        if (scan_stream_full(c, q, slot->load))
            return order_near(c);
        if (!order_room(c, q, slot)) {
            /* If the others are plain, none of them may go either. */
            if (!c->s->plain || c->s->stalled || scan_now(c) >= all_due(c->s))
                return order_near(c);
            order_capped(c, slot);
            return true;
        }
        c->s->passes = 0;
    }
    order_go(c, q, slot);
    return true;
}

/* Although all is held, something may go, or has to be looked at. */
static bool held_moves(const struct vhq_set *s)
{
    return s->stage != SET_OPEN || peek(s->area_ns) != 0 || peek(s->loose) != 0 ||
           s->room.parts != 0 || word_read(s->cfg.rings) != 0;
}

/* The last look at all heads found each of them held by the set's word, or by the program, which
 * kicks at the end. No thread has kicked since, and nothing is in flight: so the word tells what
 * another look at all of them would. */
static bool held_still(struct scan *c, uint32_t kick)
{
    struct vhq_set *s = c->s;
    if (likely(s->held_since_ns == 0))
        return false;
    if (kick != s->held_kick || atomic_load_explicit(s->gaps.hold, memory_order_acquire) == 0 ||
        held_moves(s)) {
        s->held_since_ns = 0;
        return false;
    }
    if (held_measured(s, s->gaps.hold))
        scan_look(c);
    hold_wake_set(c, s->held_since_ns, s->gaps.since);
    return true;
}

struct job order_next(struct vhq_set *s, uint32_t kick)
{
    struct scan c = {
        .s = s,
        .limit = atomic_load_explicit(&s->issued, memory_order_acquire),
        .least = least_none,
        .job = {.kind = JOB_SLEEP, .wake_ns = NEVER},
        .plain = true,
        .by_word = true,
    };
    if (held_still(&c, kick))
        return c.job;
    heads_adopt(s);
    if (unlikely(peek(s->loose) != 0) && !cap_alone(s)) {
        cap_adopt(s);
        if (order_mark(&c, cap_claim_unmarked(s, true)))
            return c.job;
    }
    if (unlikely(peek(s->mark_last) != 0)) {
        cap_adopt(s);
        if (order_mark(&c, cap_claim_unmarked(s, false)))
            return c.job;
        atomic_store(&s->mark_last, 0);
    }
    if (s->short_looks != 0 && !order_rounds(s) && order_short(&c)) {
        s->short_looks--;
        return c.job;
    }
    c.held = 0;
    scan_tickets(&c);
    if (c.job.kind == JOB_SLEEP) {
        order_choose(&c);
    } else if (c.job.kind == JOB_DROP) {
        struct vhq *q = c.job.q;
        uint32_t load = c.job.slot->load;
        bool is_free = (c.job.slot->flags & VHQ_UNCOUNTED) != 0;
        atomic_store_explicit(&q->running, RUN_HEAD, memory_order_relaxed);
        /* An abandoned set drops everything but turns: the threads that wait for those go on. */
        if (order_grant(c.job.slot)) {
            if (!is_free)
                cap_force(q, load);
            c.job.kind = JOB_AGAIN;
        }
    }
    if (c.job.kind == JOB_SLEEP && c.again)
        c.job.kind = JOB_AGAIN;
    s->short_looks = s->heads * SHORT_LOOKS_PER_HEAD;
    if (s->short_looks < SHORT_LOOKS)
        s->short_looks = SHORT_LOOKS;
    s->plain = c.plain;
    s->all_ns = c.now;
    if (c.job.kind == JOB_SLEEP && c.by_word && c.held != 0 && c.held == s->heads &&
        c.job.wake_ns != NEVER && !held_moves(s)) {
        s->held_since_ns = c.held_since;
        s->held_kick = kick;
    }
    return c.job;
}

/* The first command of a call that has returned; NULL: there is none. */
static struct slot *ring_returned(struct ring *r)
{
    struct slot *slot = ring_head(r);
    if (likely(!slot || !(slot->flags & SLOT_TURN)))
        return slot;
    slot = NULL;
    uint32_t at;
    for (uint64_t left = ring_count(r); left; left--)
        if (!((slot = ring_next(r, slot, &at))->flags & SLOT_TURN))
            return slot;
    return NULL;
}

bool order_drained(struct vhq_set *s, uint64_t below, bool turns, bool legacy)
{
    bool passed = true;
    heads_adopt(s);
    for (uint32_t i = 0; i < s->heads && passed; i++) {
        struct vhq *q = s->head[i].q;
        if (legacy && q->desc.kind == VHQ_NONBLOCKING)
            continue;
        const struct slot *slot = turns ? ring_head(&q->ring) : ring_returned(&q->ring);
        passed = !slot || slot->ticket >= below;
    }
    return passed;
}

/* Is it a turn, or behind a call, or behind one of the commands that `b` is of? */
static bool blocked_head(const struct least *b, const struct vhq *q, const struct slot *slot)
{
    uint64_t ahead = slot->flags & VHQ_AFTER_ALL ? b->earliest : legacy_ahead(b, q);
    if ((slot->flags & SLOT_TURN) || peek(q->running) == RUN_TURN || ahead < slot->ticket)
        return true;
    /* It is not looked up where the record stands: it may be behind one of them. */
    return b->earliest != NEVER && slot->after && !vhq_fence_submitted(slot->after);
}

bool order_drained_unblocked(struct vhq_set *s, uint64_t below, const struct vhq *of)
{
    static const struct least all = {0};
    struct least blocked = least_none; /* turns, and what stands behind them */
    bool passed, again;
    heads_adopt(s);
    do {
        again = false;
        passed = true;
        for (uint32_t i = 0; i < s->heads; i++) {
            struct vhq *q = s->head[i].q;
            struct slot *slot = ring_head(&q->ring);
            bool follows = slot && turn_in_driver(slot);
            bool ahead = !of || q == of || /* may it go ahead of `of`? */
                         (of->desc.kind != VHQ_NONBLOCKING && q->desc.kind != VHQ_NONBLOCKING);
            if (!slot || !(slot = head_returned(q, slot)))
                continue;
            if (follows || blocked_head(&blocked, q, slot))
                again |= least_note(&blocked, q, slot->ticket);
            else if (slot->ticket >= below || !ahead)
                continue;
            else if (!blocked_head(&all, q, slot))
                return false; /* no turn can block this one */
            else
                passed = false;
        }
    } while (again && !passed);
    return passed;
}
