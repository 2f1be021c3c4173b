/*
 * fence.c - what an event's latest record looks like from the host.
 *
 * A fence knows whether its record was submitted, and how many waits that began with it were not.
 * It belongs to the process: commands of different contexts may use it, so a change wakes all
 * dispatchers if one of them found a command blocked by it. Fences come from chunks that are never
 * given back, by free lists that many threads can use without meeting each other. A fence returns
 * to the list that it came from: else a thread that only takes would allocate for ever.
 */
#include "vhq/internal.h"

#include <stdlib.h>

enum {
    LISTS = 16,
    CHUNK = 64,
    AWAIT_MS = 10,
    AWAIT_NAP_NS = 10 * 1000,
    HOMELESS = LISTS, /* made in a forked child, which may not take locks */
};

static struct {
    _Alignas(CACHE_LINE) pthread_mutex_t lock;
    struct vhq_fence *free;
} lists[LISTS] = {[0 ... LISTS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}};

struct vhq_fence *vhq_fence_new(void)
{
    if (unlikely(peek(vhq_forked))) {
        struct vhq_fence *one = calloc(1, sizeof(*one));
        if (one) {
            one->home = HOMELESS;
            atomic_init(&one->refs, 1);
        }
        return one;
    }
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t mine __attribute__((tls_model("initial-exec")));
    if (unlikely(mine == 0))
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed) % LISTS;
    uint32_t n = mine - 1;
    lock_take(&lists[n].lock, RANK_FENCES);
    if (unlikely(!lists[n].free)) {
        struct vhq_fence *chunk = calloc(CHUNK, sizeof(*chunk));
        for (uint32_t i = 0; chunk && i < CHUNK; i++) {
            chunk[i].home = n;
            chunk[i].next = lists[n].free;
            lists[n].free = &chunk[i];
        }
    }
    struct vhq_fence *f = lists[n].free;
    if (likely(f))
        lists[n].free = f->next;
    lock_give(&lists[n].lock, RANK_FENCES);
    if (unlikely(!f))
        return NULL;
    atomic_store_explicit(&f->state, 0, memory_order_relaxed);
    atomic_store_explicit(&f->queue, NULL, memory_order_relaxed);
    atomic_store_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

struct vhq_fence *vhq_fence_get(struct vhq_fence *f)
{
    if (f)
        atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
    return f;
}

void vhq_fence_put(struct vhq_fence *f)
{
    if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (unlikely(f->home == HOMELESS)) {
        free(f);
    } else if (likely(!peek(vhq_forked))) {
        lock_take(&lists[f->home].lock, RANK_FENCES);
        f->next = lists[f->home].free;
        lists[f->home].free = f;
        lock_give(&lists[f->home].lock, RANK_FENCES);
    }
}

bool vhq_fence_submitted(const struct vhq_fence *f)
{
    return (fence_state(f) & FENCE_SUBMITTED) != 0;
}

/* ---- begin and end of commands --------------------------------------------------------------- */

bool fence_wait_begin(struct vhq_fence *f)
{
    uint32_t old = fence_state(f);
    do {
        if (old & FENCE_DISPLACED)
            return false;
    } while (!atomic_compare_exchange_weak(&f->state, &old, old + FENCE_WAIT));
    return true;
}

/* A command may be free to go: the threads that watch look again. */
static void fence_changed(struct vhq_fence *f, uint32_t old)
{
    if (old & FENCE_SLEEPERS)
        futex_wake(&f->state);
    if (old & FENCE_WATCHED) {
        atomic_fetch_and(&f->state, ~(uint32_t)FENCE_WATCHED);
        if (atomic_load(&vhq_forked))
            return;
        registry_lock();
        for (struct vhq_set *s = registry; s; s = s->next)
            dispatcher_kick(s);
        registry_unlock();
    }
}

void fence_wait_end(struct vhq_fence *f)
{
    uint32_t old = atomic_fetch_sub(&f->state, FENCE_WAIT);
    if (old < 2 * FENCE_WAIT)
        fence_changed(f, old & FENCE_WATCHED);
}

void fence_signal(struct vhq_fence *f)
{
    atomic_store(&f->queue, NULL);
    fence_changed(f, atomic_fetch_or(&f->state, FENCE_SUBMITTED));
}

/*
 * The recording thread has taken the fence but has not come to vhq_begin, or is blocked there, by a
 * full ring or a hold. Without a bound a thread of a higher level could wait here for a held
 * thread, which is held because the first one is active. No lock is held here.
 */
void fence_await(const struct vhq_fence *f)
{
    if (likely(!f || fence_begun(f)))
        return;
    for (uint64_t end = clock_ns() + AWAIT_MS * NS_PER_MS; !fence_begun(f) && clock_ns() < end;)
        clock_nap(AWAIT_NAP_NS);
}

void vhq_fence_cancel(struct vhq_fence *f)
{
    atomic_fetch_or(&f->state, FENCE_BEGUN);
    fence_signal(f);
}

/* ---- readiness ------------------------------------------------------------------------------- */

bool fence_wait_ready(struct vhq_fence *f)
{
    return vhq_fence_submitted(f) ||
           (atomic_fetch_or(&f->state, FENCE_WATCHED) & FENCE_SUBMITTED) != 0;
}

static bool state_displaceable(uint32_t state)
{
    return (state & FENCE_SUBMITTED) && state < FENCE_WAIT;
}

bool vhq_fence_over(const struct vhq_fence *f)
{
    return state_displaceable(fence_state(f));
}

bool fence_displaceable(struct vhq_fence *f)
{
    return vhq_fence_over(f) || state_displaceable(atomic_fetch_or(&f->state, FENCE_WATCHED));
}

/* ---- boost and drain ------------------------------------------------------------------------- */

/* The registry lock keeps the vHQ alive: its fences are signalled before it can be destroyed, and
 * vhq_destroy takes that lock. */
void fence_boost(struct vhq_fence *f)
{
    atomic_fetch_or(&f->state, FENCE_BOOSTED);
    registry_lock();
    struct vhq *q = atomic_load(&f->queue);
    if (q) {
        order_boost(&q->boost_below, atomic_load_explicit(&f->ticket, memory_order_relaxed) + 1);
        dispatcher_kick(q->set);
    }
    registry_unlock();
}

/* There is no list of the waits: this is rare, and a scan of what is buffered finds them. */
void fence_boost_waits(struct vhq_fence *f)
{
    atomic_fetch_or(&f->state, FENCE_BOOSTED_WAITS);
    registry_lock();
    for (struct vhq_set *s = registry; s; s = s->next) {
        set_lock(s);
        for (struct vhq *q = s->all; q; q = q->next) {
            uint64_t n = atomic_load(&q->ring.tail_seq) - peek(q->ring.head_seq);
            struct slot *slot = NULL;
            for (uint32_t offset; n > 0; n--) {
                slot = ring_next(&q->ring, slot, &offset);
                if (slot->after == f)
                    order_boost(&q->boost_below, slot->ticket + 1);
            }
        }
        set_unlock(s);
        dispatcher_kick(s);
    }
    registry_unlock();
}

void vhq_fence_drain(struct vhq_fence *f, bool boost)
{
    uint32_t state;
    if (vhq_fence_submitted(f) || passive())
        return;
    if (boost)
        fence_boost(f);
    while (!((state = atomic_fetch_or(&f->state, FENCE_SLEEPERS)) & FENCE_SUBMITTED))
        futex_wait(&f->state, state | FENCE_SLEEPERS, NEVER);
}
