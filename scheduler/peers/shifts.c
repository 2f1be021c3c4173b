/*
 * shifts.c - which clients below keep the device busy, and in which order they take shifts.
 *
 * Each process bounds what it has in flight, and several together have several times as much. So
 * those that always have work for the device go one after another, by the clock (page.h,
 * vhq/shift.c). This file finds these clients. It needs only the figures of their pages, and tells
 * each by a word in its page. A client that makes figures up gets shifts that it does not use, or
 * none, as natively.
 */
#include "scheduler/peers/scan.h"

#include "common/mutant.h"

enum {
    PLACES = 255, /* as many as fit the word */
    SHIFTS_DOUBLED_MOST = 5,
    STALLED_NS = 400000000, /* plus two rounds of shifts */
    COMMANDS = 64,          /* that fit a shift, even the longest: its end loses one at most */
    /* A client may leave a fifth of its own shifts idle: four scans that found work make up for one
     * that found none. A client more than eight short is out until it has made up for eight. */
    LACK = 64,
    MADE_UP_BY = 4,
    DEBT_MOST = 8 * LACK,
    DEBT_OUT = 16 * LACK,
    RECOVERS = 16, /* scans that have to find progress after a stall */
};

#define RESTS_NS (1000ull * NS_PER_MS) /* clients above that have not come for so long rest */

static bool takes_shifts(const struct peer_device *mine)
{
    return mine->busy_scans >= SHIFTS_BUSY_SCANS && !mine->lacks && mine->debt <= DEBT_MOST;
}

/* How often a shift's length is doubled. */
static uint32_t doubled(const struct device_work *work, uint32_t level)
{
    uint32_t n = 0;

    while (n < SHIFTS_DOUBLED_MOST && work->long_us[level] * COMMANDS > (uint64_t)SHIFT_BASE_US
                                                                            << n)
        n++;
    return n;
}

/* No client above has come of late. Only then may others' time slices be in their way. */
static bool above_rests(const struct peer_device *mine, uint64_t now)
{
    uint32_t level = mine->peer->lowest + 1;

    while (level < PAGE_LEVELS && now >= mine->device->came_ns[level] + RESTS_NS)
        level++;
    return level >= PAGE_LEVELS || MUTANT(busy_is_rest);
}

/* In two shifts of its own and some time its work has made no progress: it wastes shifts. While
 * clients above rest, what is in flight needs no shift of its own, and a client whose work stalls
 * again after each command is one of these from its second command on. */
static bool stalls(struct peer_device *mine, uint64_t round_ns, bool rests, bool gets_on,
                   uint64_t now)
{
    uint64_t stall_ns = stall_measure(mine, now);
    bool stalled =
        stall_ns > STALLED_NS + 2 * round_ns || (rests && mine->stall.in_flight_ns > STALLED_NS);

    if (stalled)
        mine->recovers = RECOVERS;
    else if (mine->recovers != 0 && (gets_on || MUTANT(stall_forgotten)))
        mine->recovers--;
    return (rests ? mine->recovers != 0 : stalled) && !MUTANT(stalled_has_shifts);
}

static uint32_t long_us(const struct peer_device *mine)
{
    return atomic_load_explicit(&mine->peer->page->page->long_us[device_slot(mine)],
                                memory_order_relaxed);
}

