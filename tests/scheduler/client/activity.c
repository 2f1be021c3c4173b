/*
 * activity.c - counting what is active, and the bits that follow from it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/client/activity.h"
#include "common/clock.h"

enum { THREADS = 4, PAGES = 5, DEV = 2, MY_BIT = 1u << 7 };

static struct activity a;
static uint8_t slots[PAGE_DEVICES];

static void set_up(void)
{
    a.page = page_new();
    a.ceiling = PAGE_LEVELS - 1;
    a.preemptible.bit[DEV] = MY_BIT;
    memset(slots, 0xff, sizeof(slots));
    slots[DEV] = 5; /* it is the other side's device 5 */
}

static void tear_down(void)
{
    preemptible_leave_all(&a.preemptible);
    cr_assert(preemptible_reap(&a.preemptible));
    page_unmap(a.page);
}

TestSuite(activity, .init = set_up, .fini = tear_down);

/* Joins a client whose streams may have different levels, and that enforces a bound. */
static int join_words(uint64_t client, struct cutin_page *page, uint32_t level,
                      const uint8_t slot[PAGE_DEVICES])
{
    struct message_join now = {.client = client};

    for (uint32_t l = 0; l < PAGE_LEVELS; l++)
        now.words[l] = (uint8_t)PAGE_BOTH(page_held_levels(l, level));
    memcpy(now.slot, slot, sizeof(now.slot));
    return preemptible_join(&a.preemptible, &now, page);
}

/* Joins a page whose memory this test keeps: it maps the page a second time below. */
static struct cutin_page *join(uint64_t client, uint32_t level)
{
    struct cutin_page *theirs, *mine;
    int fd;

    cr_assert_eq(page_new_shared(&theirs, &fd), 0);
    cr_assert_eq(page_map_other(fd, &mine), 0);
    cr_assert_eq(join_words(client, mine, level, slots), 0);
    close(fd);
    return theirs;
}

static uint32_t held(const struct cutin_page *page, uint32_t level)
{
    return page->device[5].hold[level];
}

static void assert_clear(const struct cutin_page *page)
{
    for (uint32_t d = 0; d < PAGE_DEVICES; d++)
        for (uint32_t l = 0; l < PAGE_LEVELS; l++) {
            cr_assert_eq(page->device[d].hold[l], 0, "device %u level %u", d, l);
            cr_assert_eq(page->device[d].want[l], 0, "device %u level %u", d, l);
        }
}

Test(activity, calls_nest_and_highest_active_level_holds)
{
    struct cutin_page *other = join(1, 3);

    activity_begin(&a, DEV, 1);
    activity_begin(&a, DEV, 1);
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert_eq(held(other, 1), 0);
    activity_begin(&a, DEV, 3);
    cr_assert_eq(held(other, 2), MY_BIT);
    cr_assert_eq(held(other, 3), 0);
    cr_assert_eq(a.page->device[DEV].hold[2], PAGE_BIT_SELF);
    cr_assert_eq(a.page->device[DEV].active, 3);
    activity_end(&a, DEV, 3);
    cr_assert_eq(held(other, 1), 0);
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_end(&a, DEV, 1);
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_end(&a, DEV, 1);
    assert_clear(other);
    assert_clear(a.page);
    page_unmap(other);
}

/* What this process remembers of its bits is only a guess. */
Test(activity, own_bit_is_repaired_and_other_bits_are_kept)
{
    struct cutin_page *other = join(1, 0);

    activity_begin(&a, DEV, 3);
    atomic_store(&other->device[5].hold[0], 1u << 3);
    activity_refresh(&a, DEV);
    cr_assert_eq(held(other, 0), MY_BIT | 1u << 3, "somebody took it away");
    atomic_store(&other->device[5].hold[0], 0);
    activity_end(&a, DEV, 3);
    assert_clear(other);
    atomic_store(&other->device[5].hold[0], MY_BIT);
    activity_refresh(&a, DEV);
    assert_clear(other);
    atomic_store(&other->device[5].hold[0], MY_BIT | 1u << 3);
    activity_begin(&a, DEV, 3);
    cr_assert_eq(held(other, 0), MY_BIT | 1u << 3);
    activity_end(&a, DEV, 3);
    cr_assert_eq(held(other, 0), 1u << 3, "that of somebody else stays");
    atomic_store(&other->device[5].hold[0], 0);
    page_unmap(other);
}

