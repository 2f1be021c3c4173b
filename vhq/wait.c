/*
 * wait.c - the waiters of a set.
 *
 * A thread that retires a command looks through the (short) list of waiters under the set's lock.
 * It wakes those that have got what they wait for, and no others: no thundering herd behind a full
 * ring. A signal handler may leave a wait by a jump, so no waiter lies on the stack of the thread
 * that waits. Waiters belong to the process, and one that was left is free again once there is what
 * it waited for. errno is the application's and is kept.
 */
#include "vhq/internal.h"

#include <errno.h>

#include <utlist.h>

/* A thread that finds no free waiter looks every LOOK_US. */
enum { WAITERS = 256, LOOK_US = 200 };

struct waiter {
    struct goal goal;      /* guarded by the set's lock while it is listed, like the list */
    _Atomic uint32_t stay; /* odd: taken; when it changes the goal is reached */
    struct waiter *prev, *next;
};
static struct waiter waiters[WAITERS];

static bool goal_reached(struct vhq_set *s, const struct goal *g)
{
    if (g->what == VHQ_DRAIN_QUEUE)
        return atomic_load_explicit(&g->q->ring.head_seq, memory_order_acquire) >= g->target;
    if (g->what == VHQ_DRAIN_UNBLOCKED)
        return order_drained_unblocked(s, g->target, g->q);
    return order_drained(s, g->target, g->what == VHQ_DRAIN_ALL,
                         g->what == VHQ_DRAIN_LEGACY && !MUTANT(legacy_drain_of_all));
}

/* NULL: all are taken. */
static struct waiter *waiter_take(uint32_t *stay)
{
    static _Atomic uint32_t first;
    uint32_t from = atomic_fetch_add_explicit(&first, 1, memory_order_relaxed);
    for (uint32_t i = 0; i < WAITERS; i++) {
        struct waiter *w = &waiters[(from + i) % WAITERS];
        uint32_t seen = atomic_load_explicit(&w->stay, memory_order_relaxed);
        /* Acquire: the thread that gave it back reads it no more. */
        if (seen % 2 == 0 &&
            atomic_compare_exchange_strong_explicit(&w->stay, &seen, seen + 1, memory_order_acquire,
                                                    memory_order_relaxed)) {
            *stay = seen + 1;
            return w;
        }
    }
    return NULL;
}

/* Set's lock held. */
static void waiter_give(struct vhq_set *s, struct waiter *w)
{
    DL_DELETE(s->waiters, w);
    atomic_fetch_sub_explicit(&s->waiting, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->stay, 1, memory_order_release);
}

int goal_wait(struct vhq_set *s, const struct goal *g, uint64_t deadline_ns)
{
    struct waiter mine = {.stay = 1}, *w = NULL;
    uint32_t stay = 1;
    if (unlikely(vhq_t_turns != 0))
        turns_give_up();
    atomic_fetch_add(&s->waiting, 1); /* before the look; partner: waiter_tell */
    set_lock(s);
    bool reached = goal_reached(s, g);
    if (!reached && (w = MUTANT(waits_on_stack) ? &mine : waiter_take(&stay))) {
        w->goal = *g;
        DL_APPEND(s->waiters, w);
    }
    if (!w)
        atomic_fetch_sub_explicit(&s->waiting, 1, memory_order_relaxed);
    set_unlock(s);
    if (!reached && w) {
        int ret = 0;
        while (atomic_load_explicit(&w->stay, memory_order_acquire) == stay && ret != -ETIMEDOUT)
            ret = futex_wait(&w->stay, stay, deadline_ns);
        if (ret != -ETIMEDOUT)
            return 0;
        set_lock(s);
        bool late = atomic_load_explicit(&w->stay, memory_order_acquire) == stay;
        if (late)
            waiter_give(s, w);
        set_unlock(s);
        return late ? -ETIMEDOUT : 0;
    }
    while (!reached && clock_ns() < deadline_ns) {
        clock_nap(LOOK_US * NS_PER_US);
        set_lock(s);
        reached = goal_reached(s, g);
        set_unlock(s);
    }
    return reached ? 0 : -ETIMEDOUT;
}

bool waiter_presses(const struct vhq_set *s)
{
    const struct waiter *w;
    DL_FOREACH (s->waiters, w) {
        if (!w->goal.for_end)
            return true;
    }
    bool presses = false;
    for (const struct vhq *q = s->all; q && !presses; q = q->next)
        presses = peek(q->turns) != 0 || peek(q->waiting) != 0;
    return presses;
}

void waiter_check(struct vhq_set *s, const struct vhq *q, bool gone)
{
    struct waiter *w, *next;
    DL_FOREACH_SAFE(s->waiters, w, next)
    {
        bool own = w->goal.q == q;
        if (gone ? own : (w->goal.what >= VHQ_DRAIN_ALL || own) && goal_reached(s, &w->goal)) {
            waiter_give(s, w);
            futex_wake(&w->stay); /* a thread that has taken it since sleeps on */
        }
    }
}

void waiter_tell(struct vhq_set *s)
{
    if (likely(atomic_load(&s->waiting) == 0))
        return;
    set_lock(s);
    waiter_check(s, NULL, false);
    set_unlock(s);
}