/* After two scans in a row that find no work, it has done all its work. */
static void look(struct peer_device *mine, uint64_t now)
{
    const struct peer *p = mine->peer;
    const struct page_device *page = device_page(mine);
    const struct device_work *work = &mine->device->work;
    uint32_t level = p->lowest % PAGE_LEVELS, of = work->clients[level], makes_up;
    uint64_t round_ns = ((uint64_t)SHIFT_BASE_US << doubled(work, level)) * NS_PER_US * of;
    uint64_t done = stall_progress(mine);
    bool lacked = mine->lacks, rests = above_rests(mine, now),
         gets_on = done != mine->done || !device_has_work(page);
    /* Or one of its commands outlasts the longest shift, and so runs in those of others, too. */
    bool stalled = stalls(mine, round_ns, rests, gets_on, now) ||
                   (rests && long_us(mine) > (uint32_t)SHIFT_BASE_US << SHIFTS_DOUBLED_MOST &&
                    !MUTANT(long_has_shifts));
    /* It is held by the policy, and what it had in flight when its quantum ended still runs. */
    bool overrun =
        !gets_on && !MUTANT(overrun_untold) && figure_read(&page->counters.in_flight) &&
        (atomic_load_explicit(&page->want[level], memory_order_relaxed) & PAGE_BIT_POLICY);
    /* Buffered or in flight: a client that launches a few commands and waits has none buffered. */
    bool works = p->queues && !p->paused && p->lowest < PAGE_LEVELS && device_has_work(page);

    mine->done = done;
    mine->sliced = works && rests && (stalled || overrun);
    mine->lacks = !works || p->above == 0 || stalled;
    /* The work of a client that takes shifts can run out only in its own, one of `of`. So one scan
     * that found none counts as `of` scans. */
    makes_up = LACK / MADE_UP_BY / (of ? of : 1);
    makes_up = makes_up ? makes_up : 1;
    if (!mine->lacks)
        mine->debt -= mine->debt < makes_up ? mine->debt : makes_up;
    else if (mine->busy_scans >= SHIFTS_BUSY_SCANS && mine->debt <= DEBT_MOST)
        mine->debt += LACK;
    if (mine->lacks && mine->debt > DEBT_MOST)
        mine->debt = DEBT_OUT;
    if (!mine->lacks)
        mine->busy_scans++;
    else if (lacked || mine->busy_scans < SHIFTS_BUSY_SCANS)
        mine->busy_scans = 0;
}

/* Finds how far all work is, gives each client that takes shifts its place, and tells it. */
static void arrange(struct peer *peers)
{
    PEER_DEVICES (peers, p, mine)
        mine->device->work = (struct device_work){0};
    PEER_DEVICES (peers, p, mine) {
        struct device_work *work = &mine->device->work;
        uint32_t us = long_us(mine);

        work->done += stall_progress(mine);
        if (mine->sliced)
            work->sliced[p->lowest]++;
        if (!takes_shifts(mine))
            continue;
        mine->place = work->clients[p->lowest]++;
        if (us > work->long_us[p->lowest])
            work->long_us[p->lowest] = us;
    }
    PEER_DEVICES (peers, p, mine) {
        const struct device_work *work = &mine->device->work;
        _Atomic uint32_t *shift = &p->page->page->shift[device_slot(mine)];
        uint32_t old = atomic_load_explicit(shift, memory_order_relaxed),
                 word = old & PAGE_SHIFT_PROGRESS, of = work->clients[p->lowest % PAGE_LEVELS];
        uint64_t others = work->done - stall_progress(mine);

        if (others != mine->others)
            word += PAGE_SHIFT_PROGRESS_ONE;
        mine->others = others;
        if (takes_shifts(mine) && of > 1 && of <= PLACES)
            word |=
                PAGE_SHIFT_WORD(mine->place, of) | doubled(work, p->lowest) * PAGE_SHIFT_DOUBLED;
        if (p->lowest < PAGE_LEVELS && work->sliced[p->lowest] > mine->sliced)
            word |= PAGE_SHIFT_SLICED;
        if (word != old)
            atomic_store_explicit(shift, word, memory_order_relaxed);
    }
}

void shifts_scan(struct peer *peers, uint64_t now_ns)
{
    PEER_DEVICES (peers, p, mine) {
        const struct page_device *page = device_page(mine);
        uint64_t cut_ins = figure_read(&page->counters.cut_ins);

        if (cut_ins != mine->cut_ins || atomic_load_explicit(&page->active, memory_order_relaxed))
            mine->device->came_ns[p->level] = now_ns;
        mine->cut_ins = cut_ins;
    }
    PEER_DEVICES (peers, p, mine)
        look(mine, now_ns);
    arrange(peers);
}

void shifts_end(struct peer *peers)
{
    PEER_DEVICES (peers, p, mine)
        atomic_fetch_and(&p->page->page->shift[device_slot(mine)], PAGE_SHIFT_PROGRESS);
}

void shifts_leave(struct peer *peers, const struct peer *gone)
{
    bool any = false;

    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        any |= takes_shifts(&gone->device[slot]);
    if (any)
        arrange(peers);
}