Test(activity, unqueued_streams_count_gpu_time_while_active)
{
    const _Atomic uint64_t *gpu_ns = &a.page->device[DEV].counters.gpu_ns;
    uint64_t began = clock_ns(), seen;

    activity_begin(&a, DEV, 3);
    activity_end(&a, DEV, 3);
    cr_assert_eq(*gpu_ns, 0, "somebody else estimates it");
    a.direct = true;
    activity_begin(&a, DEV, 2);
    activity_end(&a, DEV, 2);
    cr_assert_eq(*gpu_ns, 0, "of a level that has queues");
    activity_begin(&a, DEV, 3);
    activity_begin(&a, DEV, 3);
    activity_tick(&a, clock_ns() + 1);
    seen = *gpu_ns;
    cr_assert(seen > 0 && seen <= clock_ns() - began + 1, "counted while it goes on");
    activity_end(&a, DEV, 3);
    activity_end(&a, DEV, 3);
    cr_assert(*gpu_ns >= seen && *gpu_ns <= clock_ns() - began + 1);
    seen = *gpu_ns;
    activity_tick(&a, clock_ns());
    cr_assert_eq(*gpu_ns, seen, "inactive");
}

Test(activity, hold_records_its_start_time_once)
{
    struct cutin_page *other = join(1, 0);
    uint64_t before = clock_ns(), since;

    activity_begin(&a, DEV, 3);
    since = other->device[5].hold_since_ns[0];
    cr_assert(since >= before && since <= clock_ns());
    activity_refresh(&a, DEV);
    cr_assert_eq(other->device[5].hold_since_ns[0], since, "it is the same hold");
    activity_end(&a, DEV, 3);
    page_unmap(other);
}

Test(activity, announced_work_holds_until_it_ends)
{
    struct cutin_page *other = join(1, 0);

    activity_announce(&a, DEV, 3, clock_ns() + 3600ull * 1000000000u);
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert_eq(a.page->device[DEV].counters.cut_ins, 1);
    activity_begin(&a, DEV, 3);
    cr_assert_eq(a.page->device[DEV].counters.cut_ins, 2);
    activity_end(&a, DEV, 3);
    assert_clear(other);
    page_unmap(other);
}

/* The request before the announced one is still under way. */
Test(activity, announced_hold_outlives_earlier_work_until_it_expires)
{
    struct cutin_page *other = join(1, 0);
    uint64_t until = clock_ns() + 3600ull * 1000000000u;

    activity_begin(&a, DEV, 3);
    activity_announce(&a, DEV, 3, until);
    activity_end(&a, DEV, 3);
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert_eq(activity_expire(&a, until - 1), until);
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert_eq(activity_expire(&a, until), 0);
    assert_clear(other);
    activity_announce(&a, DEV, 3, until);
    activity_announce(&a, DEV, 3, 0);
    assert_clear(other);
    page_unmap(other);
}

Test(activity, surplus_end_is_ignored)
{
    activity_end(&a, DEV, 3);
    activity_begin(&a, DEV, 3);
    cr_assert_eq(a.page->device[DEV].hold[0], PAGE_BIT_SELF);
    activity_end(&a, DEV, 3);
    assert_clear(a.page);
}

Test(activity, joining_or_changed_page_gets_current_bits)
{
    struct cutin_page *other;
    uint8_t moved[PAGE_DEVICES];

    activity_begin(&a, DEV, 2);
    other = join(9, 3);
    activity_refresh(&a, DEV);
    cr_assert_eq(held(other, 1), MY_BIT);
    cr_assert_eq(held(other, 2), 0);
    /* Its level was lowered: its streams above that are held as if they were at it. */
    cr_assert_eq(join_words(9, NULL, 1, slots), 0);
    activity_refresh(&a, DEV);
    cr_assert_eq(held(other, 3), MY_BIT);
    cr_assert(preemptible_reap(&a.preemptible));
    cr_assert_eq(held(other, 0), MY_BIT, "the mapping lived on in its successor");
    preemptible_leave(&a.preemptible, 9);
    cr_assert(preemptible_reap(&a.preemptible));
    assert_clear(other);
    memset(moved, 0xff, sizeof(moved));
    cr_assert_eq(join_words(9, NULL, 1, moved), -ENOENT);
    activity_end(&a, DEV, 2);
    page_unmap(other);
}

/* words[level] are those of a client of level 1 with one word, which enforces no bound. */
Test(activity, only_words_a_client_reads_are_written)
{
    struct message_join now = {.client = 7, .words = {0, 0, 0x1, 0x1}};
    struct cutin_page *other = join(7, 0);
    const struct page_device *device = &other->device[5];

    memcpy(now.slot, slots, sizeof(slots));
    cr_assert_eq(preemptible_join(&a.preemptible, &now, NULL), 0);
    activity_begin(&a, DEV, 2);
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert(device->want[0] == 0 && held(other, 1) == 0);
    cr_assert_neq(device->hold_since_ns[0], 0);
    now.words[2] = 0;
    cr_assert_eq(preemptible_join(&a.preemptible, &now, NULL), 0);
    activity_refresh(&a, DEV);
    cr_assert_eq(held(other, 0), 0, "it rose to this level");
    activity_end(&a, DEV, 2);
    assert_clear(other);
    page_unmap(other);
}

