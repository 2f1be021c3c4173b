/*
 * queue.c - a vHQ from the calling thread's side: begin and end of commands, birth and death, and
 * what stops it.
 *
 * Most commands may go straight to the driver (inline): vhq_begin_fast says so. For the others
 * vhq_begin decides: inline; into the ring (buffer); or, for what cannot be copied, a *turn*, which
 * is a place in the ring without a command. When that place is reached, the waiting thread submits
 * and not the dispatcher. To every rule a turn is a command like any other.
 */
#include "vhq/internal.h"

#include "common/list.h"

#include <errno.h>
#include <stdlib.h>

#include <utlist.h>

enum {
    DIRECT_LOOK_US = 50,
    DIRECT_BYTES = 256,
};

static_assert(!(VHQ_OVERTAKES & (0xffff | VHQ_IN_PIECES)), "a bit of its own");

/* The fence of a command that was begun inside another one's run, until vhq_end. */
static _Thread_local struct vhq_fence *t_nested __attribute__((tls_model("initial-exec")));

void queue_unlock(struct vhq *q)
{
    queue_give(q);
}

/* ---- direct: must be buffered, where nothing can be ------------------------------------------ */

/* The caller gets a command as usual, and vhq_end runs it in the calling thread. */
static _Thread_local struct {
    struct vhq_cmd cmd;
    bool pending;
    _Alignas(VHQ_PAYLOAD_ALIGN) unsigned char payload[DIRECT_BYTES];
} t_direct __attribute__((tls_model("initial-exec")));

static int direct_offer(const struct vhq_req *req, struct vhq_cmd **cmd)
{
    if (!(req->flags & VHQ_MUST_BUFFER) || req->bytes > DIRECT_BYTES)
        return VHQ_INLINE;
    t_direct.cmd = (struct vhq_cmd){.payload = t_direct.payload};
    t_direct.pending = true;
    *cmd = &t_direct.cmd;
    return VHQ_BUFFER;
}

static int direct_run(int result)
{
    if (likely(!t_direct.pending))
        return result;
    t_direct.pending = false;
    if (result != 0 || !t_direct.cmd.run)
        return result;
    return t_direct.cmd.run(t_direct.payload);
}

/* ---- begin: inline --------------------------------------------------------------------------- */

bool vhq_calling(const struct vhq *q)
{
    return atomic_load_explicit(&q->cur.how, memory_order_acquire) != BEGUN_NONE ||
           atomic_load_explicit(&q->turns, memory_order_acquire) != 0;
}

/* Its load is in q->cur. */
static inline void begin_inline(struct vhq *q, const struct vhq_req *req, uint16_t flags)
{
    submit_before(q, flags);
    atomic_store_explicit(&q->cur.how, BEGUN_INLINE, memory_order_release);
    q->cur.flags = flags;
    q->cur.after = fence_begun(req->after) && fence_wait_begin(req->after) ? req->after : NULL;
    q->cur.signals = req->signals;
    if (req->signals) {
        q->cur.flags |= SLOT_RECORD;
        atomic_fetch_or(&req->signals->state, FENCE_BEGUN);
    }
}

/* Nothing is ahead of a command that comes now, in any vHQ of the set. */
static inline bool inline_first(const struct vhq *q, bool held_ok)
{
    return set_empty(q->set) &&
           atomic_load_explicit(&q->running, memory_order_acquire) == RUN_NONE &&
           (held_ok || !order_held(q, true));
}

/* Does the order let it go now, past the ring? */
static inline bool inline_allowed(const struct vhq *q, const struct vhq_req *req, bool held_ok)
{
    if (req->flags & VHQ_OVERTAKES)
        return true;
    return inline_first(q, held_ok) &&
           (!fence_begun(req->after) || vhq_fence_submitted(req->after)) &&
           (!fence_begun(req->displaces) || vhq_fence_over(req->displaces));
}

/* The slow way to room: look at all completion words. If that does not help, what was submitted
 * last needs a marker, or it would not be known when there is room. A command that overlaps with it
 * can wait for a marker that is out. A loose command asks for none. */
