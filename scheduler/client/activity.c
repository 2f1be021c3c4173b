/* activity.c - see activity.h. */
#include "scheduler/client/activity.h"

#include "common/probe.h"
#include "common/clock.h"
#include "common/likely.h"
#include "common/mutant.h"

#define WAITS_PENDING 0xffffull
#define WAITS_STALLED (1ull << 16)
#define WAITS_STEP    (1ull << 32)

static uint32_t counts(const struct activity_device *d)
{
    uint32_t sum = 0;

    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        sum += atomic_load(&d->count[level]);
    return sum;
}

static bool stalled(const struct activity_device *d)
{
    return atomic_load(&d->external) & WAITS_STALLED;
}

static inline __attribute__((always_inline)) uint32_t highest_of(const struct activity_device *d,
                                                                 bool counted)
{
    for (uint32_t level = PAGE_LEVELS; level-- > 0;)
        if ((counted && atomic_load(&d->count[level])) || atomic_load(&d->linger_until_ns[level]) ||
            atomic_load(&d->announced_until_ns[level]))
            return level;
    return PAGE_LEVELS;
}

/* While an external wait is stalled: older work does not count, later work does. */
static __attribute__((noinline, cold)) uint32_t highest_stalled(const struct activity_device *d)
{
    return highest_of(d, counts(d) > atomic_load(&d->older) && !MUTANT(stalled_for_good));
}

/* The highest active level; PAGE_LEVELS: nothing is active. */
static uint32_t highest(const struct activity *a, uint32_t dev)
{
    const struct activity_device *d = &a->device[dev];

    return unlikely(stalled(d)) ? highest_stalled(d) : highest_of(d, true);
}

/* The level of the highest active stream; 0: none is active, or only best effort. */
static uint32_t level_inside(const struct activity *a, uint32_t dev)
{
    uint32_t level = highest(a, dev);

    return level < PAGE_LEVELS ? level : 0;
}

/* The level as which that counts for other processes. */
static uint32_t level_outside(const struct activity *a, uint32_t dev)
{
    uint32_t level = highest(a, dev);
    uint32_t ceiling = atomic_load(&a->ceiling);

    if (level == PAGE_LEVELS)
        return 0;
    return level > ceiling || atomic_load(&a->flat) ? ceiling : level;
}

void activity_hint_due(struct activity *a, uint64_t due_ns)
{
    bool under_way = false;

    for (uint32_t dev = 0; due_ns && dev < PAGE_DEVICES; dev++)
        if (atomic_load(&a->page->device[dev].active)) {
            atomic_store(&a->page->device[dev].deadline_ns, due_ns);
            activity_refresh(a, dev); /* the request may have ended just now */
            under_way = true;
        }
    atomic_store(&a->hint_due_ns, under_way ? 0 : due_ns);
}

static void add_direct(struct activity *a, uint32_t dev, uint64_t since, uint64_t now)
{
    if (now > since)
        atomic_fetch_add_explicit(&a->page->device[dev].counters.gpu_ns, now - since,
                                  memory_order_relaxed);
}

void activity_refresh(struct activity *a, uint32_t dev)
{
    struct page_device *own = &a->page->device[dev];
    uint32_t generation, level, outside;
    uint64_t now = 0;

    do {
        generation = atomic_load(&a->preemptible.generation);
        level = level_inside(a, dev);
        outside = level_outside(a, dev);
        if (!now && (level > 0 || outside > 0))
            now = clock_ns(); /* one reading, however many clients this holds */
        if (!atomic_load(&a->flat))
            page_write_bit(own, PAGE_BIT_SELF, PAGE_BOTH(page_held_levels(level, PAGE_LEVELS - 1)),
                           PAGE_WORDS, now);
        /* The GPU time of streams without a queue is not estimated: it counts as the time for which
         * any of them is active. */
        _Atomic uint64_t *since = &a->device[dev].direct_since_ns;
        uint64_t seen = atomic_load_explicit(since, memory_order_relaxed);

        if (level == PAGE_LEVELS - 1 && a->direct) {
            if (!seen)
                atomic_compare_exchange_strong(since, &seen, now);
        } else if (seen && (seen = atomic_exchange(since, 0))) {
            add_direct(a, dev, seen, clock_ns());
        }
        uint32_t top = level > outside ? level : outside;

        atomic_store(&own->active, top);
        bool given = atomic_load(&own->deadline_ns);

        if (top == 0 && given) {
            atomic_store(&own->deadline_ns, 0);
        } else if (top > 0 && !given) {
            uint64_t due = atomic_load(&a->hint_due_ns) ? atomic_exchange(&a->hint_due_ns, 0) : 0;

            if (!due && a->deadline_ns)
                due = now + a->deadline_ns;
            if (due)
                atomic_store(&own->deadline_ns, due);
        }
        if (atomic_load(&a->preemptible.bit[dev]))
            preemptible_write(&a->preemptible, dev, outside, now);
    } while (level != level_inside(a, dev) || outside != level_outside(a, dev) ||
             generation != atomic_load(&a->preemptible.generation));
}