Test(activity, single_level_process_does_not_hold_its_own_streams)
{
    a.flat = true;
    activity_begin(&a, DEV, 3);
    assert_clear(a.page);
    activity_end(&a, DEV, 3);
}

Test(activity, granted_level_caps_holds_on_other_processes)
{
    struct cutin_page *other = join(1, 2);

    a.ceiling = 1;
    activity_begin(&a, DEV, 3);
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert_eq(held(other, 1), 0);
    cr_assert_eq(a.page->device[DEV].hold[2], PAGE_BIT_SELF, "in the process it does");
    activity_end(&a, DEV, 3);
    page_unmap(other);
}

Test(activity, linger_expires_unless_active_again)
{
    struct cutin_page *other = join(1, 0);
    uint64_t hour = 3600ull * 1000000000u;

    a.linger_ns = 60 * 1000000000ull;
    activity_begin(&a, DEV, 3);
    activity_end(&a, DEV, 3);
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_tick(&a, clock_ns());
    cr_assert_eq(held(other, 0), MY_BIT);
    cr_assert(activity_lingering(&a));
    activity_begin(&a, DEV, 3);
    activity_tick(&a, clock_ns() + hour);
    cr_assert_eq(held(other, 0), MY_BIT, "active again");
    activity_end(&a, DEV, 3);
    activity_tick(&a, clock_ns() + hour);
    assert_clear(other);
    page_unmap(other);
}

Test(activity, stalled_external_wait_ends_hold_and_progress_restores_it)
{
    struct cutin_page *other = join(1, 0);
    uint64_t t = 1000000000, stall = ACTIVITY_STALL_NS;

    activity_begin(&a, DEV, 3);
    activity_note_wait(&a, DEV, true);
    activity_tick(&a, t);
    activity_tick(&a, t + stall - 1);
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_tick(&a, t + stall);
    assert_clear(other);
    assert_clear(a.page);
    activity_note_wait(&a, DEV, true); /* another begins: progress */
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_tick(&a, t + 2 * stall);
    activity_tick(&a, t + 3 * stall);
    assert_clear(other);
    activity_note_wait(&a, DEV, false);
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_note_wait(&a, DEV, false);
    activity_tick(&a, t + 10 * stall);
    activity_tick(&a, t + 20 * stall);
    cr_assert_eq(held(other, 0), MY_BIT, "nothing pending: nothing stalls");
    activity_note_wait(&a, DEV, false); /* one too many */
    activity_end(&a, DEV, 3);
    assert_clear(other);
    page_unmap(other);
}

/* One stream waits for another process while another one serves. The process holds others as long
 * as some of its work ends now and then. */
Test(activity, work_beside_stalled_wait_holds_until_it_stands)
{
    struct cutin_page *other = join(1, 0);
    uint64_t t = 1000000000, stall = ACTIVITY_STALL_NS;

    activity_begin(&a, DEV, 3);
    activity_note_wait(&a, DEV, true);
    activity_tick(&a, t);
    activity_tick(&a, t += stall);
    assert_clear(other);
    for (int request = 0; request < 5; request++) {
        activity_begin(&a, DEV, 3);
        cr_assert_eq(held(other, 0), MY_BIT, "request %d", request);
        activity_tick(&a, t += stall / 2);
        activity_tick(&a, t += stall / 2);
        cr_assert_eq(held(other, 0), MY_BIT, "request %d", request);
        activity_end(&a, DEV, 3);
        assert_clear(other);
    }
    activity_begin(&a, DEV, 2);
    activity_tick(&a, t += stall / 2);
    activity_begin(&a, DEV, 2);
    activity_tick(&a, t += stall);
    cr_assert_eq(held(other, 0), MY_BIT, "one has begun");
    activity_tick(&a, t += stall);
    assert_clear(other);
    activity_end(&a, DEV, 2);
    assert_clear(other);
    activity_end(&a, DEV, 3); /* the work that made no progress */
    activity_begin(&a, DEV, 3);
    cr_assert_eq(held(other, 0), MY_BIT);
    activity_end(&a, DEV, 3);
    activity_announce(&a, DEV, 3, clock_ns() + 1000 * stall);
    cr_assert_eq(held(other, 0), MY_BIT, "it will come");
    activity_announce(&a, DEV, 3, 0);
    assert_clear(other);
    activity_end(&a, DEV, 2);
    activity_note_wait(&a, DEV, false);
    assert_clear(other);
    page_unmap(other);
}

