/*
 * hold_limit.c - the longest single hold, on a clock of the test's own.
 */
#include <criterion/criterion.h>
#include <pthread.h>

#include "scheduler/client/hold_limit.h"

enum { MS = 1000000 };

static struct cutin_page *page;
static struct hold_limit b = {.max_ns = 50 * MS};

static void set_up(void)
{
    page = page_new();
}

static void tear_down(void)
{
    page_unmap(page);
}

TestSuite(bound, .init = set_up, .fini = tear_down);

Test(bound, hold_opens_for_a_tenth_after_max_time)
{
    uint64_t t = 1000 * MS, open = 0;

    page_write_bit(&page->device[1], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    for (int i = 0; i < 50; i++)
        cr_assert(hold_limit_tick(&b, page, t + (uint64_t)i * MS) && page->device[1].hold[0] == 1);
    for (int i = 50; i < 60; i++) {
        hold_limit_tick(&b, page, t + (uint64_t)i * MS);
        open += page->device[1].hold[0] == 0;
    }
    cr_assert_eq(open, 5, "a tenth of the bound");
    cr_assert_eq(page->device[1].hold[0], 1);
    cr_assert_eq(page->device[1].want[0], 1);
}

Test(bound, hold_time_counts_from_first_waiting_work)
{
    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    hold_limit_tick(&b, page, 1 * MS);
    hold_limit_rebase(&b);
    for (uint64_t t = 40; t < 90; t++) {
        cr_assert(hold_limit_tick(&b, page, t * MS));
        cr_assert_eq(page->device[0].hold[0], 1);
    }
    cr_assert_not(hold_limit_is_open(&b));
    hold_limit_tick(&b, page, 90 * MS);
    cr_assert_eq(page->device[0].hold[0], 0);
    cr_assert(hold_limit_is_open(&b));
}

Test(bound, administrator_pause_is_not_bounded)
{
    page_write_bit(&page->device[0], PAGE_BIT_PAUSED, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    for (uint64_t t = 1; t < 200; t++) {
        hold_limit_tick(&b, page, t * MS);
        cr_assert(page->device[0].hold[0] & PAGE_BIT_PAUSED);
    }
}

Test(bound, hold_ended_in_open_window_stays_open)
{
    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    hold_limit_tick(&b, page, 1 * MS);
    hold_limit_tick(&b, page, 52 * MS);
    cr_assert_eq(page->device[0].hold[0], 0);
    page_write_bit(&page->device[0], 1, 0, PAGE_WORDS, 5);
    cr_assert_not(hold_limit_tick(&b, page, 54 * MS));
    hold_limit_tick(&b, page, 100 * MS);
    hold_limit_tick(&b, page, 200 * MS);
    cr_assert_eq(page->device[0].hold[0], 0);
}

/* Gates lift bits so, for longer than until the bound's next look. */
Test(bound, lifted_bit_stays_clear_until_returned)
{
    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    hold_limit_tick(&b, page, 1 * MS);
    page->device[0].hold[0] = 0;
    b.lifted = true;
    hold_limit_tick(&b, page, 2 * MS);
    cr_expect_eq(page->device[0].hold[0], 0);
    b.lifted = false;
    hold_limit_restore(&page->device[0], 0, 1);
    hold_limit_tick(&b, page, 3 * MS);
    cr_expect_eq(page->device[0].hold[0], 1);
}

Test(bound, zero_never_opens_hold)
{
    struct hold_limit none = {0};

    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    for (uint64_t t = 1; t < 100000; t *= 2)
        cr_assert_not(hold_limit_tick(&none, page, t * MS));
    cr_assert_eq(page->device[0].hold[0], 1);
}

static void *owner(void *bit)
{
    for (int i = 0; i < 20000; i++)
        page_write_bit(&page->device[0], (uint32_t)(uintptr_t)bit, i % 2 ? 0 : PAGE_BOTH(0x3),
                       PAGE_WORDS, 5);
    return NULL;
}

/* The bound writes to bits that are not its own: after any race, one more look puts all right. */
Test(bound, races_with_owners_leave_no_bits)
{
    struct hold_limit quick = {.max_ns = 2 * MS};
    pthread_t owners[2];
    uint64_t t = 0;

    for (uintptr_t i = 0; i < 2; i++)
        pthread_create(&owners[i], NULL, owner, (void *)(uintptr_t)(1u << i));
    for (int i = 0; i < 20000; i++)
        hold_limit_tick(&quick, page, t += MS / 2);
    for (int i = 0; i < 2; i++)
        pthread_join(owners[i], NULL);
    hold_limit_tick(&quick, page, t += 100 * MS);
    hold_limit_tick(&quick, page, t += 100 * MS);
    cr_assert_eq(page->device[0].want[0], 0);
    cr_assert_eq(page->device[0].hold[0], 0);
    cr_assert_eq(page->device[0].hold[1], 0);
}

/* A hold without end, for `ms` milliseconds. While it is open the device works `tenths` tenths of
 * the time. Returns for how many milliseconds it was open. */
static uint32_t share_run(struct hold_limit *share, uint32_t ms, uint32_t tenths)
{
    static uint64_t t = MS;
    uint32_t open = 0;

    for (uint32_t i = 0; i < ms; i++, t += MS) {
        hold_limit_tick(share, page, t);
        if (share->share[0].open == 0)
            continue;
        cr_assert_eq(page->device[0].hold[0], 0);
        page->device[0].counters.gpu_ns += MS / 10 * tenths;
        open++;
    }
    return open;
}

Test(bound, min_share_is_a_fraction_of_gpu_time)
{
    struct hold_limit share = {.share_percent = 20};
    uint32_t open;

    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    cr_assert_eq(share_run(&share, 1000, 10), 0, "nothing waits");
    page->device[0].counters.waiting = 1;
    open = share_run(&share, 2000, 10);
    cr_assert(open >= 450 && open <= 550, "%u", open);
    open = share_run(&share, 2000, 5);
    cr_assert(open >= 900 && open <= 1100, "twice as long, where somebody works beside it: %u",
              open);
    page->shift[0] = PAGE_SHIFT_WORD(0, 2) + 3 * PAGE_SHIFT_DOUBLED;
    share_run(&share, 200, 10);
    open = share_run(&share, 2000, 10);
    cr_assert(open >= 225 && open <= 275, "half of it for each of two: %u", open);
}

Test(bound, unused_min_share_is_not_saved)
{
    struct hold_limit share = {.share_percent = 20};
    uint32_t open;

    page->device[0].counters.waiting = 1;
    share_run(&share, 1000, 10);
    page_write_bit(&page->device[0], 1, PAGE_BOTH(0x1), PAGE_WORDS, 5);
    open = share_run(&share, 100, 10);
    cr_assert(open >= 20 && open <= 40, "%u", open);
    page->device[0].counters.gpu_ns += 1000ull * MS;
    cr_assert_eq(share_run(&share, 100, 10), 0, "nor does what ran before count for long");
    cr_assert_gt(share_run(&share, 200, 10), 20);
}