void activity_refresh_all(struct activity *a)
{
    for (uint32_t dev = 0; dev < PAGE_DEVICES; dev++)
        activity_refresh(a, dev);
}

static void count_cut_in(struct activity *a, uint32_t dev, uint32_t level)
{
    if (level_outside(a, dev) == 0 && level == 0)
        return;
    /* Without a bit it can hold only its own streams, and a flat process has none of another level.
     * If it gets a bit, here or in activity_set_bit, the cut-in counts. */
    if (!atomic_load(&a->preemptible.bit[dev]) && atomic_load(&a->flat)) {
        atomic_store(&a->device[dev].uncounted, true);
        if (!atomic_load(&a->preemptible.bit[dev]) ||
            !atomic_exchange(&a->device[dev].uncounted, false))
            return;
    }
    PROBE2(cut_in, dev, level);
    atomic_fetch_add_explicit(&a->page->device[dev].counters.cut_ins, 1, memory_order_relaxed);
}

void activity_set_bit(struct activity *a, uint32_t dev, uint32_t bit)
{
    atomic_store(&a->preemptible.bit[dev], bit);
    atomic_fetch_add(&a->preemptible.generation, 1);
    if (bit && atomic_exchange(&a->device[dev].uncounted, false))
        count_cut_in(a, dev, level_inside(a, dev));
    activity_refresh(a, dev);
    preemptible_rearm(&a->preemptible);
}

/* Something has begun or ended while an external wait is stalled. */
static __attribute__((noinline, cold)) void beside_stalled(struct activity *a, uint32_t dev)
{
    struct activity_device *d = &a->device[dev];
    uint32_t older = atomic_load(&d->older), sum;

    atomic_fetch_add(&d->changes, 1);
    while ((sum = counts(d)) < older && !atomic_compare_exchange_weak(&d->older, &older, sum))
        ;
    activity_refresh(a, dev);
}

void activity_begin(struct activity *a, uint32_t dev, uint32_t level)
{
    /* Sequentially consistent, like everything that `highest` reads: see the header. */
    if (atomic_fetch_add(&a->device[dev].count[level], 1) != 0) {
        if (unlikely(stalled(&a->device[dev])))
            beside_stalled(a, dev);
        return;
    }
    if (atomic_load(&a->device[dev].announced_until_ns[level]))
        atomic_store(&a->device[dev].announced_begun[level], true);
    count_cut_in(a, dev, level);
    activity_refresh(a, dev);
}

void activity_announce(struct activity *a, uint32_t dev, uint32_t level, uint64_t until_ns)
{
    struct activity_device *d = &a->device[dev];

    atomic_store(&d->announced_begun[level], false);
    if (atomic_exchange(&d->announced_until_ns[level], until_ns) == 0 && until_ns)
        count_cut_in(a, dev, level);
    activity_refresh(a, dev);
    if (until_ns)
        waker_arm(&a->waker, until_ns);
}

void activity_end(struct activity *a, uint32_t dev, uint32_t level)
{
    struct activity_device *d = &a->device[dev];
    uint64_t until = a->linger_ns ? clock_ns() + a->linger_ns : 0;
    uint32_t before;

    /* Before the count goes down, so that the process never looks inactive in between. */
    if (until)
        atomic_store(&d->linger_until_ns[level], until);
    before = atomic_load(&d->count[level]);
    do {
        if (before == 0)
            return; /* forgotten by activity_clear */
    } while (!atomic_compare_exchange_weak(&d->count[level], &before, before - 1));
    if (unlikely(stalled(d)))
        beside_stalled(a, dev);
    if (before != 1)
        return;
    bool announced = atomic_exchange(&d->announced_begun[level], false);
    if (announced)
        atomic_store(&d->announced_until_ns[level], 0);
    if (announced || !until)
        activity_refresh(a, dev);
    if (until)
        waker_arm(&a->waker, until);
}