/* ---- many threads ---------------------------------------------------------------------------- */

static pthread_barrier_t go;
static _Atomic bool stop;

static void *worker(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;

    pthread_barrier_wait(&go);
    for (int i = 0; i < 400; i++) {
        uint32_t level = 1 + (uint32_t)rand_r(&seed) % 3;

        activity_begin(&a, DEV, level);
        if (rand_r(&seed) % 16 == 0) /* on a busy machine this lets all other threads run first */
            sched_yield();
        activity_end(&a, DEV, level);
    }
    return NULL;
}

/* Does what the client's thread does meanwhile: pages come, change and go. */
static void *keeper(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;
    struct cutin_page *pages[PAGES] = {0};

    while (!atomic_load(&stop)) {
        unsigned i = (unsigned)rand_r(&seed) % PAGES;

        if (!pages[i]) {
            pages[i] = join(i, (uint32_t)rand_r(&seed) % 4);
            activity_refresh_all(&a);
        } else if (rand_r(&seed) % 2) {
            join_words(i, NULL, (uint32_t)rand_r(&seed) % 4, slots);
            activity_refresh_all(&a);
        } else {
            preemptible_leave(&a.preemptible, i);
            while (!preemptible_reap(&a.preemptible))
                sched_yield();
            activity_refresh_all(&a);
            assert_clear(pages[i]);
            page_unmap(pages[i]);
            pages[i] = NULL;
        }
    }
    for (unsigned i = 0; i < PAGES; i++)
        if (pages[i])
            page_unmap(pages[i]);
    return NULL;
}

static void race(unsigned seed, void *(*meanwhile)(void *))
{
    pthread_t threads[THREADS], keeps;

    pthread_barrier_init(&go, NULL, THREADS + 1);
    atomic_store(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, worker, (void *)(seed * THREADS + i + 1));
    if (meanwhile)
        pthread_create(&keeps, NULL, meanwhile, (void *)(uintptr_t)seed);
    pthread_barrier_wait(&go);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&go);
    atomic_store(&stop, true);
    if (meanwhile)
        pthread_join(keeps, NULL);
}

Test(activity, racing_threads_leave_all_bits_clear)
{
    struct cutin_page *other = join(100, 3);

    for (unsigned seed = 0; seed < 200; seed++) {
        race(seed, NULL);
        assert_clear(other);
        assert_clear(a.page);
    }
    page_unmap(other);
}

Test(activity, racing_threads_keep_hold_of_active_work)
{
    struct cutin_page *other = join(100, 3);

    activity_begin(&a, DEV, 2);
    for (unsigned seed = 0; seed < 100; seed++) {
        race(seed, NULL);
        cr_assert_eq(held(other, 0), MY_BIT);
        cr_assert_eq(held(other, 1), MY_BIT);
        cr_assert_eq(held(other, 2), 0);
    }
    activity_end(&a, DEV, 2);
    assert_clear(other);
    page_unmap(other);
}

Test(activity, pages_joining_and_leaving_during_race_keep_no_bits)
{
    struct cutin_page *other = join(100, 3);

    for (unsigned seed = 0; seed < 40; seed++) {
        race(seed, keeper);
        assert_clear(other);
        assert_clear(a.page);
    }
    page_unmap(other);
}

/* Like the keeper, with one page whose owner keeps changing level. */
static _Atomic uint32_t last_level = 3;

static void *changer(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;

    while (!atomic_load(&stop)) {
        uint32_t level = (uint32_t)rand_r(&seed) % 4;

        join_words(100, NULL, level, slots);
        activity_refresh_all(&a);
        preemptible_reap(&a.preemptible);
        activity_refresh_all(&a);
        atomic_store(&last_level, level);
    }
    return NULL;
}

Test(activity, level_changes_during_race_leave_right_levels_held)
{
    struct cutin_page *other = join(100, 3);

    activity_begin(&a, DEV, 2);
    for (unsigned seed = 0; seed < 40; seed++) {
        uint32_t levels;

        race(seed, changer);
        levels = page_held_levels(2, atomic_load(&last_level));
        for (uint32_t l = 0; l < PAGE_LEVELS; l++)
            cr_assert_eq(held(other, l), levels >> l & 1 ? MY_BIT : 0, "level %u", l);
    }
    activity_end(&a, DEV, 2);
    assert_clear(other);
    page_unmap(other);
}
