/*
 * stats.c - figures of vHQs and sets. Counters are written where things happen, without locks. So a
 * reading is as exact as it can be while other threads go on counting.
 */
#include "vhq/internal.h"

void stats_add(struct vhq_stats *sum, struct vhq *q)
{
    uint64_t published = atomic_load_explicit(&q->ring.tail_seq, memory_order_acquire);
    uint64_t retired = atomic_load_explicit(&q->ring.head_seq, memory_order_acquire);
    uint64_t left = q->reset_seq > retired ? q->reset_seq - q->begun : retired; /* not dropped */
    sum->inlined += peek(q->inlined);
    sum->buffered += published;
    sum->submitted += peek(q->sent);
    sum->completed += peek(q->completed);
    sum->dropped += peek(q->dropped);
    sum->markers += peek(q->markers);
    sum->gates += peek(q->gates);
    sum->holds += peek(q->holds);
    sum->buffered_now += (uint32_t)(published > left ? published - left : 0);
    sum->in_flight_now += peek(q->counted) - peek(q->complete);
}

static bool stats_none(struct vhq_stats *out)
{
    *out = (struct vhq_stats){0};
    return atomic_load(&vhq_forked);
}

void vhq_get_stats(struct vhq *q, struct vhq_stats *out)
{
    if (stats_none(out))
        return;
    set_lock(q->set);
    cap_poll_words(q->set, clock_ns());
    stats_add(out, q);
    set_unlock(q->set);
}

void vhq_set_stats(struct vhq_set *set, struct vhq_stats *out)
{
    if (stats_none(out))
        return;
    set_lock(set);
    uint64_t now = clock_ns();
    cap_poll_words(set, now);
    *out = set->past;
    out->at_ns = now;
    out->total_held_ns = set->total_held_ns + (set->held ? now - set->any_held_since_ns : 0);
    uint64_t est_ns = peek(set->done_est_ns);
    out->padded = peek(set->padded);
    out->peer_releases = peek(set->peer_releases);
    out->in_flight_ns = peek(set->area_ns);
    for (struct vhq *q = set->all; q; q = q->next) {
        if (q->dead)
            continue;
        stats_add(out, q);
        est_ns += peek(q->loose_ns);
    }
    used_sum(set, est_ns, out);
    uint64_t budget = peek(set->budget_us) * NS_PER_US;
    out->long_ns = set->long_ns > budget + budget / 2 ? set->long_ns : 0;
    set_unlock(set);
}

void vhq_set_device_work(struct vhq_set *set, const void *stream, const struct vhq *own,
                         struct vhq_device_work *out)
{
    enum { FEW = 8 }; /* beside more there are others in any case: none is looked at */
    *out = (struct vhq_device_work){.own = false};
    set_lock(set);
    cap_adopt(set);
    if (peek(set->in_flight_count) > FEW)
        out->others = peek(set->in_flight_count);
    else
        for (const struct vhq *q = set->in_flight; q; q = q->in_flight_next) {
            uint64_t ns = cap_stream_ns(q) + peek(q->loose_ns);
            if (own ? q == own : q->desc.stream == stream) {
                out->own = true;
                continue;
            }
            out->others++;
            out->others_ns = ns > out->others_ns ? ns : out->others_ns;
        }
    out->shift_end_ns =
        cap_client_above(set) && shift_any(set) ? shift_own_end_ns(set, clock_ns()) : 0;
    set_unlock(set);
}

uint64_t vhq_set_padded(const struct vhq_set *set)
{
    return peek(set->padded);
}
