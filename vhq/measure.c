/*
 * measure.c - how long what is in flight really takes.
 *
 * Estimates may be wrong: a kernel's time depends on its arguments, or it was timed while others
 * had the device, or it never ran. A client above is promised a time, and the cap counts estimates.
 * So each marker remembers what the device had, by the estimates, when it was placed. When it is
 * complete, the time that this took is known between two bounds: it was not complete at the look
 * before, and it is now. From that follows the *scale* by which estimates count in the cap.
 *
 * What certainly took longer than the scale says raises it at once to what was seen, 16 times at
 * most. What was certainly faster lowers it by a quarter of the distance. So among kernels that are
 * long in turns the long ones decide, and one that is long for once costs the room of some dozen
 * markers. If the next long one comes within 64 markers, as where one in eight is long, the scale
 * falls by a 64th: else each of them would find as many in flight as if it were short. A time is
 * compared with what was in flight, whatever room the scale leaves, so there is no loop that could
 * swing. A late look widens the bounds and changes nothing.
 *
 * With a client above a scale below one is not used: it would let in most where least is known.
 * Time in which a client held is no lesson, nor are units with host functions or waits for events.
 * While a least share is paid, though a client holds, so many processes take turns on the device,
 * and a unit took one part of its time: else a process with one kernel in a time slice would never
 * learn that it may have more.
 *
 * Beside a process whose commands outlast any shift nothing is measured: each unit takes as long as
 * the other's time slice, and a process that learned from that would have one command in flight,
 * run it in its own slice, and leave the rest of that slice to the other. Estimates count as they
 * are.
 */
#include "vhq/internal.h"

/* After TRIALS steps of a quarter the scale has come down from the most to the truth. */
enum {
    SCALE_LEAST = SCALE_ONE / 16,
    RELEASE = 4,
    RELEASE_SLOWLY = 64,
    RECALL = 64, /* units within which a long one makes the next one no surprise */
    TRIALS = 16,
};

void measure_scale(struct vhq_set *s, uint32_t scale)
{
    uint64_t budget = peek(s->budget_us) * NS_PER_US;
    s->scale = scale < SCALE_LEAST ? SCALE_LEAST : scale > SCALE_MOST ? SCALE_MOST : scale;
    if (s->scale > SCALE_ONE)
        budget = budget * SCALE_ONE / s->scale;
    atomic_store_explicit(&s->budget_ns, budget, memory_order_relaxed);
    atomic_store_explicit(&s->beside, word_read(s->cfg.beside), memory_order_relaxed);
    uint32_t most = (uint32_t)(loose_bound_ns(s) * SCALE_ONE / s->scale);
    if (MUTANT(loose_unbounded))
        most = UINT32_MAX;
    atomic_store_explicit(&s->loose_most_ns, most, memory_order_relaxed);
    atomic_store_explicit(&s->loose_unit_ns, most / LOOSE_PART, memory_order_relaxed);
    measure_relax(s);
}

/* Without a client above the mean time of commands counts, and so does a scale below one. Otherwise
 * commands that vary would go one at a time, by estimates that few exceed. */
void measure_relax(struct vhq_set *s)
{
    uint32_t mean = s->used.weights.mean ? s->used.weights.mean : 1;
    uint32_t relax = (RIVALS_FACTOR * SCALE_ONE + mean / 2) / mean;
    if (s->scale < SCALE_ONE)
        relax = relax * SCALE_ONE / (s->scale + 1);
    atomic_store_explicit(&s->relax, (uint32_t)between(1, relax, RIVALS_MOST),
                          memory_order_relaxed);
}

void measure_above(struct vhq_set *s)
{
    static const _Atomic uint32_t somebody = 1, nobody = 0;
    bool tried = s->cfg.above && (s->trials == 0 || MUTANT(alone_untried));
    atomic_store_explicit(&s->above,
                          s->share_of != 0 ? &nobody
                          : tried          ? s->cfg.above
                                           : &somebody,
                          memory_order_relaxed);
}

