/*
 * client.c - client processes with and without a daemon, and every way in which either can end.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/text.h"
#include "tests/scheduler/actor.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/query.h"
#include "scheduler/wire/page.h"

static struct place place;

static void set_up(void)
{
    place_new(&place);
}

static void tear_down(void)
{
    cr_assert(place_free(&place));
}

TestSuite(client, .init = set_up, .fini = tear_down);

static void register_on(struct actor *a, uint32_t level, uint32_t lowest)
{
    cr_assert_eq(actor_do(a, DO_OPEN, level, lowest), 0);
    WAIT_UNTIL(actor_do(a, DO_CONNECTED, 0, 0) == 1);
    cr_assert_eq(actor_do(a, DO_DEVICE, 0x11, 0), 0);
}

/* A registered client on device 0x11, with streams of these levels. */
static void join_levels(struct actor *a, uint32_t level, uint32_t lowest)
{
    actor_new(a, place.socket);
    register_on(a, level, lowest);
}

static void join(struct actor *a, uint32_t level)
{
    join_levels(a, level, level);
}

static void order_level(const struct actor *a, uint32_t level)
{
    struct control_target target = {.pid = a->pid};

    cr_assert_eq(control_order(place.socket, target, CONTROL_LEVEL, level), 0);
}

/* Both are registered, and the daemon has told the upper one about the lower one. */
static void join_two(struct actor *rt, struct actor *be)
{
    place_start(&place);
    join(rt, 3);
    join(be, 0);
    WAIT_UNTIL(actor_do(be, DO_ABOVE, 0, 0) == 1);
}

/* For 100 ticks of 7.5 ms or more. Its link tries again after 50 ms, then after twice as long each
 * time. */
static void let_it_try(struct actor *a)
{
    WAIT_UNTIL(actor_do(a, DO_TICKS, 0, 0) >= 100);
}

/* It is held again and again, each time for a short while. */
static void holds_are_short(struct actor *be)
{
    for (int i = 0; i < 3; i++) {
        WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) != 0);
        WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) == 0);
    }
}

Test(client, streams_of_one_process_hold_each_other_without_daemon)
{
    struct actor a;

    actor_new(&a, NULL);
    cr_assert_eq(actor_do(&a, DO_OPEN, 3, 0), 0);
    cr_assert_eq(actor_do(&a, DO_DEVICE, 1, 0), 0);
    cr_assert_eq(actor_do(&a, DO_DEVICE, 2, 0), 1);
    cr_assert_eq(actor_do(&a, DO_DEVICE, 1, 0), 0, "known by its uuid");
    cr_assert_eq(actor_do(&a, DO_ACTIVE, 1, 3), 0);
    cr_assert_eq(actor_do(&a, DO_HOLD, 1, 0), PAGE_BIT_SELF);
    cr_assert_eq(actor_do(&a, DO_HOLD, 1, 3), 0);
    cr_assert_eq(actor_do(&a, DO_HOLD, 0, 0), 0, "another device");
    cr_assert_eq(actor_do(&a, DO_IDLE, 1, 3), 0);
    cr_assert_eq(actor_do(&a, DO_HOLD, 1, 0), 0);
    cr_assert_eq(actor_do(&a, DO_LOGGED, 0, 0), -1, "none was asked for: nothing to say");
    actor_kill(&a);
}

Test(client, a_seventeenth_device_is_not_scheduled)
{
    struct actor a;

    actor_new(&a, NULL);
    cr_assert_eq(actor_do(&a, DO_OPEN, 3, 0), 0);
    for (int i = 0; i < 16; i++)
        cr_assert_eq(actor_do(&a, DO_DEVICE, i + 1, 0), i);
    cr_assert_eq(actor_do(&a, DO_DEVICE, 99, 0), -ENOSPC);
    actor_do(&a, DO_ACTIVE, -1, 3);
    actor_do(&a, DO_ACTIVE, 16, 3);
    actor_do(&a, DO_ACTIVE, 0, 4);
    cr_assert_eq(actor_do(&a, DO_HOLD, 0, 0), 0);
    actor_kill(&a);
}

