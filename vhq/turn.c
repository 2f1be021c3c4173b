/*
 * turn.c - what a thread of the application submits by itself in its turn, and may wait for inside
 * the driver.
 *
 * A copy into pageable memory returns when it is complete, and its stream may wait for what another
 * thread does next. So no lock is held during the call. The thread has the submission right
 * (RUN_TURN). What others call for the stream stands behind it in the ring until the call returns,
 * or has been in the driver for so long that what is submitted now comes behind it there, too:
 * natively a second call never waits for the first. Then the right is taken away (turn_revoke), and
 * no thread waits for the call any more, whatever happens to the vHQ.
 *
 * A turn that waits for its place in the ring (SLOT_TURN) gives its slot up when the call begins.
 * A turn in pieces keeps it, and by RUN_HEAD the right to submit, until the last has returned.
 */
#include "vhq/internal.h"

#include <signal.h>

#include "common/thread.h"

/*
 * A thread may never come back: it ends, or jumps out of a signal handler. What the dispatcher
 * looks at must stay: turns belong to the process. If none is free, the thread holds the lock.
 *
 * A turn that was left by a jump is ended by the next call of its thread that begins where the turn
 * can only be gone: the frame of that caller is no deeper in the stack. If the turn still waits,
 * its slot becomes a command that was given up. A turn that was granted and is not taken loses its
 * slot to the dispatcher, as a handler may run for long on top of it, and then waits anew. What a
 * handler began on top of a turn and left by a jump within the handler ends with that turn.
 */
enum { TURNS = 256 };
static struct turn turns[TURNS];

/* Turns within turns: a graph has a command on each device that it reaches. */
enum { NESTED = 17 };
static _Thread_local struct turn *t_turns[NESTED] __attribute__((tls_model("initial-exec")));
_Thread_local uint32_t vhq_t_turns __attribute__((tls_model("initial-exec")));
/* Turns that the thread still has when it ends are abandoned then. */
static _Thread_local bool t_ends __attribute__((tls_model("initial-exec")));

static struct turn *turn_free(void)
{
    static _Atomic uint32_t first;
    uint32_t from = atomic_load_explicit(&first, memory_order_relaxed);
    for (uint32_t i = 0; i < TURNS; i++) {
        struct turn *t = &turns[(from + i) % TURNS];
        /* Acquire: the thread that gave it back reads it no more. */
        if (!peek(t->taken) && !atomic_exchange_explicit(&t->taken, 1, memory_order_acquire)) {
            if (i != 0)
                atomic_store_explicit(&first, from + i, memory_order_relaxed);
            return t;
        }
    }
    return NULL;
}

static void turn_abandon(struct turn *t);

static void thread_ended(void *unused)
{
    while (vhq_t_turns && !passive())
        turn_abandon(t_turns[vhq_t_turns - 1]);
    t_ends = false; /* destructors that run after this may begin another one */
}

static __attribute__((noinline)) void thread_watch(void)
{
    static _Atomic unsigned key;
    t_ends = thread_at_end(&key, thread_ended);
}

struct turn *turn_new(struct vhq *q, const void *frame)
{
    struct turn *t = likely(vhq_t_turns < NESTED) ? turn_free() : NULL;
    if (unlikely(!t))
        return NULL;
    if (unlikely(!t_ends))
        thread_watch();
    t_turns[vhq_t_turns++] = t;
    t->q = q;
    t->set = q->set;
    t->frame = frame;
    t->over = false;
    t->begun = false;
    t->slot = NULL;
    t->kept = NULL;
    t->seen_ns = 0;
    t->locked = MUTANT(call_locks);
    atomic_store_explicit(&t->granted, TURN_WAITS, memory_order_relaxed);
    return t;
}

static void turn_unlock(const struct turn *t)
{
    if (!t->locked)
        queue_unlock(t->q);
}

/* ---- begin ----------------------------------------------------------------------------------- */

void turn_inline(struct turn *t)
{
    struct vhq *q = t->q;
    t->call = (struct slot){
        .flags = q->cur.flags,
        .load = q->cur.load,
        .ticket = NEVER,
        .after = q->cur.after,
        .signals = q->cur.signals,
    };
    t->begun = true;
    q->turn = t;
    atomic_store_explicit(&q->running, RUN_TURN, memory_order_release);
    atomic_store_explicit(&q->cur.how, BEGUN_NONE, memory_order_relaxed);
    turn_unlock(t);
}

static void turn_await(struct turn *t)
{
    while (atomic_load_explicit(&t->granted, memory_order_acquire) == TURN_WAITS)
        futex_wait(&t->granted, TURN_WAITS, NEVER);
}

