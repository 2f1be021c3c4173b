/*
 * shift.c - processes that share the device take shifts.
 *
 * Each process has its budget, and at least one command in flight; several have several of these.
 * So processes that always have work for the device go one after another. Time is cut into shifts,
 * the same for all since they read one clock, and the process whose shift it is may fill its
 * budget. No messages are sent. A word in the page, which the daemon keeps, tells a process its own
 * place and their number.
 *
 * Every round has one shift for each, in an order that is drawn anew: else requests at a steady
 * pace would always meet the same process. At the begin of a shift what the one before left in
 * flight runs out, which covers the time in which a thread wakes up. With gates more than the
 * budget may be in flight: what runs out by the end of the shift. A command of more than a budget
 * and a half does not begin in a shift that it would outlast. Where there are such commands, shifts
 * are so long that little is lost (scheduler/peers/shifts.c).
 */
#include "vhq/internal.h"

enum { FEWEST = 32 /* commands of a shift: longer ones would lose too much at its end */ };

bool shift_sliced(const struct vhq_set *s)
{
    return word_read(s->cfg.shift) >= VHQ_SHIFT_SLICED && !MUTANT(slices_measured);
}

uint64_t shift_from(uint32_t place, uint32_t of, uint64_t length, uint64_t now)
{
    for (uint64_t round = now / length / of;; round++) {
        /* All processes draw the same order: it depends on the number of the round alone. */
        uint64_t turned = (round * UINT64_C(0x9e3779b97f4a7c15) >> 32) % of,
                 at = (place + turned) % of, from = (round * of + at) * length;
        if (from + length > now)
            return from;
    }
}

uint64_t shift_update(struct vhq_set *s, uint64_t now)
{
    uint32_t word = word_read(s->cfg.shift), place = word % VHQ_SHIFT_OF,
             of = word / VHQ_SHIFT_OF % VHQ_SHIFT_OF,
             doubled = word / VHQ_SHIFT_DOUBLED % (VHQ_SHIFT_PROGRESS / VHQ_SHIFT_DOUBLED);
    uint64_t length = (uint64_t)SHIFT_BASE_NS << doubled;
    s->shift_begin_ns = of > 1 && place < of ? shift_from(place, of, length, now) : 0;
    s->shift_end_ns = s->shift_begin_ns + length;
    return s->shift_begin_ns;
}

bool shift_shared(const struct vhq_set *s, uint64_t at)
{
    return s->shift_begin_ns != 0 && at < s->shift_begin_ns + 2 * peek(s->budget_us) * NS_PER_US;
}

/* By the estimates without the scale: where some commands turned out longer, others are short, and
 * all would wait for as long as the longest takes. */
bool shift_outlasts(const struct vhq_set *s, uint64_t ns, uint64_t ahead_ns, uint64_t now)
{
    uint64_t most = (s->shift_end_ns - s->shift_begin_ns) / FEWEST,
             left = sub_floor(s->shift_end_ns, now);
    return s->shift_begin_ns != 0 && cap_long(s, ns) && ns <= most && ahead_ns + ns > left;
}

uint64_t shift_most_ns(struct vhq_set *s, uint64_t most, uint64_t now)
{
    /* In estimated time: measure_ran divides by the scale. */
    uint64_t from = shift_update(s, now), least = peek(s->budget_ns),
             left = measure_ran(s, sub_floor(s->shift_end_ns, now));
    return from == 0 || !cap_client_above(s) || left >= most ? most : left > least ? left : least;
}