Test(client, above_word_counts_streams_above_the_lowest_level)
{
    struct actor a;

    actor_new(&a, NULL);
    cr_assert_eq(actor_do(&a, DO_OPEN, 3, 0), 0);
    actor_do(&a, DO_NOTE, 3, 0);
    cr_assert_eq(actor_do(&a, DO_ABOVE, 0, 0), 0, "all at one level");
    actor_do(&a, DO_NOTE, 0, 0);
    cr_assert_eq(actor_do(&a, DO_ABOVE, 0, 0), 1);
    actor_do(&a, DO_NOTE, 2, 0);
    cr_assert_eq(actor_do(&a, DO_ABOVE, 0, 0), 2);
    actor_do(&a, DO_FORGET, 0, 0);
    cr_assert_eq(actor_do(&a, DO_ABOVE, 0, 0), 1);
    actor_do(&a, DO_FORGET, 3, 0);
    actor_do(&a, DO_FORGET, 3, 0); /* one too many */
    cr_assert_eq(actor_do(&a, DO_ABOVE, 0, 0), 0);
    actor_kill(&a);
}

Test(client, warns_once_of_missing_daemon_and_registers_later)
{
    struct actor rt, be;

    actor_new(&rt, place.socket);
    actor_do(&rt, DO_TICKS, 0, 0);
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(&rt, DO_DEVICE, 0x11, 0), 0);
    let_it_try(&rt);
    cr_assert_eq(actor_do(&rt, DO_CONNECTED, 0, 0), 0);
    cr_assert_eq(actor_do(&rt, DO_LOGGED, 0, 0), LOG_WARN);
    cr_assert_eq(actor_do(&rt, DO_TOLD, 0, 0), 1, "%s", rt.said);
    cr_assert(strstr(rt.said, "no scheduler at"), "%s", rt.said);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    place_start(&place);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    WAIT_UNTIL(actor_do(&rt, DO_TOLD, 0, 0) == 2);
    cr_assert(strstr(rt.said, "registered with"), "%s", rt.said);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, warns_once_of_overlong_socket_path)
{
    static char path[300];
    struct actor a;

    for (size_t i = 0; i < sizeof(path) - 1; i++)
        path[i] = 'x';
    actor_new(&a, path);
    actor_do(&a, DO_TICKS, 0, 0);
    cr_assert_eq(actor_do(&a, DO_OPEN, 3, 0), 0);
    cr_assert_eq(actor_do(&a, DO_DEVICE, 1, 0), 0);
    let_it_try(&a);
    cr_assert_eq(actor_do(&a, DO_LOGGED, 0, 0), LOG_WARN);
    cr_assert_eq(actor_do(&a, DO_TOLD, 0, 0), 1, "%s", a.said);
    cr_assert(strstr(a.said, "is too long"), "%s", a.said);
    actor_do(&a, DO_ACTIVE, 0, 3);
    cr_assert_eq(actor_do(&a, DO_HOLD, 0, 0), PAGE_BIT_SELF);
    actor_kill(&a);
}