bool turn_take(struct turn *t, struct slot *slot, bool in_pieces)
{
    struct vhq *q = t->q;
    struct vhq_set *s = q->set;
    turn_unlock(t);
    turn_await(t);
    set_lock(s);
    bool begun = t->begun = peek(t->granted) == TURN_GRANTED;
    set_unlock(s);
    if (unlikely(!begun)) { /* it was taken back meanwhile */
        atomic_store_explicit(&t->granted, TURN_WAITS, memory_order_release); /* t->slot is NULL */
        queue_lock(q);
        return false;
    }
    submit_before(q, slot->flags);
    if (in_pieces || MUTANT(calls_in_the_way)) {
        t->kept = slot;
        return true;
    }
    t->call = *slot;
    t->seen_ns = 0;
    set_lock(s);
    slot_submitted(q, slot);
    q->turn = t;
    dispatcher_retire(q, RUN_TURN);
    set_unlock(s);
    dispatcher_kick(s); /* a vHQ that is empty now leaves the heads */
    return true;
}

/* Waits for its turn again, as for any command. Without a turn nothing waits. */
void vhq_await_piece(struct vhq *q)
{
    if (passive() || vhq_t_turns == 0 || peek(q->turns) == 0)
        return;
    struct turn *t = t_turns[vhq_t_turns - 1];
    struct slot *slot = t->kept;
    if (!t->begun || t->q != q || !slot || t->over)
        return;
    atomic_store_explicit(&t->granted, TURN_WAITS, memory_order_relaxed);
    dispatcher_piece_sent(t->q, slot);
    dispatcher_kick(t->q->set);
    turn_await(t);
    if (!t->over)
        submit_before(t->q, slot->flags);
}

/* ---- while it is in the driver: set's lock held ---------------------------------------------- */

bool turn_late(struct turn *t, uint64_t now, uint64_t *wake_ns)
{
    if (t->seen_ns == 0)
        t->seen_ns = now;
    uint64_t due = t->seen_ns + GUARD_MS * NS_PER_MS;
    if (due > now && due < *wake_ns)
        *wake_ns = due;
    return due <= now;
}

void turn_revoke(struct vhq *q)
{
    if (!q->turn)
        return;
    q->turn = NULL;
    q->pins++; /* its thread will come back */
    bump(q->inlined, 1u);
    atomic_store_explicit(&q->running, RUN_NONE, memory_order_release);
}

/* ---- end ------------------------------------------------------------------------------------- */

static void turn_fences(const struct slot *call)
{
    if (call->ticket != NEVER) {
        slot_release(call);
        return;
    }
    if (call->signals)
        fence_signal(call->signals);
    if (call->after)
        fence_wait_end(call->after);
}

/* True: the right is still the call's, and cannot be taken any more. */
static bool turn_keep_right(const struct turn *t)
{
    struct vhq *q = t->q;
    set_lock(q->set);
    bool mine = q->turn == t;
    if (mine)
        q->turn = NULL;
    set_unlock(q->set);
    return mine;
}

static void pieces_end(struct turn *t, int err)
{
    struct vhq *q = t->q;
    struct vhq_set *s = q->set;
    struct slot *slot = t->kept;
    cap_sent(q, slot->flags, slot->load, err);
    slot_submitted(q, slot);
    slot_release(slot);
    set_lock(s);
    dispatcher_retire(q, RUN_NONE);
    atomic_fetch_sub_explicit(&q->turns, 1, memory_order_release);
    set_unlock(s);
    dispatcher_kick(s); /* what this command kept back may go */
}

void turn_end(struct turn *t, int err)
{
    struct vhq *q = t->q;
    struct vhq_set *s = t->set;
    if (unlikely(t->over)) {
        vhq_t_turns--;
        atomic_store_explicit(&t->taken, 0, memory_order_release);
        return;
    }
    const struct slot *call = t->kept ? t->kept : &t->call;
    bool locked = t->locked, buffered = call->ticket != NEVER;
    if (trace_on())
        traced_queue(TRACE_SUBMITTED, q, call->ticket, buffered ? -1 : 0, 0);
    vhq_t_turns--;
    if (t->kept) {
        bump(q->inlined, 1u);
        pieces_end(t, err);
    } else if (turn_keep_right(t)) {
        bump(q->inlined, 1u);
        cap_sent(q, call->flags, call->load, err);
        turn_fences(call);
        /* What came behind it may go. */
        set_lock(s);
        atomic_store_explicit(&q->running, RUN_NONE, memory_order_release);
        atomic_fetch_sub_explicit(&q->turns, 1, memory_order_release);
        bool followed = buffered || !ring_empty(&q->ring), awaited = q->awaited;
        set_unlock(s);
        if (unlikely(awaited))
            futex_wake(&q->running);
        if (followed)
            dispatcher_kick(s);
    } else {
        turn_fences(call);
        /* The right was taken away: what it submitted counts no more, and since it has returned, it
         * hardly waits for anything. */
        cap_give_back(q, call->flags, call->load);
        registry_lock(); /* fence_boost may be looking at it */
        set_lock(s);
        atomic_fetch_sub_explicit(&q->turns, 1, memory_order_release);
        queue_unpin(q);
        set_unlock(s);
        registry_unlock();
    }
    atomic_store_explicit(&t->taken, 0, memory_order_release);
    if (locked)
        queue_unlock(q);
}