static __attribute__((noinline)) bool inline_room_looked(struct vhq *q, uint32_t flags)
{
    struct vhq_set *s = q->set;
    bool loose = (flags & SLOT_LOOSE) != 0;
    if (loose && cap_loose_stream_room(q, 0))
        return true;
    if (peek(q->loose_ns) != 0)
        cap_mark(q); /* some of it may be complete */
    if (!loose && !q->desc.done && peek(q->newest) != peek(q->complete_mark))
        cap_poll(q);
    uint64_t now = clock_ns();
    set_lock(s);
    cap_poll_words(s, now);
    bool room = loose ? cap_loose_stream_room(q, now) : cap_take_credited(q, q->cur.load, now);
    set_unlock(s);
    bool out = peek(q->newest) != peek(q->complete_mark);
    if (!room && !loose && peek(q->tail_est_ns) != 0 && !((flags & VHQ_OVERLAPS) && out))
        cap_mark(q);
    return room;
}

static inline bool inline_room(struct vhq *q, const struct vhq_req *req, uint16_t *flags)
{
    *flags = (uint16_t)req->flags;
    q->cur.load = cap_load(req);
    if (req->flags & VHQ_UNCOUNTED)
        return true;
    *flags |= cap_alone(q->set) ? SLOT_LOOSE : 0;
    return likely(*flags & SLOT_LOOSE ? cap_loose_room(q->set) : cap_take(q, q->cur.load)) ||
           inline_room_looked(q, *flags);
}

/*
 * There is no memory for a ring, or no thread. So nothing can be buffered, and the caller waits
 * here until it may go inline. The cap is only a courtesy then: after a tenth of a second it goes.
 */
static int begin_direct(struct vhq *q, const struct vhq_req *req, struct vhq_cmd **cmd)
{
    bool held_ok = req->boost && (req->flags & VHQ_MUST_INLINE);
    uint64_t impatient = clock_ns() + GUARD_MS * NS_PER_MS;
    uint16_t flags;
    atomic_store_explicit(&q->waiting, 1, memory_order_relaxed);
    for (;; clock_nap(DIRECT_LOOK_US * NS_PER_US)) {
        if (!inline_allowed(q, req, held_ok))
            continue;
        if (inline_room(q, req, &flags))
            break;
        if (clock_ns() > impatient) {
            if (!(flags & SLOT_LOOSE))
                cap_force(q, q->cur.load);
            break;
        }
    }
    atomic_store_explicit(&q->waiting, 0, memory_order_relaxed);
    begin_inline(q, req, flags);
    return direct_offer(req, cmd);
}

/* ---- begin: buffered ------------------------------------------------------------------------- */

/* Waits until a quarter of what is buffered has gone: then waking this thread pays. It gives up the
 * lock, as a handler may leave the wait by a jump; so others change the ring meanwhile. */
static inline void await_room(struct vhq *q, uint32_t bytes)
{
    while (unlikely(!ring_fits(&q->ring, bytes))) {
        uint64_t head = atomic_load_explicit(&q->ring.head_seq, memory_order_acquire);
        uint64_t buffered = peek(q->ring.tail_seq) - head;
        const struct goal g = {
            .what = VHQ_DRAIN_QUEUE, .q = q, .target = head + (buffered + 3) / 4};
        queue_give(q);
        goal_wait(q->set, &g, NEVER);
        queue_lock(q);
    }
}