Test(client, activity_holds_only_lower_levels_on_same_device)
{
    struct actor rt, be, other;

    join_two(&rt, &be);
    actor_new(&other, place.socket);
    cr_assert_eq(actor_do(&other, DO_OPEN, 0, 0), 0);
    cr_assert_eq(actor_do(&other, DO_DEVICE, 0x22, 0), 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(actor_do(&rt, DO_HOLD, 0, 3), 0);
    cr_assert_eq(actor_do(&other, DO_HOLD, 0, 0), 0, "another device");
    WAIT_UNTIL(actor_do(&other, DO_ABOVE, 0, 0) == 0); /* once the daemon knows its device */
    actor_do(&rt, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0, "cleared by the call itself");
    actor_do(&be, DO_ACTIVE, 0, 3);
    cr_assert_eq(actor_do(&rt, DO_HOLD, 0, 3), 0, "best effort holds nobody");
    actor_kill(&rt);
    actor_kill(&be);
    actor_kill(&other);
}

Test(client, newcomer_below_active_owner_is_held)
{
    struct actor rt, be;

    place_start(&place);
    join(&rt, 3);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_do(&rt, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, devices_are_matched_by_uuid_not_by_number)
{
    struct actor rt, be;

    place_start(&place);
    join(&be, 0);
    actor_new(&rt, place.socket);
    actor_do(&rt, DO_OPEN, 2, 2);
    actor_do(&rt, DO_DEVICE, 0x22, 0);
    cr_assert_eq(actor_do(&rt, DO_DEVICE, 0x11, 0), 1);
    actor_do(&rt, DO_ACTIVE, 1, 2);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    /* And a device that joins later, on both sides. */
    cr_assert_eq(actor_do(&be, DO_DEVICE, 0x33, 0), 1);
    cr_assert_eq(actor_do(&rt, DO_DEVICE, 0x33, 0), 2);
    actor_do(&rt, DO_ACTIVE, 2, 2);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 1, 0) != 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, each_owner_has_its_own_bit)
{
    struct actor owner[3], be;
    int64_t all = 0;

    place_start(&place);
    join(&be, 0);
    for (int i = 0; i < 3; i++)
        join(&owner[i], 1 + (uint32_t)i);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 3);
    for (int i = 0; i < 3; i++) {
        int64_t before = all;

        actor_do(&owner[i], DO_ACTIVE, 0, 1 + i);
        WAIT_UNTIL((all = actor_do(&be, DO_HOLD, 0, 0)) != before);
    }
    cr_assert_eq(__builtin_popcountll((unsigned long long)all), 3);
    for (int i = 0; i < 3; i++) {
        actor_do(&owner[i], DO_IDLE, 0, 1 + i);
        cr_assert_eq(__builtin_popcountll((unsigned long long)actor_do(&be, DO_HOLD, 0, 0)), 2 - i);
    }
    for (int i = 0; i < 3; i++)
        actor_kill(&owner[i]);
    actor_kill(&be);
}

Test(client, killing_active_owner_ends_its_hold)
{
    struct actor rt, be;

    join_two(&rt, &be);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
    actor_kill(&be);
}

