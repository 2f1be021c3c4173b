/*
 * waker.c - what is due is looked at when it is due, and not earlier.
 */
#include <criterion/criterion.h>
#include <time.h>

#include "common/clock.h"
#include "scheduler/client/waker.h"

static _Atomic uint64_t due;
static _Atomic uint32_t ends;

static uint64_t look(void *user, uint64_t now)
{
    uint64_t at = atomic_load(&due);

    if (at && at <= now && atomic_compare_exchange_strong(&due, &at, 0)) {
        atomic_fetch_add(&ends, 1);
        at = 0;
    }
    return at;
}

static void make_due(struct waker *w, uint64_t at)
{
    atomic_store(&due, at);
    waker_arm(w, at);
}

static void until_ends(uint32_t n)
{
    for (int ms = 0; atomic_load(&ends) < n && ms < 20000; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    cr_assert_eq(atomic_load(&ends), n);
}

Test(waker, looks_when_due_and_never_early)
{
    static struct waker w;

    waker_arm(&w, 1); /* there is no thread: nothing happens */
    cr_assert_eq(waker_start(&w, look, NULL), 0);
    cr_assert_eq(waker_start(&w, look, NULL), 0);
    for (uint32_t i = 0; i < 200; i++) {
        uint64_t at = clock_ns() + i % 5 * 100000;

        make_due(&w, at);
        until_ends(i + 1);
        cr_assert_geq(clock_ns(), at);
    }
    /* One that is due before the one for which the thread sleeps. */
    make_due(&w, clock_ns() + 3600ull * 1000000000u);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    make_due(&w, clock_ns() + 1000000);
    until_ends(201);
    waker_stop(&w);
    waker_stop(&w);
    make_due(&w, clock_ns());
    cr_assert_eq(atomic_load(&ends), 201);
}

Test(waker, restarts_after_stop)
{
    static struct waker w;

    for (uint32_t i = 0; i < 20; i++) {
        cr_assert_eq(waker_start(&w, look, NULL), 0);
        make_due(&w, clock_ns());
        until_ends(i + 1);
        waker_stop(&w);
    }
}
