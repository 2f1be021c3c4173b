/*
 * leave.c - what a stream that ends has in flight.
 *
 * The driver runs it to its end. So the cap counts it until then, by a last marker behind it, and
 * the vHQ stays for as long, though nothing is submitted through it any more. Some streams take no
 * marker, such as that of a thread that ends. What has none there counts for as long as the device
 * needs for all that is in flight, by the estimates.
 */
#include "vhq/internal.h"

#include "common/mutant.h"

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
    vhq_drain(q, true);
    queue_lock(q);
    queue_revoke_turn(q);
    while ((seen = atomic_load_explicit(&q->running, memory_order_acquire)) != RUN_NONE)
        futex_wait(&q->running, seen, NEVER);
    q->marks = marks;
    /* The submission right is held, and no thread can get it any more. */
    struct vhq_set *s = q->set;
    bool ask = q->marks && s->ops.complete && leave_unmarked(q);
    lock_none_inside();
    bool complete = ask && s->ops.complete(s->user, q, q->desc.stream);
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
    set_lock(q->set);
    bool left = q->left = vhq_in_flight(q);
    set_unlock(q->set);
    queue_unlock(q);
    while ((seen = atomic_load(&q->calls)) != 0)
        futex_wait(&q->calls, seen, NEVER);
    return left;
}