static struct slot *slot_fill(struct vhq *q, const struct vhq_req *req, uint32_t bytes)
{
    struct slot *slot = ring_reserve(&q->ring, bytes);
    slot->flags =
        (uint16_t)(req->flags & (VHQ_UNCOUNTED | VHQ_OVERLAPS | VHQ_AFTER_ALL | VHQ_MAY_PAD |
                                 VHQ_PEER | VHQ_WAITS | VHQ_GATED | (bytes ? VHQ_LEARNS : 0)));
    if (unlikely(req->flags & VHQ_PEER))
        atomic_fetch_add_explicit(&q->peers, 1, memory_order_relaxed);
    slot->load = cap_load(req);
    slot->cmd = (struct vhq_cmd){.payload = slot + 1};
    /* Fences and ticket in the order that internal.h asks for at enum FENCE_*. */
    slot->after = fence_begun(req->after) ? vhq_fence_get(req->after) : NULL;
    slot->displaces = fence_begun(req->displaces) ? vhq_fence_get(req->displaces) : NULL;
    slot->signals = vhq_fence_get(req->signals);
    /* Release: a thread that sees this ticket also sees what this one did before. Acquire: the look
     * that sees this ticket sees all commands that ended before it began; partner: order_next. */
    slot->ticket = atomic_fetch_add_explicit(&q->set->issued, 1, memory_order_acq_rel);
    if (slot->after && fence_wait_begin(slot->after))
        slot->flags |= SLOT_WAIT_COUNTED;
    if (slot->signals) {
        slot->flags |= SLOT_RECORD;
        atomic_store_explicit(&slot->signals->ticket, slot->ticket, memory_order_relaxed);
        /* seq_cst: a booster either sees the queue, or slot_publish sees FENCE_BOOSTED. */
        atomic_store(&slot->signals->queue, q);
        atomic_fetch_or(&slot->signals->state, FENCE_BEGUN);
    }
    q->cur.slot = slot;
    return slot;
}

static void slot_publish(struct vhq *q, const struct slot *slot)
{
    /* Once the slot is published, the dispatcher may be done with it at once. */
    uint64_t ticket = slot->ticket;
    bool peer = (slot->flags & VHQ_PEER) != 0;
    struct vhq_fence *signals = vhq_fence_get(slot->signals), *after = vhq_fence_get(slot->after);
    if (trace_on())
        traced_queue(TRACE_BUFFERED, q, ticket, 1, 0);
    ring_publish(&q->ring);
    dispatcher_ready(q);
    if (unlikely(peer)) /* the time for which a hold keeps it back begins */
        dispatcher_kick(q->set);
    if (unlikely(signals || after)) {
        /* The fences may have been boosted before the command was visible in the ring. */
        bool boosted = (signals && (atomic_load(&signals->state) & FENCE_BOOSTED)) ||
                       (after && (atomic_load(&after->state) & FENCE_BOOSTED_WAITS));
        if (boosted) {
            order_boost(&q->boost_below, ticket + 1);
            dispatcher_kick(q->set);
        }
        vhq_fence_put(signals);
        vhq_fence_put(after);
    }
}

/* Into the ring: a command; or, if the calling thread has to submit it by itself, a turn. */
static int begin_slow(struct vhq *q, const struct vhq_req *req, struct vhq_cmd **cmd)
{
    const struct vhq_set *s = q->set;
    bool turn =
        (req->flags & VHQ_MUST_INLINE) || req->bytes > VHQ_MAX_PAYLOAD ||
        (s->ops.may_buffer && !(req->flags & VHQ_MUST_BUFFER) && !s->ops.may_buffer(s->user));
    struct turn *t = NULL;
    struct slot *slot;
    if (unlikely(!ring_alloc(&q->ring) || !dispatcher_start(q->set)) ||
        (turn && !(t = turn_new(q, req->frame))))
        return begin_direct(q, req, cmd);
    if (!turn) {
        await_room(q, req->bytes);
        atomic_store_explicit(&q->cur.how, BEGUN_BUFFER, memory_order_release);
        *cmd = &slot_fill(q, req, req->bytes)->cmd;
        return VHQ_BUFFER;
    }
    do {
        await_room(q, 0);
        atomic_fetch_add_explicit(&q->turns, 1, memory_order_relaxed);
        slot = slot_fill(q, req, 0);
        slot->flags |= SLOT_TURN;
        slot->cmd.payload = t;
        t->slot = slot;
        if (req->boost)
            order_boost(&q->boost_below, slot->ticket + 1);
        slot_publish(q, slot);
        waiter_tell(q->set);
        if (req->boost)
            dispatcher_kick(q->set);
    } while (!turn_take(t, slot, req->flags & VHQ_IN_PIECES));
    return VHQ_INLINE;
}

