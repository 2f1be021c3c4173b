/*
 * shifts.c - which clients take shifts on a device, with pages of the test's own.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "scheduler/peers/scan.h"

enum { PEERS = 4, SLOT = 2 /* of every peer */, ONCE_STOOD = 16 /* scans with progress */ };

static struct cutin_page page[PEERS];
static struct shared_page shared[PEERS];
static struct peer peer[PEERS]; /* the first one is the service */

void peer_send(struct peer *p, const union message *m, struct shared_page *with)
{
}

static void set_up(void)
{
    static const uint8_t gpu[16] = {1}, other_gpu[16] = {2};

    for (uint32_t i = 0; i < PEERS; i++) {
        shared[i].page = &page[i];
        peer[i] = (struct peer){.client = true,
                                .queues = i > 0,
                                .above = i > 0,
                                .level = i > 0 ? 0 : 3,
                                .lowest = i > 0 ? 0 : 3,
                                .page = &shared[i],
                                .next = i + 1 < PEERS ? &peer[i + 1] : NULL};
        cr_assert_eq(topology_device(&peer[i], SLOT, gpu), 0);
        cr_assert_eq(topology_device(&peer[i], SLOT + 1, other_gpu), 0);
    }
}

TestSuite(shifts, .init = set_up);

static struct page_counters *counters(uint32_t i)
{
    return &page[i].device[SLOT].counters;
}

static uint32_t shift(uint32_t i)
{
    return page[i].shift[SLOT] & ~(PAGE_SHIFT_PROGRESS | PAGE_SHIFT_SLICED);
}

static bool beside_slices(uint32_t i)
{
    return page[i].shift[SLOT] & PAGE_SHIFT_SLICED;
}

static uint32_t stalling; /* makes no progress; others with work do */

static void looks(int n)
{
    static uint64_t now = 1000 * NS_PER_MS;

    while (n-- > 0) {
        for (uint32_t i = 1; i < PEERS; i++)
            counters(i)->submitted += i != stalling && device_has_work(&page[i].device[SLOT]);
        shifts_scan(peer, now += SHIFTS_SCAN_MS * NS_PER_MS);
    }
}

Test(shifts, go_to_clients_with_constant_backlog)
{
    counters(1)->waiting = counters(3)->waiting = 100;
    looks(SHIFTS_BUSY_SCANS - 1);
    cr_expect_eq(shift(1), 0, "not yet: %x", shift(1));
    looks(1);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "%x", shift(1));
    cr_expect_eq(shift(3), PAGE_SHIFT_WORD(1, 2), "%x", shift(3));
    cr_expect_eq(shift(2), 0, "it has little to do, and need not wait: %x", shift(2));
    cr_expect_eq(shift(0), 0);
    cr_expect_eq(page[1].shift[SLOT + 1] & ~PAGE_SHIFT_PROGRESS, 0, "on another device");
    counters(2)->waiting = 1;
    looks(SHIFTS_BUSY_SCANS);
    cr_expect_eq(shift(2), PAGE_SHIFT_WORD(1, 3), "%x", shift(2));
    counters(1)->waiting = 0;
    looks(1);
    cr_expect_eq(shift(1), 0, "%x", shift(1));
    cr_expect_eq(shift(3), PAGE_SHIFT_WORD(1, 2), "at once: %x", shift(3));
}

/* It launches three kernels and waits for them: nothing is buffered, but always some in flight. */
Test(shifts, go_to_clients_always_having_work_in_flight)
{
    counters(1)->in_flight = counters(2)->waiting = 3;
    looks(SHIFTS_BUSY_SCANS);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "%x", shift(1));
    looks(20);
    counters(1)->in_flight = 0;
    looks(1);
    cr_expect_eq(shift(1), 0, "not while it does something else: %x", shift(1));
    counters(1)->in_flight = 3;
    looks(1);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "back at once: %x", shift(1));
}

/* One look in `every` in its own shift finds no work; in others' shifts each look finds some. */
static uint32_t looks_with_shifts(uint32_t every)
{
    uint32_t with = 0;
    for (uint32_t i = 0; i < 400; i++) {
        counters(1)->in_flight = i % (3 * every) != 0;
        looks(1);
        with += shift(1) != 0;
    }
    return with;
}

