/*
 * heads.c - the vHQs that have something buffered, as a heap by the tickets of their heads.
 *
 * The heap has the ticket that a vHQ's head had at the last look. The head now has that ticket or a
 * later one, so only the first of the heap has to be looked at to know which head is the earliest
 * of all. The set's lock is held in all of these functions.
 */
#include "vhq/internal.h"

static void sink(struct vhq_set *s, size_t i)
{
    struct head *heap = s->head, moved = heap[i], *to = heap + i;
    size_t heads = s->heads;
    for (size_t below; (below = 2 * i + 1) < heads; i = below) {
        struct head *least = heap + below;
        if (below + 1 < heads && least[1].ticket < least->ticket)
            least++;
        if (least->ticket >= moved.ticket)
            break;
        *to = *least;
        to = least;
        below = (size_t)(least - heap);
    }
    *to = moved;
}

static void rise(struct vhq_set *s, uint32_t i)
{
    struct head moved = s->head[i];
    for (uint32_t above; i != 0 && s->head[above = (i - 1) / 2].ticket > moved.ticket; i = above)
        s->head[i] = s->head[above];
    s->head[i] = moved;
}

void heads_adopt(struct vhq_set *s)
{
    if (!atomic_load_explicit(&s->fresh_ready, memory_order_relaxed))
        return;
    struct vhq *q = atomic_exchange_explicit(&s->fresh_ready, NULL, memory_order_acquire);
    for (; q; q = q->ready_next) {
        const struct slot *slot = ring_head(&q->ring);
        heads_note(s, slot);
        s->head[s->heads] = (struct head){slot ? slot->ticket : 0, q};
        rise(s, s->heads++);
    }
}

void heads_is(struct vhq_set *s, uint32_t place, uint64_t ticket)
{
    s->head[place].ticket = ticket;
    sink(s, place);
}

void heads_leaves(struct vhq_set *s, uint32_t place)
{
    s->head[place] = s->head[--s->heads];
    rise(s, place);
    sink(s, place);
}

void heads_order(struct vhq_set *s)
{
    for (uint32_t i = s->heads / 2; i-- > 0;)
        sink(s, i);
}

void heads_forget(struct vhq *q)
{
    struct vhq_set *s = q->set;
    heads_adopt(s);
    for (uint32_t i = 0; i < s->heads; i++)
        if (s->head[i].q == q) {
            heads_leaves(s, i);
            return;
        }
}