bool vhq_begin_fast(struct vhq *q, uint32_t flags, uint64_t est_ns, uint64_t blocks, uint32_t room)
{
    if (unlikely(vhq_t_turns != 0))
        return false;
    queue_lock(q);
    bool loose = false, goes = likely(inline_first(q, false) || MUTANT(plain_overtakes));
    if (goes && (flags & VHQ_UNCOUNTED)) {
        q->cur.flags = VHQ_UNCOUNTED;
    } else if (goes && cap_alone(q->set)) {
        loose = true;
        q->cur.flags = SLOT_LOOSE;
        q->cur.load = est_ns < MAX_EST_NS ? (uint32_t)est_ns | 1 : MAX_EST_NS;
        goes = cap_loose_room(q->set);
    } else if (goes) {
        q->cur.flags = (uint16_t)(flags & VHQ_GATED);
        q->cur.load = load_make(est_ns, vhq_parts(blocks, room));
        goes = !(flags & VHQ_ALONE) && cap_take(q, q->cur.load);
    }
    if (unlikely(!goes)) {
        queue_give(q);
        return false;
    }
    if (!loose)
        submit_before(q, q->cur.flags);
    atomic_store_explicit(&q->cur.how, BEGUN_FAST, memory_order_release);
    return true;
}

int vhq_begin(struct vhq *q, const struct vhq_req *req, struct vhq_cmd **cmd)
{
    if (passive()) {
        t_nested = req->signals;
        return direct_offer(req, cmd);
    }
    uint16_t flags;
    if (unlikely(vhq_t_turns != 0))
        turns_unwind(req->frame);
    if (unlikely(req->after || req->displaces)) {
        fence_await(req->after);
        fence_await(req->displaces);
    }
    queue_lock(q);
    if (req->displaces)
        atomic_fetch_or(&req->displaces->state, FENCE_DISPLACED);
    if (unlikely((req->flags & (VHQ_MUST_BUFFER | VHQ_IN_PIECES)) ||
                 !inline_allowed(q, req, false) || !inline_room(q, req, &flags)))
        return begin_slow(q, req, cmd);
    begin_inline(q, req, flags);
    struct turn *t = NULL;
    if ((req->flags & VHQ_MUST_INLINE) && peek(q->running) == RUN_NONE)
        t = turn_new(q, req->frame);
    if (t) { /* the call may wait in the driver, so the lock is given up */
        atomic_fetch_add_explicit(&q->turns, 1, memory_order_relaxed);
        turn_inline(t);
    }
    return VHQ_INLINE;
}

/* ---- end ------------------------------------------------------------------------------------- */

void vhq_end(struct vhq *q, const void *frame, int driver_result)
{
    if (passive()) {
        direct_run(driver_result);
        if (t_nested)
            fence_signal(t_nested);
        t_nested = NULL;
        return;
    }
    struct turn *t = unlikely(vhq_t_turns != 0) ? turns_unwind_to(q, frame) : NULL;
    if (unlikely(t)) {
        turn_end(t, driver_result);
        return;
    }
    uint32_t how = peek(q->cur.how);
    if (how == BEGUN_INLINE) {
        cap_sent(q, q->cur.flags, q->cur.load, direct_run(driver_result));
        bump(q->inlined, 1u);
        if (trace_on())
            traced_queue(TRACE_SUBMITTED, q, NEVER, 0, 0);
        if (q->cur.after)
            fence_wait_end(q->cur.after);
        if (q->cur.signals)
            fence_signal(q->cur.signals);
    } else if (how == BEGUN_BUFFER) {
        if (unlikely(driver_result != 0))
            q->cur.slot->cmd.run = NULL; /* given up; its place in the order remains */
        slot_publish(q, q->cur.slot);
    }
    atomic_store_explicit(&q->cur.how, BEGUN_NONE, memory_order_release);
    queue_give(q);
}