Test(shifts, are_fewer_for_clients_idle_in_their_own)
{
    counters(2)->waiting = counters(3)->waiting = 1;
    cr_expect_gt(looks_with_shifts(8), 300, "an eighth");
    cr_expect_lt(looks_with_shifts(2), 200, "half of them");
}

Test(shifts, idle_client_requalifies_like_a_new_one)
{
    counters(1)->in_flight = counters(2)->waiting = 1;
    looks(100);
    counters(1)->in_flight = 0;
    looks(2);
    counters(1)->in_flight = 1;
    looks(SHIFTS_BUSY_SCANS - 1);
    cr_expect_eq(shift(1), 0, "%x", shift(1));
    looks(1);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "%x", shift(1));
}

/* It waits for the host, and the progress guard lets more in behind that. */
Test(shifts, are_withdrawn_from_client_without_progress)
{
    counters(1)->in_flight = counters(1)->waiting = counters(2)->waiting = 1;
    stalling = 1;
    looks(10);
    cr_expect_neq(shift(1), 0, "one long kernel, perhaps");
    for (int i = 0; i < 30; i++) {
        counters(1)->in_flight++;
        counters(1)->submitted++;
        looks(1);
    }
    cr_expect_eq(shift(1), 0, "%x", shift(1));
    cr_expect_eq(shift(2), 0, "nobody else takes any: %x", shift(2));
    cr_expect(beside_slices(2) && !beside_slices(1));
    stalling = 0;
    looks(ONCE_STOOD + SHIFTS_BUSY_SCANS);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "it gets on: %x", shift(1));
    cr_expect(!beside_slices(2));
    counters(1)->in_flight = 0;
    counters(1)->waiting = 0;
    looks(1000);
    counters(1)->in_flight = 1;
    looks(SHIFTS_BUSY_SCANS);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "idle is not stalled: %x", shift(1));
}

/* Time slices of others are then in their way. */
Test(shifts, slices_are_told_once_clients_above_rest)
{
    counters(1)->waiting = counters(2)->waiting = 1;
    page[1].long_us[SLOT] = 126000;
    for (int i = 0; i < 10; i++) {
        counters(0)->cut_ins++;
        looks(5);
        cr_expect(!beside_slices(2) && PAGE_SHIFT_CLIENTS(shift(2)) == 2, "%x", shift(2));
    }
    looks(50);
    cr_expect(beside_slices(2) && !PAGE_SHIFT_CLIENTS(shift(2)), "%x", shift(2));
    atomic_store(&page[0].device[SLOT].active, 3);
    looks(SHIFTS_BUSY_SCANS);
    cr_expect(!beside_slices(2) && PAGE_SHIFT_CLIENTS(shift(2)) == 2, "%x", shift(2));
    shifts_end(peer);
    cr_expect_eq(page[2].shift[SLOT] & ~PAGE_SHIFT_PROGRESS, 0);
}

/* Each of its commands takes a second. */
Test(shifts, are_withdrawn_once_from_client_that_stalls_again_and_again)
{
    uint32_t with = 0;
    counters(1)->in_flight = counters(1)->waiting = counters(2)->waiting = 1;
    stalling = 1;
    looks(50);
    for (int i = 0; i < 5 * 50; i++) {
        counters(1)->submitted += i % 50 == 0;
        looks(1);
        with += shift(1) != 0 || !beside_slices(2);
    }
    cr_expect_eq(with, 0, "at %u looks", with);
}

/* The estimate says so before the command has stalled. */
Test(shifts, are_not_for_clients_with_commands_longer_than_the_longest)
{
    for (uint32_t i = 1; i < PEERS; i++)
        counters(i)->waiting = 1;
    page[1].long_us[SLOT] = 126000;
    looks(SHIFTS_BUSY_SCANS);
    cr_expect_eq(shift(1), 0, "%x", shift(1));
    cr_expect(!beside_slices(1));
    cr_expect_eq(shift(2), PAGE_SHIFT_WORD(0, 2), "%x", shift(2));
    cr_expect(beside_slices(2) && beside_slices(3));
    page[1].long_us[SLOT] = 124000;
    looks(SHIFTS_BUSY_SCANS);
    cr_expect_eq(PAGE_SHIFT_CLIENTS(shift(1)), 3, "%x", shift(1));
    cr_expect(!beside_slices(2));
}

