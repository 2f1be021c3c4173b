/* pad_guard.c - when best effort beside real time has to stop. */
#include "shim/pace/pad.h"

#include <criterion/criterion.h>

enum { LEARNED = 100000, SLOW = 104000, FINE = 102500 };
#define SECOND 1000000000ull

/* A window of kernels, `slow` of them slow. True: padding stopped. */
static bool window(struct pad_guard *g, uint32_t slow, uint64_t now)
{
    bool stopped = false;
    for (uint32_t i = 0; i < PAD_GUARD_SAMPLES; i++)
        stopped |= pad_guard_add(g, i < slow ? SLOW : FINE, LEARNED, now);
    return stopped;
}

Test(pad_guard, tenth_of_slow_kernels_keeps_padding)
{
    struct pad_guard g = {0};
    cr_expect_not(window(&g, PAD_GUARD_SLOW_MOST, SECOND));
    cr_expect_leq(g.until_ns, SECOND);
}

Test(pad_guard, more_than_tenth_slow_stops_padding_for_a_second)
{
    struct pad_guard g = {0};
    cr_expect(window(&g, PAD_GUARD_SLOW_MOST + 1, 10 * SECOND));
    cr_expect_gt(g.until_ns, 11 * SECOND - 1);
    cr_expect_leq(g.until_ns, 11 * SECOND);
}

Test(pad_guard, repeated_stop_doubles_pause_up_to_64_seconds)
{
    struct pad_guard g = {0};
    uint64_t now = SECOND, pause = SECOND;
    for (int i = 0; i < 10; i++) {
        cr_expect(window(&g, PAD_GUARD_SAMPLES, now));
        cr_expect_eq(g.until_ns, now + pause);
        now = g.until_ns;
        pause = pause < 64 * SECOND ? pause * 2 : pause;
    }
    cr_expect_not(window(&g, 0, now));
    cr_expect(window(&g, PAD_GUARD_SAMPLES, now));
    cr_expect_eq(g.until_ns, now + SECOND, "all was well in between");
}

Test(pad_guard, samples_during_pause_are_ignored)
{
    struct pad_guard g = {0};
    cr_expect(window(&g, PAD_GUARD_SAMPLES, SECOND));
    cr_expect_not(window(&g, PAD_GUARD_SAMPLES, SECOND + 1));
    cr_expect_eq(g.until_ns, 2 * SECOND);
}

Test(pad_guard, difference_below_event_precision_is_not_slow)
{
    struct pad_guard g = {0};
    for (int i = 0; i < PAD_GUARD_SAMPLES; i++)
        cr_expect_not(pad_guard_add(&g, 5900, 5000, SECOND));
}