void vhq_end_fast(struct vhq *q, int driver_result)
{
    if (!(q->cur.flags & SLOT_LOOSE))
        cap_sent_counted(q, q->cur.flags, q->cur.load, driver_result);
    else if (likely(driver_result == 0))
        cap_sent_loose(q, q->cur.load);
    bump(q->inlined, 1u);
    atomic_store_explicit(&q->cur.how, BEGUN_NONE, memory_order_release);
    queue_give(q);
}

/* ---- birth and death ------------------------------------------------------------------------- */

int vhq_create(struct vhq_set *set, const struct vhq_desc *desc, struct vhq **out)
{
    struct vhq *q = calloc(1, sizeof(*q));
    if (!q)
        return -ENOMEM;
    q->set = set;
    q->pins = 1; /* vhq_destroy's */
    q->desc = *desc;
    atomic_store_explicit(&q->hold, desc->hold, memory_order_relaxed);
    q->ring.max_commands = set->cfg.queue;
    /* A completion word that served another stream before counts on. */
    uint32_t word = desc->done ? atomic_load(desc->done) : 0;
    atomic_init(&q->newest, word);
    atomic_init(&q->complete_mark, word);
    if (!atomic_load(&vhq_forked)) {
        set_lock(set);
        if (list_grow(&set->head, &set->heads_room, set->vhqs, sizeof(*set->head)) != 0) {
            set_unlock(set);
            queue_free(q);
            return -ENOMEM;
        }
        set->vhqs++;
        DL_APPEND(set->all, q);
        if (set->hold_all)
            measure_choose_hold(q);
        set->wordless += !desc->done;
        gaps_of(set, desc);
        set->lowest = desc->level < set->lowest ? desc->level : set->lowest;
        set->first = desc->priority < set->first ? desc->priority : set->first;
        set_unlock(set);
    }
    *out = q;
    return 0;
}

void *vhq_user(const struct vhq *q)
{
    return q->desc.user;
}

void queue_free(struct vhq *q)
{
    ring_free(&q->ring);
    free(q);
}

/* A thread that walks the list of all may stand on it: the last pin frees it. */
void queue_unpin(struct vhq *q)
{
    if (--q->pins == 0 && q->gone) {
        DL_DELETE(q->set->all, q);
        queue_free(q);
    }
}

/*
 * ---- what a stream that ends has in flight ----------------------------------------------------
 *
 * The driver runs it to its end. So the cap counts it until then, by a last marker behind it. Some
 * streams take none, such as that of a thread that ends. What has none there counts for as long as
 * the device needs for all that is in flight, by the estimates.
 */

/* As ops.mark, but it never fails. */
static int leave_mark(void *user, struct vhq *q, void *stream, uint32_t value)
{
    struct vhq_set *s = q->set;
    if (q->marks && s->ops.mark(user, q, stream, value) == 0)
        return 0;
    uint64_t ns = peek(s->area_ns);
    q->mark_expires_ns = clock_ns() + (s->scale > SCALE_ONE ? ns * s->scale / SCALE_ONE : ns);
    q->ahead[value % UNITS] = 0;
    return 0;
}

static bool leave_unmarked(const struct vhq *q)
{
    return peek(q->tail_est_ns) != 0 || peek(q->loose_ns) != 0;
}

bool vhq_leave(struct vhq *q, bool marks)
{
    uint32_t seen;
    if (passive() || MUTANT(left_uncounted))
        return false;
    vhq_drain(q, true, false);
    queue_lock(q);
    set_lock(q->set);
    q->awaited = true; /* a call in the driver loses the right; one that returns is waited for */
    turn_revoke(q);
    set_unlock(q->set);
    while ((seen = atomic_load_explicit(&q->running, memory_order_acquire)) != RUN_NONE)
        futex_wait(&q->running, seen, NEVER);
    q->marks = marks;
    /* The submission right is held, and no thread can get it any more. */
    struct vhq_set *s = q->set;
    lock_none_inside();
    bool complete = marks && s->ops.complete && leave_unmarked(q) &&
                    s->ops.complete(s->user, q, q->desc.stream);
    set_lock(s);
    if (complete)
        cap_complete_all(q, clock_ns());
    else
        cap_poll_words(s, clock_ns());
    if (cap_markers_full(q))
        cap_join_oldest(q);
    set_unlock(s);
    if (leave_unmarked(q))
        cap_mark_by(q, leave_mark);
    set_lock(s);
    bool left = q->left = vhq_in_flight(q);
    set_unlock(s);
    queue_unlock(q);
    while ((seen = atomic_load(&q->calls)) != 0)
        futex_wait(&q->calls, seen, NEVER);
    return left;
}

