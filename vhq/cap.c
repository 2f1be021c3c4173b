/*
 * cap.c - how much may be in flight, and what is known to be complete.
 *
 * In flight is what was submitted and is not known complete. A vHQ may have `depth` commands and
 * `budget` of estimated time in flight, since they run one after another. All vHQs of a set
 * together may have so much that the device needs `budget` for it at best: the sum of the
 * estimates, each times the part of the device that its command takes (its area), because streams
 * run side by side where they fit. So kernels that fill the device share one budget. Completion
 * comes in units: the commands between two markers. The GPU writes a marker's number into the vHQ's
 * completion word when everything before it is done; no thread asks the driver.
 *
 * While the process is alone no command is counted by itself. Its commands are *loose* until there
 * are so many that a marker pays, or until a client above comes. Then the thread with the
 * submission right of a vHQ folds them into the tail. When a client comes, nothing gets room until
 * all of them are folded.
 *
 * Time counts, too. The oldest unit has been running since it was submitted, or since the one
 * before completed, and so much less remains. This credit ends with the unit's estimate: estimates
 * that are too low, or a device that others share, never let more in than the next unit. So with
 * kernels as long as the budget the next one goes when half of it remains of the running one: no
 * bubble between them, and at most two budgets in flight. A longer one goes when no more remains
 * than the dispatcher's thread wakes late: a client that cuts in meets one of them, not two.
 *
 * Why this is one long file: it is one account. The submitter adds to it without a lock, completion
 * takes from it, and the sums hold only if each side writes in the order in which the other reads.
 * Room, submission and completion also share small functions, which every launch calls and which
 * calls between files would slow.
 */
#include "vhq/internal.h"

enum {
    LOOSE_COMMANDS_MOST = 1 << 20, /* in a unit, waits and records among them */
    PACE_LEAST = PACE_ONE / 64,
    PACE_BACK = 64,            /* completions until a short one no longer decides when to look */
    LONG_BACK = 64,            /* completions until a long one no longer decides on shifts */
    CHAIN = 8,                 /* commands after one that overlaps: more are expected */
    TAIL_MOST_NS = 1000000000, /* so that its sum fits 32 bits */
    REST_NS = 100000000,       /* without a client above, after which it counts as resting */
};

bool cap_client_above(const struct vhq_set *s)
{
    return peek(*peek(s->above)) != 0;
}

/* Is the cap all that bounds the wait of a client above? */
static inline bool cap_strict(const struct vhq *q)
{
    return cap_client_above(q->set) && !gate_can_stop(q);
}

/* A client above waits for what lies between two gates. Where commands turn out longer than their
 * estimates, that becomes less (gate.c): how much is in flight need not. */
static uint64_t cap_gated_ns(const struct vhq_set *s)
{
    return peek(s->budget_us) * NS_PER_US * RELAX_FACTOR;
}

/* Strict: the budget, and more while no client is due (gaps.c). Else: the relaxed cap, but no more
 * than runs out by the end of the shift. */
uint64_t cap_budget_ns(struct vhq_set *s, bool strict, uint64_t now)
{
    uint64_t budget = peek(s->budget_ns);
    if (strict)
        return budget + gaps_ahead_ns(s, now);
    return shift_most_ns(s, gate_used(s) ? cap_gated_ns(s) : budget * peek(s->relax), now);
}

struct limit {
    uint64_t ns;
    uint32_t commands;
};

static __attribute__((noinline)) struct limit limit_relaxed(const struct vhq *q, struct limit l)
{
    l.ns = gate_can_stop(q) ? cap_gated_ns(q->set) : l.ns * peek(q->set->relax);
    l.commands = l.commands < RELAX_DEPTH ? RELAX_DEPTH : l.commands;
    return l;
}

/* `all`: for all streams together. */
static inline struct limit cap_limit(const struct vhq *q, bool all)
{
    struct limit l = {peek(q->set->budget_ns), peek(q->set->depth)};
    return likely(cap_strict(q)) || (all && gate_others_over(q)) ? l : limit_relaxed(q, l);
}