/* Under a policy without shifts: the command that ran when its turn ended runs on. */
Test(shifts, work_running_on_after_its_turn_is_told_to_others)
{
    for (uint32_t i = 1; i < PEERS; i++)
        peer[i].above = 0;
    counters(1)->waiting = counters(1)->in_flight = counters(2)->waiting = 1;
    atomic_store(&page[1].device[SLOT].want[0], PAGE_BIT_POLICY);
    stalling = 1;
    looks(2);
    cr_expect(beside_slices(2) && !beside_slices(1));
    stalling = 0;
    looks(1);
    cr_expect(!beside_slices(2), "something is complete");
    stalling = 1;
    counters(1)->in_flight = 0;
    looks(2);
    cr_expect(!beside_slices(2), "all of it");
}

/* Nothing would run in the shifts of a client that has ended. */
Test(shifts, of_leaving_client_go_to_others_at_once)
{
    for (uint32_t i = 1; i < PEERS; i++)
        counters(i)->waiting = 100;
    looks(SHIFTS_BUSY_SCANS);
    cr_assert_eq(shift(3), PAGE_SHIFT_WORD(2, 3), "%x", shift(3));
    counters(3)->waiting = 0;
    peer[1].next = &peer[3];
    shifts_leave(peer, &peer[2]);
    cr_expect_eq(shift(1), PAGE_SHIFT_WORD(0, 2), "%x", shift(1));
    cr_expect_eq(shift(3), PAGE_SHIFT_WORD(1, 2), "no look at what waits: %x", shift(3));
}

Test(shifts, skip_paused_clients_and_those_with_none_above)
{
    for (uint32_t i = 1; i < PEERS; i++)
        counters(i)->waiting = 1;
    peer[1].paused = true;
    peer[2].above = 0;
    looks(SHIFTS_BUSY_SCANS);
    for (uint32_t i = 1; i < PEERS; i++)
        cr_expect_eq(shift(i), 0, "alone among those that go: %x", shift(i));
}

/* A command does not begin if it would outlast the shift: at most a 64th is lost by that. */
Test(shifts, are_64_times_as_long_as_the_longest_command)
{
    for (uint32_t i = 1; i < PEERS; i++)
        counters(i)->waiting = 1;
    page[1].long_us[SLOT] = 400;
    page[2].long_us[SLOT] = 500;
    looks(SHIFTS_BUSY_SCANS);
    for (uint32_t i = 1; i < PEERS; i++)
        cr_expect_eq(shift(i), PAGE_SHIFT_WORD(i - 1, 3) + 4 * PAGE_SHIFT_DOUBLED, "%x", shift(i));
    page[2].long_us[SLOT] = 100000;
    looks(1);
    cr_expect_eq(shift(3), PAGE_SHIFT_WORD(2, 3) + 5 * PAGE_SHIFT_DOUBLED, "at most 125 ms: %x",
                 shift(3));
    page[1].long_us[SLOT] = page[2].long_us[SLOT] = 0;
    looks(1);
    cr_expect_eq(shift(3), PAGE_SHIFT_WORD(2, 3), "%x", shift(3));
}

/* Work of a higher level holds the others, and takes nothing else of their time. */
Test(shifts, are_shared_within_one_level)
{
    for (uint32_t i = 1; i < PEERS; i++)
        counters(i)->waiting = 1;
    peer[1].level = peer[1].lowest = 1;
    looks(SHIFTS_BUSY_SCANS);
    cr_expect_eq(shift(1), 0, "%x", shift(1));
    cr_expect_eq(shift(2), PAGE_SHIFT_WORD(0, 2), "%x", shift(2));
    cr_expect_eq(shift(3), PAGE_SHIFT_WORD(1, 2), "%x", shift(3));
}

Test(shifts, beat_shows_progress_of_other_clients)
{
    looks(1);
    uint32_t beat[PEERS];
    for (uint32_t i = 0; i < PEERS; i++)
        beat[i] = page[i].shift[SLOT];
    counters(1)->submitted = 10;
    counters(1)->in_flight = 10;
    stalling = 1;
    looks(1);
    cr_expect_eq(page[2].shift[SLOT], beat[2], "nothing is complete");
    counters(1)->in_flight = 9;
    looks(1);
    cr_expect_neq(page[2].shift[SLOT], beat[2]);
    cr_expect_eq(page[1].shift[SLOT], beat[1], "its own");
    counters(0)->kernels = 1;
    looks(1);
    cr_expect_neq(page[1].shift[SLOT], beat[1], "real time's, too");
}
