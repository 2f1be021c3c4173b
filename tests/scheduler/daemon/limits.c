/*
 * limits.c - descriptors, memory and socket buffers run out, in a client and in the daemon: no
 * process ends, waits or stays held, and all is as before once there is room again.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
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

TestSuite(limits, .init = set_up, .fini = tear_down);

/* With a descriptor table of its own, or with the program's. */
static void begin(struct actor *a, bool own)
{
    actor_new(a, place.socket);
    if (!own && actor_do(a, DO_NO_TABLE, 0, 0) != 0)
        cr_skip_test("this kernel has no seccomp filters");
}

static void register_on(struct actor *a, int64_t level)
{
    cr_assert_eq(actor_do(a, DO_OPEN, level, level), 0);
    WAIT_UNTIL(actor_do(a, DO_CONNECTED, 0, 0) == 1);
    cr_assert_eq(actor_do(a, DO_DEVICE, 1, 0), 0);
}

static void join(struct actor *a, int64_t level)
{
    begin(a, true);
    register_on(a, level);
}

/* Real-time activity of `rt` holds `be`, and its end opens the hold. */
static void expect_holds(struct actor *rt, struct actor *be)
{
    WAIT_UNTIL(actor_do(be, DO_ABOVE, 0, 0) == 1);
    actor_do(rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) != 0);
    actor_do(rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) == 0);
}

/* Sets the daemon's soft limit; returns the old one. */
static rlim_t daemon_limit(int what, rlim_t value)
{
    enum __rlimit_resource resource = (enum __rlimit_resource)what;
    struct rlimit limit;
    rlim_t old;

    cr_assert_eq(prlimit(place.daemon, resource, NULL, &limit), 0);
    old = limit.rlim_cur;
    limit.rlim_cur = value;
    cr_assert_eq(prlimit(place.daemon, resource, &limit, NULL), 0);
    return old;
}

static rlim_t daemon_memory(void)
{
    return place_proc(&place, "statm", 0) * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* There is no descriptor for the socket, or for the page that comes by it. */
Test(limits, client_without_descriptors_registers_once_it_has_some)
{
    for (int64_t i = 0; i < 4; i++) {
        int64_t own = i / 2, spare = i % 2;
        struct actor a;

        begin(&a, own);
        actor_do(&a, own ? DO_LIMIT_OWN : DO_LIMIT_FILES, spare, 0);
        cr_assert_eq(actor_do(&a, DO_OPEN, 3, 3), 0);
        cr_assert_eq(actor_do(&a, DO_CONNECTED, 0, 0), 0);
        cr_assert_eq(actor_do(&a, DO_DEVICE, 1, 0), 0);
        actor_do(&a, DO_ACTIVE, 0, 3);
        actor_do(&a, DO_IDLE, 0, 3);
        actor_do(&a, DO_LIMIT_FILES, -1, 0);
        WAIT_UNTIL(actor_do(&a, DO_CONNECTED, 0, 0) == 1);
        actor_kill(&a);
    }
}

/* It may open two, which the pipe of its bell takes. */
Test(limits, client_with_two_descriptors_opens_unregistered)
{
    struct actor a;

    begin(&a, 1);
    actor_do(&a, DO_LIMIT_OWN, -1, 0);
    cr_assert_eq(actor_do(&a, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(&a, DO_CONNECTED, 0, 0), 0);
    actor_kill(&a);
}

Test(limits, owner_without_descriptors_holds_again_once_it_has_some)
{
    for (int64_t own = 0; own <= 1; own++) {
        struct actor rt, be;

        begin(&rt, own);
        register_on(&rt, 3);
        if (own)
            actor_do(&rt, DO_LIMIT_OWN, 1, 0); /* its socket */
        else
            actor_do(&rt, DO_LIMIT_FILES, 0, 0);
        join(&be, 0);
        WAIT_UNTIL(actor_do(&rt, DO_CONNECTED, 0, 0) == 0);
        actor_do(&rt, DO_ACTIVE, 0, 3);
        cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
        actor_do(&rt, DO_IDLE, 0, 3);
        actor_do(&rt, DO_LIMIT_FILES, -1, 0);
        expect_holds(&rt, &be);
        actor_kill(&rt);
        actor_kill(&be);
    }
}

Test(limits, client_registers_once_it_has_memory)
{
    struct actor rt, be, other;

    actor_new(&other, place.socket);
    actor_do(&other, DO_LIMIT_MEMORY, 0, 0);
    cr_assert_lt(actor_do(&other, DO_OPEN, 3, 3), 0);
    actor_do(&other, DO_ACTIVE, 0, 3);
    actor_do(&other, DO_LIMIT_MEMORY, -1, 0);
    register_on(&other, 3);
    join(&be, 0);
    expect_holds(&other, &be);
    actor_kill(&other);
    actor_kill(&be);

    join(&rt, 3);
    actor_do(&rt, DO_LIMIT_MEMORY, 0, 0);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&rt, DO_CONNECTED, 0, 0) == 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    actor_do(&rt, DO_IDLE, 0, 3);
    actor_do(&rt, DO_LIMIT_MEMORY, -1, 0);
    expect_holds(&rt, &be);
    actor_kill(&rt);
    actor_kill(&be);
}

/* Clients that are there go on. One more is refused, and registers later. */
static void expect_survives(int what, rlim_t low)
{
    struct actor rt, be, late;
    rlim_t old;

    join(&rt, 3);
    join(&be, 0);
    old = daemon_limit(what, low);
    for (int i = 0; i < 3; i++) {
        actor_new(&late, place.socket);
        cr_assert_eq(actor_do(&late, DO_OPEN, 0, 0), 0);
        cr_assert_eq(actor_do(&late, DO_CONNECTED, 0, 0), 0);
        expect_holds(&rt, &be);
        if (i < 2)
            actor_kill(&late);
    }
    daemon_limit(what, old);
    WAIT_UNTIL(actor_do(&late, DO_CONNECTED, 0, 0) == 1);
    actor_kill(&late);
    actor_kill(&rt);
    actor_kill(&be);
    cr_assert_eq(place_stop(&place), 0);
}

Test(limits, daemon_without_descriptors_keeps_its_clients)
{
    expect_survives(RLIMIT_NOFILE, 3);
}

Test(limits, daemon_without_memory_keeps_its_clients)
{
    expect_survives(RLIMIT_AS, daemon_memory());
}

Test(limits, stopped_daemon_blocks_no_client)
{
    struct actor rt, be;

    join(&rt, 3);
    join(&be, 0);
    expect_holds(&rt, &be);
    /* Not while the daemon counts `be` as new: `rt` may have joined it before its sendmsg ends. */
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    kill(place.daemon, SIGSTOP);
    expect_holds(&rt, &be); /* no path of a client goes through the daemon */
    kill(place.daemon, SIGCONT);
    expect_holds(&rt, &be);
    actor_kill(&rt);
    actor_kill(&be);
}
