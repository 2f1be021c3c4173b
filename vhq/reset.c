/*
 * reset.c - stopping a vHQ: hold, release, reset.
 *
 * A reset only draws a line. The dispatcher drops everything in front of the line, and so gives the
 * memory and the fences back off the caller's path.
 */
#include "vhq/internal.h"

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