/* ---- room ------------------------------------------------------------------------------------ */

static inline bool cap_depth_full(const struct vhq *q, const struct limit *l)
{
    /* A gate that is due must find room for its marker. */
    return peek(q->counted) - peek(q->complete) >= l->commands ||
           (unlikely(peek(q->gate_state) != GATE_NEAR) && gate_can_stop(q) && cap_markers_full(q));
}

uint64_t cap_stream_ns(const struct vhq *q)
{
    return sub_floor(peek(q->counted_ns), peek(q->complete_est_ns));
}

const struct unit *cap_oldest(const struct vhq *q)
{
    uint32_t complete = peek(q->complete_mark);
    bool none = atomic_load_explicit(&q->newest, memory_order_acquire) == complete;
    return none ? NULL : &q->unit[(complete + 1) % UNITS];
}

/* Without a unit it is run_since_ns: the next unit may be about to be written down. */
uint64_t cap_stream_since(const struct vhq *q)
{
    const struct unit *u = cap_oldest(q);
    return u && u->since_ns > q->run_since_ns ? u->since_ns : q->run_since_ns;
}

uint64_t cap_stream_rest_ns(const struct vhq *q, uint64_t now)
{
    const struct unit *u = cap_oldest(q);
    /* So much has certainly run by now. */
    uint64_t ran = u ? measure_ran(q->set, sub_floor(now, cap_stream_since(q))) : 0;
    return sub_floor(cap_stream_ns(q), u && ran > u->est_ns ? u->est_ns : ran);
}

/* Where long commands recur among short ones, mostly a short one runs, and a client above waits for
 * its rest in any case. So what stands behind it has to fit, as if that were long. */
static bool cap_behind_fits(const struct vhq_set *s, uint64_t sum, uint64_t oldest, uint64_t ns,
                            uint64_t budget)
{
    return unlikely(s->recurs) && s->scale > 2 * SCALE_ONE && oldest != 0 &&
           sub_floor(sum, oldest) + ns <= budget;
}

uint32_t cap_wide(const struct vhq *q)
{
    uint32_t newest = atomic_load_explicit(&q->newest, memory_order_acquire),
             wide = peek(q->tail_wide);
    for (uint32_t v = peek(q->complete_mark) + 1; v != newest + 1; v++)
        wide = q->wide[v % UNITS] > wide ? q->wide[v % UNITS] : wide;
    return peek(q->loose_ns) ? VHQ_PARTS : wide;
}

static inline bool cap_over(const struct vhq *q, uint32_t load, const struct limit *l)
{
    uint64_t ns = cap_stream_ns(q);
    return unlikely(cap_depth_full(q, l) || (ns != 0 && ns + load_ns(load) > l->ns));
}

bool cap_stream_full(const struct vhq *q, uint32_t load, uint64_t now)
{
    struct limit l = cap_limit(q, false);
    if (now == 0 || cap_depth_full(q, &l))
        return cap_over(q, load, &l);
    uint64_t budget = cap_budget_ns(q->set, cap_strict(q), now);
    uint64_t remaining = cap_stream_rest_ns(q, now);
    const struct unit *oldest = cap_oldest(q);
    return remaining + load_ns(load) > budget &&
           remaining > cap_lead_ns(q->set, load_ns(load), budget) &&
           !cap_behind_fits(q->set, cap_stream_ns(q), oldest ? oldest->est_ns : 0, load_ns(load),
                            budget);
}

bool cap_long(const struct vhq_set *s, uint64_t ns)
{
    uint64_t budget = peek(s->budget_ns);
    return ns > budget + budget / 2;
}

uint64_t cap_lead_ns(const struct vhq_set *s, uint64_t ns, uint64_t budget)
{
    uint64_t late = measure_ran(s, peek(s->late_ns));
    return likely(ns <= budget + budget / 2 || late > budget / 2) ? budget / 2 : late;
}

