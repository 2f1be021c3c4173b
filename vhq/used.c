/*
 * used.c - how long the device has worked for this set, as a figure.
 *
 * While something is in flight the device works for the set, or for another process that has its
 * turn: so for no longer than that time. What completed, and what is in flight, took no longer than
 * the estimates say, and no shorter, as far as they can be believed (vhq_set_weigh). The lesser of
 * the two counts, while the work goes on and not when a long queue is complete. There are two sums:
 * what estimates and the measure of the cap allow at most, and what is sure.
 */
#include "vhq/internal.h"

enum { OWED_MOST_NS = 20 * 1000 * 1000 }; /* of estimated time that the clock has not had yet */

void vhq_set_weigh(struct vhq_set *set, struct vhq_weights w)
{
    set_lock(set);
    set->used.weights = w;
    measure_relax(set);
    set_unlock(set);
}

void used_look(struct vhq_set *s, bool busy, bool completed, uint64_t now)
{
    if ((busy || completed || s->used.busy) && s->polled_at_ns != 0 && now > s->polled_at_ns)
        s->used.busy_ns +=
            s->used.of ? (now - s->polled_at_ns) / s->used.of : now - s->polled_at_ns;
    if (s->share_of || !busy) /* what it left runs out between others' turns, too */
        s->used.of = s->share_of;
    s->used.busy = busy;
}

/* `ran`: by the clock. By the estimates: `done` since the last time, `ahead` is in flight. */
static void account_add(struct account *a, int64_t ran, int64_t done, int64_t ahead, bool busy)
{
    int64_t most = busy ? OWED_MOST_NS : 0, room = a->owed_ns + done + ahead;
    ran = ran < room ? ran : room > 0 ? room : 0;
    a->ns += (uint64_t)ran;
    a->owed_ns += done - ran;
    a->owed_ns = a->owed_ns < -ahead ? -ahead : a->owed_ns > most ? most : a->owed_ns;
}

void used_sum(struct vhq_set *s, uint64_t est_ns, struct vhq_stats *out)
{
    struct used *u = &s->used;
    int64_t done = (int64_t)(est_ns - u->est_ns), ahead = (int64_t)peek(s->area_ns);
    int64_t least = u->weights.least, most = u->weights.most, ran = (int64_t)u->busy_ns;
    if (s->scale > most) /* estimates are too low, or others ran */
        most = s->scale;
    account_add(&u->high, ran, done * most / SCALE_ONE, ahead * most / SCALE_ONE, u->busy);
    account_add(&u->sure, ran, done * least / SCALE_ONE, ahead * least / SCALE_ONE, u->busy);
    u->est_ns = est_ns;
    u->busy_ns = 0;
    out->gpu_ns = u->high.ns;
    out->sure_ns = u->sure.ns;
}