/* ---- left by a jump -------------------------------------------------------------------------- */

/* Set's lock held. The slot stays in the ring as a command that was given up. */
static void turn_withdraw(struct turn *t)
{
    struct vhq *q = t->q;
    struct slot *slot = t->slot;
    if (peek(t->granted) == TURN_GRANTED) {
        cap_give_back(q, slot->flags, slot->load);
        atomic_store_explicit(&q->running, RUN_NONE, memory_order_release);
    }
    slot->flags &= (uint16_t)~SLOT_TURN;
    slot->cmd.run = NULL;
    t->slot = NULL;
    t->seen_ns = 0; /* its next place has the same time to be taken */
    atomic_store_explicit(&t->granted, TURN_TAKEN_BACK, memory_order_release);
    atomic_fetch_sub_explicit(&q->turns, 1, memory_order_release);
}

bool turn_take_back(struct turn *t, uint64_t now, uint64_t *wake_ns)
{
    const struct slot *slot = t->slot;
    if (!slot || t->begun || slot->after || slot->displaces || slot->signals ||
        !turn_late(t, now, wake_ns))
        return false;
    turn_withdraw(t);
    return true;
}

/* True: it waited, and does no more. The vHQ of a turn that was taken back may be gone. */
static bool turn_stop_waiting(struct turn *t)
{
    if (t->over || atomic_load_explicit(&t->granted, memory_order_acquire) == TURN_TAKEN_BACK)
        return true;
    struct vhq_set *s = t->set;
    set_lock(s);
    bool waits = !t->begun || (t->kept && peek(t->granted) == TURN_WAITS);
    if (waits && t->slot) /* else it has no place yet */
        turn_withdraw(t);
    set_unlock(s);
    if (waits)
        dispatcher_kick(s);
    return waits;
}

void turns_give_up(void)
{
    for (uint32_t i = 0; i < vhq_t_turns; i++) {
        struct turn *t = t_turns[i];
        if (!t->kept || t->over || MUTANT(jumps_unseen))
            continue;
        if (!turn_stop_waiting(t))
            pieces_end(t, 0);
        t->over = true;
    }
}

static bool on_stack(const stack_t *s, const void *frame)
{
    return !(s->ss_flags & SS_DISABLE) && (uintptr_t)frame - (uintptr_t)s->ss_sp < s->ss_size;
}

/* Two calls under way never have the same frame, whatever stacks they are on. A handler on its own
 * stack says nothing of the call below it. But a caller off that stack has left what is on it. */
static bool turn_left(const struct turn *t, const void *frame)
{
    stack_t signals;
    if (!t->frame)
        return false;
    if (frame == t->frame)
        return true;
    if (sigaltstack(NULL, &signals) != 0)
        return false;
    bool on = on_stack(&signals, frame), was = on_stack(&signals, t->frame);
    return on == was ? (uintptr_t)frame > (uintptr_t)t->frame : was;
}

/* t is the newest turn of its thread. */
static void turn_abandon(struct turn *t)
{
    t->over = turn_stop_waiting(t);
    turn_end(t, 0);
}

void turns_unwind(const void *frame)
{
    while (vhq_t_turns && turn_left(t_turns[vhq_t_turns - 1], frame) && !MUTANT(jumps_unseen))
        turn_abandon(t_turns[vhq_t_turns - 1]);
}

struct turn *turns_unwind_to(const struct vhq *q, const void *frame)
{
    uint32_t n = vhq_t_turns;
    for (; n != 0; n--) {
        const struct turn *t = t_turns[n - 1];
        if (t->begun && t->q == q && t->frame == frame)
            break;
        if (MUTANT(jumps_within_unseen))
            return NULL;
    }
    while (n != 0 && vhq_t_turns > n)
        turn_abandon(t_turns[vhq_t_turns - 1]);
    return n != 0 ? t_turns[n - 1] : NULL;
}