Test(client, equal_pids_in_two_namespaces_are_told_apart)
{
    struct actor first, second, be;

    place_start(&place);
    actor_new(&first, place.socket);
    actor_new(&second, place.socket);
    if (actor_do(&first, DO_NAMESPACE, 0, 0) != 1 || actor_do(&second, DO_NAMESPACE, 0, 0) != 1) {
        actor_kill(&first);
        actor_kill(&second);
        cr_skip_test("no PID namespaces here");
    }
    cr_assert_eq(actor_do(&first, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(&first, DO_DEVICE, 0x11, 0), 0);
    cr_assert_eq(actor_do(&second, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(&second, DO_DEVICE, 0x11, 0), 0);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 2);
    actor_do(&first, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&second);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    cr_assert_neq(actor_do(&be, DO_HOLD, 0, 0), 0, "the other one's death opened it");
    actor_kill(&first);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_kill(&be);
}

Test(client, child_with_inherited_socket_does_not_keep_parents_hold)
{
    struct actor rt, be;
    int life[2];
    pid_t child;

    place_start(&place);
    cr_assert_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    cr_assert_eq(pipe2(life, O_CLOEXEC), 0);
    join(&rt, 3);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    child = (pid_t)actor_do(&rt, DO_FORK, life[0], life[1]);
    cr_assert_gt(child, 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    cr_assert_eq(waitpid(child, NULL, WNOHANG), 0, "the child ended with its parent");
    actor_kill(&be);
    close(life[1]);
    cr_assert_eq(waitpid(child, NULL, 0), child);
}

Test(client, holds_end_with_daemon_and_return_with_the_next)
{
    struct actor rt, be;
    int64_t address;

    place_start(&place);
    join_levels(&rt, 3, 0);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    address = actor_do(&be, DO_ADDRESS, 0, 0);
    actor_do(&be, DO_COUNT, 0, 5);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    for (int i = 0; i < 3; i++) {
        place_kill(&place);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
        WAIT_UNTIL(actor_do(&rt, DO_CONNECTED, 0, 0) == 0);
        WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
        cr_assert_eq(actor_do(&rt, DO_HOLD, 0, 0), PAGE_BIT_SELF, "its own streams are still held");
        place_start(&place);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
        cr_assert_eq(actor_do(&rt, DO_HOLD, 0, 0), PAGE_BIT_SELF);
    }
    cr_assert_eq(actor_do(&be, DO_ADDRESS, 0, 0), address);
    cr_assert_eq(actor_do(&be, DO_COUNT, 0, 0), 5, "counters are carried over");
    actor_do(&rt, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, closing_ends_holds_and_reopening_restores_them)
{
    struct actor rt, be;

    join_two(&rt, &be);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_do(&rt, DO_CLOSE, 0, 0);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(&rt, DO_OPEN, 3, 3), -EALREADY);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&rt);
    actor_kill(&be);
}

#ifndef __SANITIZE_THREAD__ /* there it has the program's table */
Test(client, link_survives_program_closing_all_descriptors)
{
    struct actor rt, be;

    join_two(&rt, &be);
    cr_assert_eq(actor_do(&rt, DO_CLOSE_ALL, 0, 0), 0);
    order_level(&rt, 2); /* the order comes by the same connection */
    WAIT_UNTIL(actor_do(&rt, DO_LEVEL, 0, 0) == 2);
    actor_do(&rt, DO_ACTIVE, 0, 2);
    cr_expect_neq(actor_do(&be, DO_HOLD, 0, 0), 0);
    cr_expect_eq(actor_do(&rt, DO_LOGGED, 0, 0), -1, "%s", rt.said);
    cr_expect_eq(actor_do(&rt, DO_INTRUDED, 0, 0), 0);
    actor_kill(&rt);
    actor_kill(&be);
}

#endif

/* Its descriptors have to be among the program's. */
Test(client, reconnecting_leaves_reused_descriptors_alone)
{
    struct actor rt, be;

    place_start(&place);
    actor_new(&rt, place.socket);
    if (actor_do(&rt, DO_NO_TABLE, 0, 0) != 0)
        cr_skip_test("this kernel has no seccomp filters");
    register_on(&rt, 3, 3);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    cr_assert_eq(actor_do(&rt, DO_CLOSE_ALL, 0, 0), 0);
    /* It connects again with a new descriptor, without touching those that reused the number. */
    WAIT_UNTIL(actor_do(&rt, DO_CONNECTED, 0, 0) == 1 && actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(actor_do(&rt, DO_INTRUDED, 0, 0), 0);
    actor_do(&rt, DO_CLOSE, 0, 0);
    cr_assert_eq(actor_do(&rt, DO_INTRUDED, 0, 0), 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, refused_level_becomes_best_effort_with_warning)
{
    struct actor rt, user;

    if (geteuid() != 0)
        cr_skip_test("needs root, to be two users");
    place_start(&place);
    join(&rt, 3);
    actor_new(&user, place.socket);
    cr_assert_eq(actor_do(&user, DO_USER, 65534, 0), 0);
    cr_assert_eq(actor_do(&user, DO_OPEN, 3, 3), 0);
    WAIT_UNTIL(actor_do(&user, DO_CONNECTED, 0, 0) == 1);
    cr_assert_eq(actor_do(&user, DO_LEVEL, 0, 0), 0);
    cr_assert_eq(actor_do(&user, DO_LOGGED, 0, 0), 1);
    cr_assert_eq(actor_do(&user, DO_DEVICE, 0x11, 0), 0);
    WAIT_UNTIL(actor_do(&user, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&user, DO_HOLD, 0, 3) != 0);
    cr_assert_neq(actor_do(&user, DO_HOLD, 0, 0), 0);
    actor_kill(&rt);
    actor_kill(&user);
}

Test(client, level_change_moves_holds)
{
    struct actor a, b;

    place_start(&place);
    join(&a, 1);
    join(&b, 2);
    WAIT_UNTIL(actor_do(&a, DO_ABOVE, 0, 0) == 1);
    order_level(&a, 3);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 3);
    /* Its streams are still at level 1, and now b is below it. */
    actor_do(&a, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 2) != 0);
    order_level(&a, 0);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 2) == 0);
    WAIT_UNTIL(actor_do(&b, DO_ABOVE, 0, 0) == 0);
    actor_kill(&a);
    actor_kill(&b);
}

