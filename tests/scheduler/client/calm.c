/*
 * calm.c - a client that does nothing is left alone, and counts at once when it does something.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"

static struct place place;

static void set_up(void)
{
    place_new(&place);
    place_start(&place);
}

static void tear_down(void)
{
    cr_assert(place_free(&place));
}

TestSuite(calm, .init = set_up, .fini = tear_down);

/* On device 0x11. `idle`: the client counts its ticks and has nothing else to do. */
static void join(struct actor *a, const char *socket, uint32_t level, bool idle)
{
    actor_new(a, socket);
    actor_do(a, DO_TICKS, idle, 0);
    cr_assert_eq(actor_do(a, DO_OPEN, level, level), 0);
    cr_assert_eq(actor_do(a, DO_DEVICE, 0x11, 0), 0);
}

static int64_t ticks(struct actor *a)
{
    return actor_do(a, DO_TICKS, 0, 0);
}

/* While `busy`, which is not idle, has 300 ticks (longer on a busy machine), `a` has at most one a
 * second. */
static bool looks_seldom(struct actor *a, struct actor *busy)
{
    uint64_t began = now_ms();
    int64_t before = ticks(a), from = ticks(busy);

    WAIT_UNTIL(ticks(busy) >= from + 300);
    return ticks(a) - before <= (int64_t)(1 + (now_ms() - began) / 1000);
}

Test(calm, idle_client_ticks_at_most_once_a_second)
{
    const char *sockets[] = {place.socket, NULL}; /* with a daemon, and without */
    struct actor a, busy;

    join(&busy, place.socket, 0, false);
    for (int i = 0; i < 2; i++) {
        join(&a, sockets[i], 3, true);
        WAIT_UNTIL(actor_do(&a, DO_CALM, 0, 0));
        cr_assert(looks_seldom(&a, &busy));
        actor_kill(&a);
    }
    cr_assert_eq(actor_do(&busy, DO_CALM, 0, 0), 0);
    actor_kill(&busy);
}

/* It has no work that waits, so the length of its hold does not matter. When it has work again, it
 * is held as long as a client that has just come. */
Test(calm, held_idle_client_ticks_once_a_second_and_is_held_anew_when_it_works)
{
    enum { MAX_HOLD_MS = 4000 };
    struct actor rt, be;
    uint64_t began;

    join(&rt, place.socket, 3, false);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    actor_new(&be, place.socket);
    actor_do(&be, DO_TICKS, true, 0);
    actor_do(&be, DO_MAX_HOLD, MAX_HOLD_MS, 0);
    cr_assert_eq(actor_do(&be, DO_OPEN, 0, 0), 0);
    cr_assert_eq(actor_do(&be, DO_DEVICE, 0x11, 0), 0);
    WAIT_UNTIL(actor_do(&be, DO_CALM, 0, 0) && actor_do(&be, DO_HOLD, 0, 0) != 0);
    began = now_ms();
    cr_assert(looks_seldom(&be, &rt));
    WAIT_UNTIL(now_ms() - began > MAX_HOLD_MS);
    cr_assert_neq(actor_do(&be, DO_CALM, 0, 0), 0);
    cr_assert_neq(actor_do(&be, DO_HOLD, 0, 0), 0);
    began = now_ms();
    actor_do(&be, DO_ACTIVE, 0, 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    cr_assert_gt(now_ms() - began, MAX_HOLD_MS / 2, "its hold began when it was calm");
    actor_kill(&rt);
    actor_kill(&be);
}

/* Whatever begins, the client's beat is the present time when the call has returned. */
Test(calm, ends_before_activity_call_returns)
{
    struct actor rt, be;

    join(&rt, place.socket, 3, true);
    join(&be, place.socket, 0, true);
    for (int i = 0; i < 3; i++) {
        WAIT_UNTIL(actor_do(&rt, DO_CALM, 0, 0) && actor_do(&be, DO_CALM, 0, 0));
        int64_t before = ticks(&rt);

        actor_do(&rt, DO_ACTIVE, 0, 3);
        cr_assert_eq(actor_do(&rt, DO_CALM, 0, 0), 0);
        cr_assert_neq(actor_do(&be, DO_HOLD, 0, 0), 0, "one that is calm is held as others are");
        WAIT_UNTIL(ticks(&rt) >= before + 10);
        cr_assert_eq(actor_do(&rt, DO_CALM, 0, 0), 0);
        actor_do(&rt, DO_IDLE, 0, 3);
        cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    }
    actor_do(&rt, DO_WAIT_BEGIN, 0, 3);
    WAIT_UNTIL(!actor_do(&rt, DO_CALM, 0, 0));
    actor_kill(&rt);
    actor_kill(&be);
}

/* The daemon need not wait until a beat is seconds old, although the last one was far ahead. */
Test(calm, client_stopped_just_after_calm_loses_its_hold)
{
    struct actor rt, be;

    join(&rt, place.socket, 3, true);
    join(&be, place.socket, 0, true);
    WAIT_UNTIL(actor_do(&rt, DO_CALM, 0, 0));
    actor_do(&rt, DO_ACTIVE, 0, 3);
    kill(rt.pid, SIGSTOP);
    uint64_t stopped = now_ms();

    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    cr_log_info("the hold of a stopped client opened after %d ms", (int)(now_ms() - stopped));
    kill(rt.pid, SIGCONT);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&rt);
    actor_kill(&be);
}

/* The link's thread may sleep on while the client's waits in the driver, so the daemon asks. */
Test(calm, daemon_asks_for_late_beat)
{
    int fd = bare_connect(place.socket, (uid_t)-1);
    struct actor be;

    bare_hello(fd, 3);
    bare_device(fd, 0, 0x11);
    cr_assert_eq(bare_wait(fd, MESSAGE_BIT, NULL), 0);
    join(&be, place.socket, 0, false);
    cr_assert_eq(bare_wait(fd, MESSAGE_BEAT, NULL), 0);
    close(fd);
    actor_kill(&be);
}