/* q is held by its own word, or with all others of the set. Set's lock held. */
void measure_choose_hold(struct vhq *q)
{
    static const _Atomic uint32_t held = 1;
    const struct vhq_set *s = q->set;
    const _Atomic uint32_t *word = !q->desc.hold ? NULL
                                   : s->hold_all ? &held
                                   : s->share_of ? &s->share_word
                                                 : q->desc.hold;
    atomic_store_explicit(&q->hold, word, memory_order_relaxed);
}

static void hold_all(struct vhq_set *s)
{
    for (struct vhq *q = s->all; q; q = q->next)
        measure_choose_hold(q);
}

void vhq_set_hold_all(struct vhq_set *set, bool hold)
{
    set_lock(set);
    set->hold_all = hold;
    hold_all(set);
    set_unlock(set);
}

void vhq_set_pay_share(struct vhq_set *set, uint32_t of)
{
    set_lock(set);
    uint32_t word = 0;
    cap_poll_words(set, clock_ns()); /* counts until now */
    for (const struct vhq *q = set->all; q; q = q->next)
        word |= word_read(q->desc.hold);
    atomic_store_explicit(&set->share_word, word & set->cfg.unbounded, memory_order_relaxed);
    if (of || set->share_of)
        atomic_store_explicit(&set->others_until_ns, of ? NEVER : clock_ns() + OTHERS_TURN_NS,
                              memory_order_relaxed);
    set->share_of = of;
    hold_all(set);
    set->had_share = true;
    measure_above(set);
    set_unlock(set);
    if (!atomic_load(&vhq_forked))
        dispatcher_kick(set);
}

void measure_begin(struct vhq_set *s)
{
    s->trials = s->cfg.expects ? TRIALS : 0;
    s->since_long = RECALL;
    measure_scale(s, s->cfg.untried ? SCALE_MOST : SCALE_ONE);
    measure_above(s);
}

static uint32_t measure_ratio(uint64_t ns, uint32_t ahead)
{
    uint64_t ratio = ns * SCALE_ONE / (ahead * AHEAD_NS);
    return ratio < SCALE_MOST ? (uint32_t)ratio : SCALE_MOST;
}

void measure_unit(struct vhq *q, uint32_t value, uint64_t now)
{
    struct vhq_set *s = q->set;
    if (unlikely(shift_sliced(s))) { /* a unit took the slices of others, too */
        if (s->scale > SCALE_ONE)
            measure_scale(s, SCALE_ONE);
        return;
    }
    uint32_t ahead = q->ahead[value % UNITS];
    uint64_t since = q->unit[value % UNITS].since_ns;
    /* Work that came later may go before a stream of lower priority. */
    if (MUTANT(feedback_ignored) || ahead == 0 || q->desc.priority != s->first ||
        (!s->share_of && gaps_held_since(s, since)) || shift_shared(s, since))
        return;
    uint64_t took = sub_floor(now, since);
    uint32_t least = measure_ratio(sub_floor(s->polled_at_ns, since), ahead),
             most = measure_ratio(s->share_of ? took / s->share_of : took, ahead);
    /* Do units that take much longer than estimated come again? Commands that count as long already
     * go one at a time, whatever the scale. */
    bool longer = unlikely(least > SCALE_ONE + SCALE_ONE / 4) && least > s->scale / 2 &&
                  q->unit[value % UNITS].est_ns <= 2 * peek(s->budget_us) * NS_PER_US;
    if (unlikely(longer)) {
        s->recurs = s->since_long < RECALL;
        s->since_long = 0;
    } else if (s->since_long < RECALL && ++s->since_long == RECALL) {
        s->recurs = false;
    }
    if (least > s->scale + s->scale / 4 && !s->share_of)
        measure_scale(s, least);
    else if (most < s->scale) {
        uint32_t part =
            s->recurs && !s->share_of && !MUTANT(long_forgotten) ? RELEASE_SLOWLY : RELEASE;
        measure_scale(s, s->scale - (s->scale - most + part - 1) / part);
    }
}
