/*
 * linger.c - when best effort is let in, by the pauses seen so far.
 */
#include <criterion/criterion.h>
#include <math.h>

#include "scheduler/client/linger.h"

#define US     1000ull
#define MS     1000000ull
#define KERNEL (200 * US)

static struct linger l;
static struct linger_view v;

/* Requests of `inside` short pauses each, and a long one behind. */
static void requests(int n, int inside, uint64_t within_ns, uint64_t between_ns)
{
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < inside; k++)
            linger_add(&l, within_ns + (uint64_t)((i * 7 + k * 13) % 20) * within_ns / 100);
        linger_add(&l, between_ns + (uint64_t)(i * 37 % 50) * between_ns / 1000);
    }
    linger_look(&l, KERNEL, &v);
}

Test(linger, nothing_is_done_before_anything_is_known)
{
    requests(3, 5, 50 * US, 10 * MS);
    cr_assert_not(linger_holds(&v, 0));
    cr_assert_eq(linger_change(&v, 0), 0);
}

Test(linger, best_effort_stays_out_of_requests_and_comes_in_between)
{
    uint64_t out;

    requests(60, 5, 50 * US, 10 * MS);
    cr_assert(linger_holds(&v, 0));
    out = linger_change(&v, 0);
    cr_assert(out >= 50 * US && out < 100 * US, "%llu ns", (unsigned long long)out);
    cr_assert_not(linger_holds(&v, out));
    cr_assert_not(linger_holds(&v, 2 * MS));
    cr_assert_not(linger_holds(&v, 8 * MS));
}

Test(linger, it_is_held_again_before_a_regular_request)
{
    uint64_t out, in;

    requests(60, 5, 50 * US, 10 * MS);
    out = linger_change(&v, 0);
    in = linger_change(&v, out);
    cr_assert(in > 9 * MS && in < 10 * MS, "%llu ns", (unsigned long long)in);
    cr_assert(linger_holds(&v, 10 * MS));
    cr_assert_not(linger_holds(&v, 20 * MS), "it did not come: wait no longer");
}

/* The time until the next one says nothing: 10 ms on average, however long it has been. */
Test(linger, arrivals_without_memory_hold_nobody)
{
    for (int i = 1; i <= 1000; i++)
        linger_add(&l, (uint64_t)(-log(i / 1001.0) * 10e6));
    linger_look(&l, KERNEL, &v);
    for (uint64_t at = 0; at < 20 * MS; at += 500 * US)
        cr_assert_not(linger_holds(&v, at), "at %llu", (unsigned long long)at);
}

Test(linger, a_longer_kernel_is_kept_out_of_more)
{
    requests(60, 1, 50 * US, 2 * MS);
    linger_look(&l, 5 * MS, &v);
    cr_assert(linger_holds(&v, 0));
    cr_assert(linger_holds(&v, 1 * MS));
    linger_look(&l, 10 * US, &v);
    cr_assert_not(linger_holds(&v, 1 * MS));
}

Test(linger, what_is_long_past_is_forgotten)
{
    requests(170, 5, 50 * US, 10 * MS);
    cr_assert(linger_holds(&v, 0));
    for (int i = 0; i < 6000; i++)
        linger_add(&l, 10 * MS);
    linger_look(&l, KERNEL, &v);
    cr_assert_not(linger_holds(&v, 0));
    cr_assert_leq(l.pauses, LINGER_MOST + 1);
}

Test(linger, any_pause_has_a_place)
{
    for (int i = 0; i < 64; i++)
        linger_add(&l, UINT64_C(1) << i);
    linger_add(&l, 0);
    linger_add(&l, UINT64_MAX);
    linger_look(&l, KERNEL, &v);
    cr_assert_eq((int)v.longer[0], 66);
    for (int i = 0; i < 64; i++)
        linger_holds(&v, UINT64_C(1) << i);
}