void activity_note_wait(struct activity *a, uint32_t dev, bool begins)
{
    _Atomic uint64_t *word = &a->device[dev].external;
    uint64_t old = atomic_load(word), new;

    do {
        if ((old & WAITS_PENDING) == (begins ? WAITS_PENDING : 0))
            return; /* 65,535 waits are pending: more are not counted */
        new = (old & ~WAITS_STALLED) + WAITS_STEP + (begins ? 1u : -1ull);
    } while (!atomic_compare_exchange_weak(word, &old, new));
    if (old & WAITS_STALLED)
        activity_refresh(a, dev);
}

/* True: the time was due, and has been ended. Else *next is no later than that time. */
static bool end_due(_Atomic uint64_t *until, uint64_t now, uint64_t *next)
{
    uint64_t seen = atomic_load(until);

    /* Fails if another thread has set a new time. */
    if (seen && seen <= now && atomic_compare_exchange_strong(until, &seen, 0))
        return true;
    if (seen && (*next == 0 || seen < *next))
        *next = seen;
    return false;
}

uint64_t activity_expire(void *activity, uint64_t now_ns)
{
    struct activity *a = activity;
    uint64_t next = 0;

    for (uint32_t dev = 0; dev < PAGE_DEVICES; dev++) {
        struct activity_device *d = &a->device[dev];
        bool ended = false;

        for (uint32_t level = 0; level < PAGE_LEVELS; level++) {
            ended |= end_due(&d->linger_until_ns[level], now_ns, &next);
            ended |= end_due(&d->announced_until_ns[level], now_ns, &next);
        }
        if (ended)
            activity_refresh(a, dev);
    }
    return next;
}

void activity_tick(struct activity *a, uint64_t now_ns)
{
    activity_expire(a, now_ns);
    for (uint32_t dev = 0; dev < PAGE_DEVICES; dev++) {
        struct activity_device *d = &a->device[dev];
        uint64_t since = atomic_load(&d->direct_since_ns), word = atomic_load(&d->external);

        /* Fails if the activity has ended just now; then its time was counted. */
        if (since && now_ns > since &&
            atomic_compare_exchange_strong(&d->direct_since_ns, &since, now_ns))
            add_direct(a, dev, since, now_ns);
        if (word != d->external_seen) {
            d->external_seen = word;
            d->external_since_ns = now_ns;
        } else if (word & WAITS_STALLED) {
            /* Work that began beside it is stalled, too, if nothing begins or ends for as long. */
            uint32_t changes = atomic_load(&d->changes), sum = counts(d);

            if (changes != d->changes_seen || sum != d->sum_seen || sum <= atomic_load(&d->older)) {
                d->changes_seen = changes;
                d->sum_seen = sum;
                d->changes_since_ns = now_ns;
            } else if (now_ns - d->changes_since_ns >= ACTIVITY_STALL_NS) {
                atomic_store(&d->older, sum);
                activity_refresh(a, dev);
            }
        } else if ((word & WAITS_PENDING) && now_ns - d->external_since_ns >= ACTIVITY_STALL_NS) {
            atomic_store(&d->older, counts(d));
            if (atomic_compare_exchange_strong(&d->external, &word, word | WAITS_STALLED))
                activity_refresh(a, dev);
        }
    }
}

bool activity_lingering(const struct activity *a)
{
    for (uint32_t dev = 0; dev < PAGE_DEVICES; dev++)
        if (highest_of(&a->device[dev], false) < PAGE_LEVELS)
            return true;
    return false;
}

bool activity_any(const struct activity *a)
{
    for (uint32_t dev = 0; dev < PAGE_DEVICES; dev++)
        if (highest(a, dev) < PAGE_LEVELS ||
            (atomic_load(&a->device[dev].external) & WAITS_PENDING))
            return true;
    return false;
}

void activity_clear(struct activity *a)
{
    for (uint32_t dev = 0; dev < PAGE_DEVICES; dev++) {
        struct activity_device *d = &a->device[dev];

        for (uint32_t level = 0; level < PAGE_LEVELS; level++) {
            atomic_store(&d->count[level], 0);
            atomic_store(&d->linger_until_ns[level], 0);
            atomic_store(&d->announced_until_ns[level], 0);
            atomic_store(&d->announced_begun[level], false);
        }
        atomic_store(&d->external, 0);
        activity_refresh(a, dev);
    }
}