Test(client, max_hold_of_held_process_bounds_hold)
{
    struct actor rt, be;

    place_start(&place);
    join(&rt, 3);
    actor_new(&be, place.socket);
    actor_do(&be, DO_MAX_HOLD, 40, 0);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&be, DO_DEVICE, 0x11, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    holds_are_short(&be);
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, max_hold_applies_while_thread_waits_in_driver)
{
    struct actor rt, be;

    place_start(&place);
    join(&rt, 3);
    actor_new(&be, place.socket);
    actor_do(&be, DO_STALL, 0, 0);
    actor_do(&be, DO_MAX_HOLD, 40, 0);
    register_on(&be, 0, 0);
    WAIT_UNTIL(actor_do(&be, DO_BEAT, 0, 0) != 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    holds_are_short(&be);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, reopening_is_refused_while_old_thread_runs)
{
    struct actor a;

    place_start(&place);
    actor_new(&a, place.socket);
    actor_do(&a, DO_STALL, 0, 0);
    register_on(&a, 0, 0);
    WAIT_UNTIL(actor_do(&a, DO_BEAT, 0, 0) != 0);
    actor_do(&a, DO_CLOSE, 0, 0);
    cr_expect_eq(actor_do(&a, DO_OPEN, 0, 0), -EAGAIN);
    actor_kill(&a);
}

Test(client, hold_ends_after_linger)
{
    struct actor rt, be;

    place_start(&place);
    join(&be, 0);
    actor_new(&rt, place.socket);
    actor_do(&rt, DO_LINGER, 50000, 0);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&rt, DO_DEVICE, 0x11, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, stalled_external_wait_ends_hold)
{
    struct actor rt, be;

    join_two(&rt, &be);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_do(&rt, DO_WAIT_BEGIN, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_do(&rt, DO_WAIT_END, 0, 3);
    cr_assert_neq(actor_do(&be, DO_HOLD, 0, 0), 0, "held again by the call itself");
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, racing_bursts_leave_no_bit_behind)
{
    struct actor rt, be;

    join_two(&rt, &be);
    cr_assert_eq(actor_do(&rt, DO_BURSTS, 0, 3000), 0);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(client, stopped_owner_loses_hold_until_it_continues)
{
    struct actor rt, be;
    uint64_t stopped;

    join_two(&rt, &be);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    for (int i = 0; i < 3; i++) {
        stopped = now_ms();
        kill(rt.pid, SIGSTOP);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
        cr_log_info("the hold of a stopped client opened after %d ms", (int)(now_ms() - stopped));
        kill(rt.pid, SIGCONT);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0); /* by itself: nothing has begun anew */
    }
    actor_do(&rt, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    kill(rt.pid, SIGSTOP);
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
    actor_kill(&be);
}

Test(client, newcomer_is_held_once_stopped_owner_continues)
{
    struct actor rt, be, late;

    join_two(&rt, &be);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    kill(rt.pid, SIGSTOP);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    join(&late, 0);
    WAIT_UNTIL(actor_do(&late, DO_ABOVE, 0, 0) == 1);
    WAIT_UNTIL(actor_do(&late, DO_HOLD, 0, 0) == 0);
    kill(rt.pid, SIGCONT);
    WAIT_UNTIL(actor_do(&late, DO_HOLD, 0, 0) != 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&late, DO_HOLD, 0, 0) == 0);
    actor_kill(&late);
    actor_kill(&be);
}

/* For longer than the daemon takes a silent process for a running one. */
Test(client, thread_waiting_in_driver_keeps_its_holds)
{
    enum { SILENT_NS = 2000000000 };
    struct actor rt, be;
    int64_t first, since;

    place_start(&place);
    actor_new(&rt, place.socket);
    actor_do(&rt, DO_STALL, 0, 0);
    register_on(&rt, 3, 3);
    join(&be, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    WAIT_UNTIL(actor_do(&rt, DO_BEAT, 0, 0) != 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    since = actor_do(&be, DO_SINCE, 0, 0);
    first = actor_do(&rt, DO_BEAT, 0, 0);
    WAIT_UNTIL(actor_do(&rt, DO_BEAT, 0, 0) - first > SILENT_NS);
    cr_assert_neq(actor_do(&be, DO_HOLD, 0, 0), 0);
    cr_assert_eq(actor_do(&be, DO_SINCE, 0, 0), since, "it is still the first hold");
    actor_kill(&rt);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_kill(&be);
}
