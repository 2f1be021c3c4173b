/*
 * spread.c - what the latest times of a kernel say about the next one.
 */
#include "shim/learn/spread.h"

#include <criterion/criterion.h>

static struct spread spread;
static uint32_t mean, upper, doubt;

/* Adds `n` times that take the values `us` in turn, beginning at `from`. */
static void add(const uint32_t us[], uint32_t turns, uint32_t from, uint32_t n, bool exact)
{
    for (uint32_t i = from; i < from + n; i++)
        spread_add(&spread, us[i % turns] * 1000, exact ? SPREAD_IS_EXACT : SPREAD_AT_MOST);
    spread_read(&spread, &mean, &upper, &doubt);
}

static void is_about(uint32_t got_ns, uint32_t us)
{
    cr_assert_leq(got_ns, us * 1000);
    cr_assert_geq(got_ns, us * 1000 - us * 1000 / 1024 - 1);
}

Test(spread, no_times_give_zero)
{
    spread_read(&spread, &mean, &upper, &doubt);
    cr_assert_eq(mean, 0);
    cr_assert_eq(upper, 0);
}

Test(spread, equal_times_give_that_time)
{
    const uint32_t lengths[] = {1, 3, 25, 400, 5000, 3999999};

    for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++) {
        spread = (struct spread){0};
        add(&lengths[k], 1, 0, 1, true);
        is_about(upper, lengths[k]);
        add(&lengths[k], 1, 0, 100, true);
        is_about(mean, lengths[k]);
        is_about(upper, lengths[k]);
    }
}

/* A quarter of the times is long, wherever the turns begin. */
Test(spread, alternating_times_give_longest_as_upper)
{
    static const uint32_t turns[][4] = {
        {25, 400, 25, 400}, {20, 400, 400, 400}, {20, 2000, 20, 20}, {500, 20, 1000, 50}};

    for (unsigned k = 0; k < 4; k++)
        for (uint32_t from = 0; from < 4; from++) {
            uint32_t most = 0;

            for (int i = 0; i < 4; i++)
                most = turns[k][i] > most ? turns[k][i] : most;
            spread = (struct spread){0};
            for (uint32_t n = 4; n < 40; n += 4) {
                add(turns[k], 4, from, 4, true);
                is_about(upper, most);
                cr_assert_lt(mean, upper);
            }
        }
}

/* 400 us meet the end of a slice of 2 ms one time in five, and then last for three other slices. */
Test(spread, rare_long_times_are_left_out)
{
    static const uint32_t lengths[] = {400, 400, 400, 6400, 400};
    const uint32_t rare[] = {25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 25, 2025, 25, 25, 25};

    add(lengths, 5, 0, 100, true);
    is_about(upper, 400);
    is_about(mean, 400);
    spread = (struct spread){0};
    add(rare, 16, 0, 100, true);
    is_about(upper, 25);
}

Test(spread, upper_follows_changed_kernel)
{
    const uint32_t before = 20, after = 900;

    add(&before, 1, 0, 100, true);
    add(&after, 1, 0, 4, true);
    is_about(upper, 900);
    add(&before, 1, 0, SPREAD_TIMES, true);
    is_about(upper, 20);
}

/* Another process kept each of them from the device: the shortest says most. */
Test(spread, inexact_times_give_shortest_until_exact_one)
{
    static const uint32_t lengths[] = {700, 310, 2500, 900};
    const uint32_t exact = 250;

    add(lengths, 4, 0, 8, false);
    is_about(mean, 310);
    is_about(upper, 310);
    add(&exact, 1, 0, 1, true);
    is_about(upper, 250);
    add(lengths, 4, 0, 100, false);
    is_about(upper, 250);
}

/* Slices of other processes, too, would make one time of four half as long again. */
Test(spread, sure_long_time_confirms_other_long_times)
{
    const uint32_t turns[] = {500, 900, 500, 500};

    spread = (struct spread){0};
    add(turns, 4, 0, 24, true);
    is_about(upper, 500);
    spread_add(&spread, 900 * 1000, SPREAD_IS_SURE);
    add(turns, 4, 0, 8, true);
    is_about(upper, 900);
    add(turns, 4, 0, 24, true);
    is_about(upper, 500);
}

static void add_beside_slices(const uint32_t us[], uint32_t turns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        spread_add(&spread, us[i % turns] * 1000, SPREAD_BESIDE_SLICES);
    spread_read(&spread, &mean, &upper, &doubt);
}

/* More often than by chance, as a turn of the other process ends each time. */
Test(spread, times_with_slices_of_others_are_left_out)
{
    const uint32_t waited = 2100, turns[] = {100, 2140, 100, 100, 100, 100};

    spread = (struct spread){0};
    add(&waited, 1, 0, 24, true);
    add_beside_slices(turns, 6, 1);
    is_about(upper, 100);
    add_beside_slices(turns, 6, 60);
    is_about(upper, 100);
    is_about(mean, 100);
}

Test(spread, slices_of_others_hide_no_varying_kernels)
{
    const uint32_t near[] = {100, 1000}, far[] = {100, 3000};

    spread = (struct spread){0};
    add_beside_slices(near, 2, 24);
    is_about(upper, 1000);
    spread = (struct spread){0};
    add_beside_slices(far, 2, 48);
    is_about(upper, 3000);
}

/* It is the shortest of sixty. */
Test(spread, shortest_inexact_time_is_kept_then_forgotten)
{
    const uint32_t free = 3, waited = 200;

    spread = (struct spread){0};
    add(&free, 1, 0, 1, false);
    add(&waited, 1, 0, 50, false);
    is_about(upper, 3);
    add(&waited, 1, 0, 16, false);
    is_about(upper, 200);
}

/* A few times that vary say little about how long many kernels will take. */
Test(spread, doubt_of_varying_times_shrinks_with_more)
{
    const uint32_t same[] = {400}, turns[] = {25, 400};
    uint32_t few;

    spread = (struct spread){0};
    add(same, 1, 0, 0, true);
    cr_assert_eq(doubt, 0);
    add(same, 1, 0, 24, true);
    cr_assert_eq(doubt, 0);
    spread = (struct spread){0};
    add(turns, 2, 0, 4, true);
    few = doubt;
    add(turns, 2, 0, 20, true);
    cr_assert_leq(doubt, few / 2);
    cr_assert_geq(doubt, (400000u - 25000) / 2 * 2 / 5, "two standard errors");
}