void vhq_destroy(struct vhq *q)
{
    uint32_t seen;

    if (!q || atomic_load(&vhq_forked))
        return;
    struct vhq_set *s = q->set;
    vhq_drain(q, true, false);
    /* From here on no other thread calls ops for it, or begins to. */
    queue_lock(q);
    set_lock(q->set);
    q->dead = q->awaited = true;
    turn_revoke(q);
    set_unlock(q->set);
    queue_give(q);
    while ((seen = atomic_load_explicit(&q->running, memory_order_acquire)) != RUN_NONE)
        futex_wait(&q->running, seen, NEVER);
    while ((seen = atomic_load(&q->calls)) != 0)
        futex_wait(&q->calls, seen, NEVER);
    registry_lock(); /* fence_boost may be looking at it */
    set_lock(s);
    heads_forget(q);
    times_hold_ends(q, clock_ns()); /* what the drain let go went during a hold */
    waiter_check(s, q, true);
    cap_forget(q);
    cap_poll_words(s, clock_ns());
    if (peek(q->in_flight))
        LL_DELETE2(s->in_flight, q, in_flight_next);
    atomic_fetch_sub_explicit(&s->in_flight_count, peek(q->in_flight), memory_order_relaxed);
    stats_add(&s->past, q);
    s->wordless -= !q->desc.done;
    s->vhqs--;
    q->gone = true;
    queue_unpin(q);
    set_unlock(s);
    registry_unlock();
}

/*
 * ---- hold, release, reset ----------------------------------------------------------------------
 *
 * A reset only draws a line. The dispatcher drops everything in front of the line, and so gives the
 * memory and the fences back off the caller's path.
 */

void vhq_hold(struct vhq *q)
{
    if (atomic_load(&vhq_forked))
        return;
    /* Under the set's lock: a command is chosen before this or not at all. */
    set_lock(q->set);
    atomic_store_explicit(&q->own_hold, 1, memory_order_release);
    q->set->short_looks = 0;
    set_unlock(q->set);
}

void vhq_release(struct vhq *q)
{
    if (atomic_load(&vhq_forked))
        return;
    atomic_store_explicit(&q->own_hold, 0, memory_order_release);
    dispatcher_kick(q->set);
}

bool vhq_held(const struct vhq *q)
{
    return atomic_load_explicit(&q->own_hold, memory_order_acquire) != 0;
}

uint32_t vhq_reset(struct vhq *q)
{
    struct slot *slot = NULL;
    uint32_t offset, dropped = 0;
    if (atomic_load(&vhq_forked))
        return 0;
    struct vhq_set *s = q->set;
    set_lock(s);
    bool head_goes = peek(q->running) == RUN_HEAD || q->begun;
    uint64_t at = peek(q->ring.head_seq), first = at + head_goes,
             last = atomic_load_explicit(&q->ring.tail_seq, memory_order_acquire);
    if (first < q->reset_seq)
        first = q->reset_seq;
    if (last > first)
        q->reset_seq = last;
    for (; first < last && at < last; at++) {
        slot = ring_next(&q->ring, slot, &offset);
        dropped += at >= first && !(slot->flags & SLOT_TURN); /* a thread waits for its turn */
    }
    s->short_looks = 0;
    set_unlock(s);
    if (dropped != 0)
        dispatcher_kick(s);
    return dropped;
}
