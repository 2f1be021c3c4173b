/*
 * set.c - the vHQs of one context, and the registry of all sets.
 *
 * The registry exists because fences are process-global: a change of one may free commands of any
 * set. Its lock also keeps vHQs alive for threads that come from a fence.
 */
#include "vhq/internal.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include <utlist.h>

_Atomic bool vhq_forked;
#ifndef NDEBUG
_Thread_local int32_t vhq_t_locks[RANKS] __attribute__((tls_model("initial-exec")));
#endif

void queue_lock_await(struct vhq *q)
{
    while (atomic_exchange_explicit(&q->lock, WORD_AWAITED, memory_order_acquire) != WORD_FREE)
        futex_wait(&q->lock, WORD_AWAITED, NEVER);
    vhq_t_inside++;
    lock_has(RANK_QUEUE, 1);
}

pthread_mutex_t registry_mutex = PTHREAD_MUTEX_INITIALIZER;
struct vhq_set *registry;

int vhq_set_create(const struct vhq_config *cfg, const struct vhq_ops *ops, void *user,
                   struct vhq_set **out)
{
    static const _Atomic uint32_t nobody = 0;
    struct vhq_set *s = aligned_alloc(CACHE_LINE, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct vhq_set){
        .cfg = *cfg,
        .ops = *ops,
        .user = user,
        .budget_us = cfg->budget_us ? cfg->budget_us : VHQ_DEFAULT_BUDGET_US,
        .depth = cfg->depth ? cfg->depth : VHQ_DEFAULT_DEPTH,
        .pace = PACE_ONE,
        .lowest = UINT32_MAX,
        .first = INT_MAX,
    };
    if (s->cfg.queue == 0)
        s->cfg.queue = VHQ_DEFAULT_QUEUE;
    if (!s->cfg.rivals)
        s->cfg.rivals = &nobody;
    measure_begin(s);
    pthread_mutex_init(&s->lock, NULL);
    vhq_set_weigh(s, (struct vhq_weights){SCALE_ONE, SCALE_ONE, SCALE_ONE});
    if (!atomic_load(&vhq_forked)) {
        registry_lock();
        DL_APPEND(registry, s);
        registry_unlock();
    }
    *out = s;
    return 0;
}

void vhq_set_configure(struct vhq_set *set, uint32_t budget_us, uint32_t depth)
{
    set_lock(set);
    atomic_store(&set->budget_us, budget_us);
    atomic_store(&set->depth, depth);
    measure_scale(set, set->scale);
    set_unlock(set);
    if (!atomic_load(&vhq_forked))
        dispatcher_kick(set);
}

bool vhq_set_alone(const struct vhq_set *set)
{
    return cap_alone(set);
}

bool vhq_set_undisturbed(const struct vhq_set *set, uint64_t since_ns)
{
    return peek(set->others_until_ns) <= since_ns;
}

void vhq_set_park(struct vhq_set *set, bool park)
{
    set_lock(set);
    set->parked = park ? set->parked + 1 : set->parked - 1;
    set_unlock(set);
    if (!park)
        dispatcher_kick(set);
}

void vhq_set_tick(struct vhq_set *set)
{
    if (atomic_load(&vhq_forked))
        return;
    if (word_read(set->cfg.beside) != peek(set->beside)) {
        set_lock(set);
        measure_scale(set, set->scale);
        set_unlock(set);
    }
    if (unlikely(peek(set->loose) != 0) && !cap_alone(set) && dispatcher_start(set))
        dispatcher_kick(set);
}

void vhq_set_mark_last(struct vhq_set *set)
{
    if (atomic_load(&vhq_forked))
        return;
    atomic_store(&set->mark_last, 1);
    if (dispatcher_start(set))
        dispatcher_kick(set);
}

void vhq_set_destroy(struct vhq_set *s, bool drop)
{
    if (!s || atomic_load(&vhq_forked))
        return;
    set_lock(s);
    s->stage = drop ? SET_ABANDONED : SET_CLOSING;
    set_unlock(s);
    dispatcher_kick(s);
    dispatcher_join(s);

    registry_lock();
    DL_DELETE(registry, s);
    registry_unlock();
    bool called = false; /* a thread is in the driver for one of them, and will come back */
    set_lock(s);
    for (struct vhq *q = s->all; q; q = q->next) {
        q->dead = true;
        turn_revoke(q);
        called |= atomic_load_explicit(&q->turns, memory_order_acquire) != 0;
    }
    set_unlock(s);
    if (unlikely(called))
        return; /* that thread needs this memory */
    struct vhq *q, *next;
    DL_FOREACH_SAFE(s->all, q, next)
    queue_free(q);
    pthread_mutex_destroy(&s->lock);
    free(s->head);
    free(s);
}

void vhq_after_fork(void)
{
    atomic_store(&vhq_forked, true);
}