bool cap_loose_stream_room(const struct vhq *q, uint64_t now)
{
    uint64_t left = (now ? cap_stream_rest_ns(q, now) : cap_stream_ns(q)) + peek(q->loose_ns);
    return cap_loose_room(q->set) || (left < peek(q->set->loose_unit_ns) && !MUTANT(loose_in_line));
}

/* Acquire: what was folded is in area_ns by then. Partner: loose_end. */
static bool cap_loose_left(const struct vhq_set *s)
{
    return atomic_load_explicit(&s->loose, memory_order_acquire) != 0;
}

bool cap_take(struct vhq *q, uint32_t load)
{
    struct vhq_set *s = q->set;
    struct limit l = cap_limit(q, true);
    if (unlikely(cap_loose_left(s) || cap_over(q, load, &l) || shift_any(s)))
        return false;
    uint64_t sum = peek(s->area_ns);
    uint32_t area_ns = load_area_ns(load);
    do {
        if (sum != 0 && sum + area_ns > l.ns)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&s->area_ns, &sum, sum + area_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

uint64_t cap_oldest_since(const struct vhq_set *s)
{
    return s->oldest_ns > s->progress_at_ns ? s->oldest_ns : s->progress_at_ns;
}

/* Does it fit beside all that other streams have in flight, which ends when the longest of them
 * does? While a client above comes and goes, half of the device is left to that client. */
static bool cap_side_by_side(const struct vhq *q, uint32_t parts, uint64_t now)
{
    bool rests = !gaps_held_since(q->set, sub_floor(now, REST_NS));
    return pad_parts(q, parts) <= (rests ? VHQ_PARTS : VHQ_PARTS / 2) && !MUTANT(narrow_in_line);
}

bool cap_take_credited(struct vhq *q, uint32_t load, uint64_t now)
{
    struct vhq_set *s = q->set;
    cap_adopt(s);
    if (cap_loose_left(s) || cap_stream_full(q, load, now) ||
        (cap_client_above(s) && shift_update(s, now) > now))
        return false;
    /* Long commands in front of gates do not add up if they fit side by side. */
    bool strict =
        cap_strict(q) || (gate_others_over(q) && pad_parts(q, load_parts(load)) > VHQ_PARTS);
    uint64_t budget = cap_budget_ns(s, strict, now), sum = peek(s->area_ns);
    uint32_t area_ns = load_area_ns(load);
    uint64_t lead = cap_lead_ns(s, area_ns, budget);
    /* How much of what is in flight has certainly run by now. */
    uint64_t ran = measure_ran(s, sub_floor(now, cap_oldest_since(s))), area = s->oldest_area_ns,
             credit = ran >= s->oldest_est_ns ? area : ran * area / s->oldest_est_ns;
    if (cap_client_above(s) && shift_outlasts(s, load_ns(load), sub_floor(sum, credit), now))
        return false;
    do {
        uint64_t remaining = sub_floor(sum, credit);
        if (sum != 0 && remaining + area_ns > budget && remaining > lead &&
            !cap_side_by_side(q, load_parts(load), now) &&
            !cap_behind_fits(s, sum, s->oldest_area_ns, area_ns, budget))
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&s->area_ns, &sum, sum + area_ns,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void cap_force(struct vhq *q, uint32_t load)
{
    atomic_fetch_add_explicit(&q->set->area_ns, load_area_ns(load), memory_order_relaxed);
}

void cap_give_back(struct vhq *q, uint16_t flags, uint32_t load)
{
    if (!(flags & (VHQ_UNCOUNTED | SLOT_LOOSE)))
        atomic_fetch_sub_explicit(&q->set->area_ns, load_area_ns(load), memory_order_relaxed);
}

/* ---- submission: the caller has the submission right ----------------------------------------- */

static __attribute__((noinline)) void in_flight_add(struct vhq *q)
{
    struct vhq_set *s = q->set;
    atomic_store_explicit(&q->in_flight, 1, memory_order_relaxed);
    if (!MUTANT(fresh_uncounted))
        atomic_fetch_add_explicit(&s->in_flight_count, 1, memory_order_relaxed);
    q->in_flight_next = atomic_load_explicit(&s->fresh_in_flight, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&s->fresh_in_flight, &q->in_flight_next, q,
                                                  memory_order_release, memory_order_relaxed))
        ;
}

/* Something is in flight, so completion words are worth a look. The flag is cleared only while no
 * thread has the submission right, so it cannot be lost here. */
static inline void cap_in_flight_begin(struct vhq *q)
{
    if (unlikely(!peek(q->in_flight)))
        in_flight_add(q);
}

/* Has the tail a quarter of the budget, or half of the depth, and `more` quarters more? */
static inline bool cap_tail_has(const struct vhq *q, uint32_t more)
{
    struct limit l = cap_limit(q, false);
    uint64_t most_ns = cap_apart_ns(q->set, l.ns / 4, l.ns) + l.ns / 4 * more;
    return q->tail_counted * 4 >= l.commands * (2 + more) ||
           peek(q->tail_est_ns) >= (most_ns < TAIL_MOST_NS ? most_ns : TAIL_MOST_NS);
}

void cap_loose_begin(struct vhq *q)
{
    atomic_fetch_add_explicit(&q->set->loose, 1, memory_order_relaxed);
    cap_in_flight_begin(q);
}

void cap_sent_counted(struct vhq *q, uint16_t flags, uint32_t load, int err)
{
    uint32_t est_ns = load_ns(load);
    if (unlikely(err != 0)) {
        cap_give_back(q, flags, load);
        return;
    }
    cap_count_sent(q, est_ns);
    if (!(flags & VHQ_UNCOUNTED)) {
        bump(q->counted, 1u);
        bump(q->counted_ns, est_ns);
        bump(q->tail_est_ns, est_ns);
        q->tail_area_ns += load_area_ns(load);
        if (load_parts(load) > peek(q->tail_wide))
            atomic_store_explicit(&q->tail_wide, (uint8_t)load_parts(load), memory_order_relaxed);
        q->tail_counted++;
        if (unlikely(flags & (VHQ_OVERLAPS | VHQ_WAITS))) {
            q->tail_waits |= (flags & VHQ_WAITS) != 0;
            q->chain = flags & VHQ_OVERLAPS ? CHAIN : q->chain;
        } else if (unlikely(q->chain != 0))
            q->chain--;
        if (unlikely(gate_used(q->set)))
            gate_count(q, flags, est_ns);
        cap_in_flight_begin(q);
    } else {
        q->tail_waits |= !(flags & SLOT_RECORD);
        if (likely(!peek(q->want_mark)))
            return; /* only a sync waits for an uncounted command */
    }
    /* A marker each quarter of the budget: without one at the begin of a hold, work counts as in
     * flight at the end, though it has run. Or each half of the depth: the other half goes on while
     * the marker is on its way. Where commands are few neither is reached, and nothing waits for
     * them. */
    if (likely(!(cap_tail_has(q, 0) || peek(q->want_mark) ||
                 (MUTANT(marker_too_many) && peek(q->sent) % 100 == 0))))
        return;
    /* A command that overlaps may begin before its predecessor has ended, which a marker between
     * the two would prevent. Whether the next command overlaps is not known until it comes. So in a
     * chain of such commands a marker that is due goes in front of the first one that does not
     * overlap, as gates do. It goes at the latest with half of the budget, or three quarters of the
     * depth, in front of it. */
    q->mark_waits = unlikely(q->chain != 0) && !peek(q->want_mark) && !cap_tail_has(q, 1);
    if (likely(!q->mark_waits))
        cap_mark(q);
}

static void loose_end(struct vhq *q)
{
    atomic_store_explicit(&q->loose_ns, 0, memory_order_relaxed);
    atomic_fetch_sub_explicit(&q->set->loose, 1, memory_order_release);
}

/* All of them count as in flight until the marker that is placed now is complete, though the first
 * may long be. */
static void loose_fold(struct vhq *q)
{
    uint64_t commands = peek(q->sent) - peek(q->mark_cover) - q->tail_counted;
    uint64_t sum = peek(q->loose_ns);
    uint32_t n = commands < LOOSE_COMMANDS_MOST ? (uint32_t)commands : LOOSE_COMMANDS_MOST;
    uint32_t ns = sum < MAX_EST_NS ? (uint32_t)sum : MAX_EST_NS;
    if (sum == 0)
        return;
    /* First it counts as in flight, then no longer as loose: at no moment as neither. */
    atomic_fetch_add_explicit(&q->set->area_ns, ns, memory_order_relaxed);
    atomic_fetch_add_explicit(&q->set->done_est_ns, sum - ns, memory_order_relaxed);
    bump(q->counted, n);
    bump(q->counted_ns, ns);
    bump(q->tail_est_ns, ns);
    q->tail_area_ns += ns;
    q->tail_counted += n;
    atomic_store_explicit(&q->tail_wide, VHQ_PARTS, memory_order_relaxed);
    if (unlikely(gate_used(q->set)))
        gate_count(q, VHQ_GATED, ns); /* not ungated_ns: it had no gates */
    loose_end(q);
}

static void cap_tail_done(struct vhq *q)
{
    q->tail_counted = 0;
    atomic_store_explicit(&q->tail_wide, 0, memory_order_relaxed);
    q->tail_area_ns = 0;
    q->mark_waits = q->tail_waits = false;
    atomic_store_explicit(&q->asks, false, memory_order_relaxed);
    atomic_store_explicit(&q->tail_est_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&q->want_mark, 0, memory_order_relaxed);
    /* Release: the marker's number was written before. */
    atomic_store_explicit(&q->mark_cover, peek(q->sent), memory_order_release);
}

/* Acquire: the thread that looked is done with the unit that is written next. */
bool cap_markers_full(const struct vhq *q)
{
    uint32_t complete = atomic_load_explicit(&q->complete_mark, memory_order_acquire);
    return peek(q->newest) - complete >= UNITS;
}

/* What the device has now, to measure the unit that ends here. 0: it would say nothing, because the
 * unit, or what is in front of it in its stream, waits for something. */
static uint16_t mark_ahead(const struct vhq *q, uint32_t newest)
{
    uint64_t ns = cap_stream_ns(q), all = peek(q->set->area_ns);
    if (q->tail_waits || (newest != peek(q->complete_mark) && q->ahead[newest % UNITS] == 0))
        return 0;
    ns = (all > ns ? all : ns) / AHEAD_NS;
    return ns < AHEAD_MOST ? (uint16_t)ns : AHEAD_MOST;
}

enum mark cap_mark_by(struct vhq *q, int (*op)(void *, struct vhq *, void *, uint32_t))
{
    struct vhq_set *s = q->set;
    uint32_t value = peek(q->newest) + 1;
    if (unlikely(peek(q->loose_ns) != 0))
        loose_fold(q);
    if (cap_markers_full(q))
        return MARK_FULL;
    q->unit[value % UNITS] = (struct unit){
        .since_ns = clock_ns(),
        .sent = (uint32_t)peek(q->sent),
        .counted = peek(q->counted),
        .est_ns = peek(q->tail_est_ns),
        .area_ns = q->tail_area_ns,
    };
    q->ahead[value % UNITS] = mark_ahead(q, value - 1);
    q->wide[value % UNITS] = peek(q->tail_wide);
    lock_none_inside();
    int err = op(s->user, q, q->desc.stream, value);
    if (err == VHQ_NO_GATE)
        return MARK_NO_GATE;
    if (err != 0) {
        /* A stream that refuses markers (it is being captured, its context is dead) must not keep
         * others waiting: its tail counts as complete. */
        atomic_fetch_sub_explicit(&s->area_ns, q->tail_area_ns, memory_order_relaxed);
        bump(q->counted_ns, -(uint64_t)peek(q->tail_est_ns));
        bump(q->counted, -q->tail_counted);
        cap_tail_done(q);
        return MARK_FAILED;
    }
    bump(q->markers, 1u);
    uint32_t bit = 1u << value % UNITS, gates = peek(q->gate_units);
    atomic_store_explicit(&q->gate_units, op == s->ops.gate ? gates | bit : gates & ~bit,
                          memory_order_relaxed);
    /* Release: the unit was written; pairs with cap_complete. */
    atomic_store_explicit(&q->newest, value, memory_order_release);
    cap_tail_done(q);
    cap_in_flight_begin(q);
    return MARK_OK;
}

enum mark cap_mark(struct vhq *q)
{
    return cap_mark_by(q, q->set->ops.mark);
}

/* ---- completion: set's lock held ------------------------------------------------------------- */

static uint32_t cap_word(const struct vhq *q)
{
    const _Atomic uint32_t *word = q->desc.done ? q->desc.done : &q->polled;
    if (unlikely(q->set->parked != 0))
        return peek(q->complete_mark);
    return atomic_load_explicit(word, memory_order_acquire);
}

static bool reached(uint32_t word, uint32_t value)
{
    return (int32_t)(word - value) >= 0; /* marker numbers wrap */
}

bool cap_reached(struct vhq *q, uint32_t value)
{
    return reached(cap_word(q), value) || reached(peek(q->complete_mark), value);
}

void cap_join_oldest(struct vhq *q)
{
    uint32_t oldest = peek(q->complete_mark) + 1;
    const struct unit *u = &q->unit[oldest % UNITS];
    struct unit *next = &q->unit[(oldest + 1) % UNITS];
    next->since_ns = u->since_ns;
    next->est_ns += u->est_ns;
    next->area_ns += u->area_ns;
    q->ahead[(oldest + 1) % UNITS] = 0;
    if (q->wide[oldest % UNITS] > q->wide[(oldest + 1) % UNITS])
        q->wide[(oldest + 1) % UNITS] = q->wide[oldest % UNITS];
    atomic_store_explicit(&q->complete_mark, oldest, memory_order_release);
}

/* When the work completed, between the last look and now. The estimate decides if it can: otherwise
 * what follows would seem to begin only at a look. */
static uint64_t cap_completed_at(const struct vhq_set *s, uint64_t expected, uint64_t now)
{
    return expected > s->polled_at_ns && expected < now ? expected : now;
}

/* Takes what is complete off the books. Returns its estimate and one more; 0: nothing completed. */
static uint64_t cap_complete(struct vhq *q, uint64_t now)
{
    uint32_t newest = atomic_load_explicit(&q->newest, memory_order_acquire);
    uint32_t complete = peek(q->complete_mark), word = cap_word(q);
    /* The number of its newest marker is never written: see leave_mark. */
    if (reached(word, newest) || unlikely(q->mark_expires_ns != 0 && now >= q->mark_expires_ns &&
                                          reached(word, newest - 1) && q->set->parked == 0))
        word = newest; /* the GPU may be ahead of the thread that placed the marker */
    if (reached(complete, word))
        return 0;
    uint64_t est = 0, area = 0, began = cap_stream_since(q);
    for (uint32_t v = complete + 1; v != word + 1; v++) {
        est += q->unit[v % UNITS].est_ns;
        area += q->unit[v % UNITS].area_ns;
    }
    const struct unit *last = &q->unit[word % UNITS];
    if (unlikely(q->set->stalled))
        blocked_stall_ends(q);
    measure_unit(q, word, now);
    /* The least part of an estimate after which something was complete of late: looks begin there.
     * All that is known is that it was not complete at the look before. */
    uint64_t most = now - began,
             least = q->set->polled_at_ns > began ? q->set->polled_at_ns - began : most / 2,
             part = least * PACE_ONE / (est + 1);
    if (most < est - est / 16 && part < q->set->pace)
        q->set->pace = part < PACE_LEAST ? PACE_LEAST : (uint32_t)part;
    else
        q->set->pace += (PACE_ONE - q->set->pace + PACE_BACK - 1) / PACE_BACK;
    /* Each long command has a marker behind it. */
    q->set->long_ns -= q->set->long_ns / LONG_BACK;
    if ((last->counted - peek(q->complete)) == 1 && cap_long(q->set, est) && est > q->set->long_ns)
        q->set->long_ns = (uint32_t)est;
    uint32_t commands = last->sent - (uint32_t)q->complete_sent;
    PROBE3(complete, q->desc.stream, commands, est);
    bump(q->completed, commands);
    q->complete_sent += commands;
    q->completed_at_ns = now;
    q->run_since_ns = cap_completed_at(q->set, began + est, now);
    bump(q->complete_est_ns, est);
    atomic_store_explicit(&q->complete, last->counted, memory_order_relaxed);
    atomic_store_explicit(&q->complete_mark, word, memory_order_release);
    atomic_fetch_sub_explicit(&q->set->area_ns, area, memory_order_relaxed);
    atomic_fetch_add_explicit(&q->set->done_est_ns, est, memory_order_relaxed);
    if (trace_on())
        traced_queue(TRACE_COMPLETED, q, NEVER, 0, 0);
    return est + 1;
}

bool vhq_in_flight(const struct vhq *q)
{
    return peek(q->counted) != peek(q->complete) || peek(q->newest) != peek(q->complete_mark) ||
           peek(q->loose_ns) != 0;
}

/* Nothing is in flight, and no thread is about to submit: takes the vHQ off the list. */
static bool cap_unlist_idle(struct vhq *q)
{
    if (!queue_trylock(q))
        return false;
    bool idle = peek(q->running) == RUN_NONE && !vhq_in_flight(q);
    if (idle) {
        atomic_store_explicit(&q->in_flight, 0, memory_order_relaxed);
        atomic_fetch_sub_explicit(&q->set->in_flight_count, 1, memory_order_relaxed);
    }
    queue_unlock(q);
    return idle;
}

void cap_adopt(struct vhq_set *s)
{
    if (likely(!atomic_load_explicit(&s->fresh_in_flight, memory_order_relaxed)))
        return;
    struct vhq *q = atomic_exchange_explicit(&s->fresh_in_flight, NULL, memory_order_acquire);
    for (struct vhq *next; q; q = next) {
        next = q->in_flight_next;
        q->in_flight_next = s->in_flight;
        s->in_flight = q;
        if (MUTANT(fresh_uncounted))
            atomic_fetch_add_explicit(&s->in_flight_count, 1, memory_order_relaxed);
    }
}

static void cap_progress(struct vhq_set *s, uint64_t began, uint64_t est, uint64_t now)
{
    s->progress_at_ns = cap_completed_at(s, began + est, now);
    /* Another thread found it: the dispatcher may be asleep until a time that was a guess. */
    if (s->blocked_since_ns != 0 && !vhq_in_dispatcher())
        dispatcher_kick(s);
    s->backoff_ns = 0;
    if (unlikely(s->blocked_since_ns != 0 || s->stalled))
        blocked_progress(s, now);
    if (unlikely(s->trials != 0) && --s->trials == 0)
        measure_above(s);
}

void cap_poll_words(struct vhq_set *s, uint64_t now)
{
    uint64_t began = cap_oldest_since(s), est = 0;
    bool any = false; /* an idle vHQ stays on the list while a thread has its lock */
    cap_adopt(s);
    gaps_note_hold(s, now);
    s->oldest_est_ns = s->oldest_area_ns = s->longest_est_ns = 0;
    s->oldest_ns = 0;
    s->asking = false;
    for (struct vhq **p = &s->in_flight, *q; (q = *p);) {
        struct vhq *next = q->in_flight_next; /* once idle, it may be put back at once */
        uint64_t done = cap_complete(q, now);
        est += done;
        bool busy = vhq_in_flight(q);
        any |= busy;
        if (!busy && cap_unlist_idle(q)) {
            *p = next;
            continue;
        }
        p = &q->in_flight_next;
        s->asking |= peek(q->asks);
        const struct unit *u = cap_oldest(q);
        if (u && u->est_ns > s->longest_est_ns)
            s->longest_est_ns = u->est_ns;
        if (u && (s->oldest_est_ns == 0 || u->since_ns < s->oldest_ns)) {
            s->oldest_ns = u->since_ns;
            s->oldest_est_ns = u->est_ns;
            s->oldest_area_ns = u->area_ns;
        }
    }
    if (est != 0)
        cap_progress(s, began, est, now);
    used_look(s, any, est != 0, now);
    s->polled_at_ns = now;
}

void cap_complete_all(struct vhq *q, uint64_t now)
{
    struct vhq_set *s = q->set;
    cap_poll_words(s, now);
    uint32_t commands = (uint32_t)(peek(q->sent) - q->complete_sent);
    uint64_t began = cap_oldest_since(s), est = peek(q->tail_est_ns);
    if (commands == 0)
        return;
    PROBE3(complete, q->desc.stream, commands, est);
    cap_forget(q);
    q->completed_at_ns = q->run_since_ns = now;
    if (est != 0)
        cap_progress(s, began, est, now);
    if (trace_on())
        traced_queue(TRACE_COMPLETED, q, NEVER, 0, 0);
}

bool cap_claim_tail(struct vhq *q)
{
    if (peek(q->running) != RUN_NONE)
        return false;
    bool empty = ring_empty(&q->ring);
    if (empty && !queue_trylock(q)) {
        atomic_store_explicit(&q->want_mark, 1, memory_order_relaxed);
        return false; /* its submitter will place one */
    }
    bool free = peek(q->running) == RUN_NONE; /* still so */
    if (free)
        atomic_store_explicit(&q->running, RUN_MARK, memory_order_relaxed);
    if (empty)
        queue_unlock(q);
    return free;
}

struct vhq *cap_claim_unmarked(struct vhq_set *s, bool loose)
{
    for (struct vhq *q = s->in_flight; q; q = q->in_flight_next) {
        bool unmarked = peek(q->newest) == peek(q->complete_mark) && peek(q->tail_est_ns) != 0 &&
                        !peek(q->asks);
        if ((loose ? peek(q->loose_ns) != 0 : unmarked) && cap_claim_tail(q))
            return q;
    }
    return NULL;
}

void cap_forget(struct vhq *q)
{
    uint32_t newest = peek(q->newest);
    uint64_t est = peek(q->tail_est_ns), area = q->tail_area_ns;
    if (q->set->stalled)
        blocked_stall_ends(q);
    for (uint32_t v = peek(q->complete_mark) + 1; v != newest + 1; v++) {
        est += q->unit[v % UNITS].est_ns;
        area += q->unit[v % UNITS].area_ns;
    }
    atomic_fetch_sub_explicit(&q->set->area_ns, area, memory_order_relaxed);
    est += peek(q->loose_ns);
    if (peek(q->loose_ns) != 0)
        loose_end(q);
    atomic_fetch_add_explicit(&q->set->done_est_ns, est, memory_order_relaxed);
    atomic_store_explicit(&q->complete_est_ns, peek(q->counted_ns), memory_order_relaxed);
    bump(q->completed, peek(q->sent) - q->complete_sent);
    q->complete_sent = peek(q->sent);
    atomic_store_explicit(&q->complete, peek(q->counted), memory_order_relaxed);
    atomic_store_explicit(&q->complete_mark, newest, memory_order_release);
    cap_tail_done(q);
}

/* Loose commands may long be complete. A marker in the legacy stream follows what the blocking
 * streams have been given since, and what they are given next follows it. In any stream a marker
 * may stand behind a wait of another stream. */
void tail_mark_or_ask(struct vhq *q)
{
    struct vhq_set *s = q->set;
    bool loose = peek(q->loose_ns) != 0 || peek(q->asks);
    bool external = word_read(s->cfg.external_waits) != 0;
    lock_none_inside();
    if ((loose || external) && s->ops.complete && s->ops.complete(s->user, q, q->desc.stream)) {
        set_lock(s);
        cap_complete_all(q, clock_ns());
        set_unlock(s);
    } else if (s->ops.complete && (external || (loose && q->desc.kind == VHQ_LEGACY))) {
        loose_fold(q);
        atomic_store_explicit(&q->asks, true, memory_order_relaxed);
    } else {
        cap_mark(q);
    }
}
