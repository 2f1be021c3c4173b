/*
 * control.c - changing running processes from outside, and which users may.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/query.h"

static struct place place;

static void set_up(void)
{
    place_new(&place);
}

static void tear_down(void)
{
    cr_assert(place_free(&place));
}

TestSuite(control, .init = set_up, .fini = tear_down);

static struct message_row row_of(pid_t pid)
{
    struct message_row *rows, found = {0};
    size_t n;

    cr_assert_eq(query_clients(place.socket, &rows, &n), 0);
    for (size_t i = 0; i < n; i++)
        if (rows[i].pid == pid)
            found = rows[i];
    free(rows);
    return found;
}

/* Registers it; the daemon knows its device as well. */
static void register_on(struct actor *a, uint32_t level)
{
    cr_assert_eq(actor_do(a, DO_OPEN, level, level), 0);
    WAIT_UNTIL(actor_do(a, DO_CONNECTED, 0, 0) == 1);
    cr_assert_eq(actor_do(a, DO_DEVICE, 0x11, 0), 0);
    WAIT_UNTIL(row_of(a->pid).devices == 1);
}

static void join(struct actor *a, uint32_t level)
{
    actor_new(a, place.socket);
    register_on(a, level);
}

static struct control_target target(const struct actor *a)
{
    return (struct control_target){.pid = a->pid};
}

static int set(const struct actor *a, enum control_kind what, uint32_t value)
{
    return control_order(place.socket, target(a), what, value);
}

Test(control, invalid_orders_return_specific_errors)
{
    struct actor a;

    actor_new(&a, NULL);
    cr_assert_eq(set(&a, CONTROL_WEIGHT, 2), -ENOENT);
    place_start(&place);
    cr_assert_eq(set(&a, CONTROL_WEIGHT, 2), -ESRCH);
    cr_assert_eq(
        control_order(place.socket, (struct control_target){.client = 99}, CONTROL_PAUSE, 0),
        -ESRCH);
    cr_assert_eq(control_order(place.socket, (struct control_target){.pid = 0}, CONTROL_PAUSE, 0),
                 -ESRCH);
    cr_assert_eq(set(&a, CONTROL_WEIGHT, 0), -EINVAL);
    cr_assert_eq(set(&a, CONTROL_LEVEL, 4), -EINVAL);
    cr_assert_eq(set(&a, CONTROL_DEPTH, 5000), -EINVAL);
    cr_assert_eq(set(&a, CONTROL_KIND_COUNT, 0), -EINVAL, "no kind of order");
    place_kill(&place);
    cr_assert_eq(set(&a, CONTROL_WEIGHT, 2), -ECONNREFUSED);
    actor_kill(&a);
}

Test(control, level_change_applies_to_existing_streams)
{
    struct actor a, b;

    place_start(&place);
    join(&a, 0);
    join(&b, 0);
    actor_do(&a, DO_ACTIVE, 0, 0); /* at best effort, the level its streams were made with */
    cr_assert_eq(set(&a, CONTROL_LEVEL, 3), 0);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(actor_do(&a, DO_LEVEL, 0, 0), 3);
    cr_assert_eq(actor_do(&a, DO_HOLD, 0, 0), 0);
    WAIT_UNTIL(actor_do(&a, DO_ORDERED, CONTROL_LEVEL, 0) == 3);
    cr_assert(row_of(a.pid).level == 3 && row_of(a.pid).asked == 3);
    actor_do(&a, DO_IDLE, 0, 0);
    cr_assert_eq(actor_do(&b, DO_HOLD, 0, 0), 0);
    /* Real-time work of a third process does not hold it now, but does so again later. */
    actor_do(&b, DO_ACTIVE, 0, 0);
    cr_assert_eq(set(&b, CONTROL_LEVEL, 2), 0);
    cr_assert_eq(set(&a, CONTROL_LEVEL, 0), 0);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(set(&a, CONTROL_LEVEL, 2), 0);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 0) == 0);
    cr_assert_eq(set(&b, CONTROL_LEVEL, 0), 0);
    WAIT_UNTIL(actor_do(&b, DO_LEVEL, 0, 0) == 0);
    actor_kill(&a);
    actor_kill(&b);
}

Test(control, lowering_realtime_process_ends_its_holds)
{
    struct actor rt, be;

    place_start(&place);
    join(&rt, 3);
    join(&be, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(set(&rt, CONTROL_LEVEL, 0), 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_do(&rt, DO_IDLE, 0, 3);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    cr_assert_eq(actor_do(&be, DO_HOLD, 0, 0), 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(control, pause_holds_all_levels_and_later_devices_until_resume)
{
    struct actor a;

    place_start(&place);
    join(&a, 2);
    cr_assert_eq(control_order(place.socket, target(&a), CONTROL_PAUSE, 0), 0);
    for (uint32_t level = 0; level < PAGE_LEVELS; level++)
        cr_assert_eq(actor_do(&a, DO_HOLD, 0, level), PAGE_BIT_PAUSED);
    cr_assert_eq(actor_do(&a, DO_DEVICE, 0x22, 0), 1);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 1, 2) == PAGE_BIT_PAUSED);
    cr_assert((row_of(a.pid).state & ROW_PAUSED));
    cr_assert_eq(control_order(place.socket,
                               (struct control_target){.client = row_of(a.pid).client},
                               CONTROL_RESUME, 0),
                 0);
    for (int dev = 0; dev < 2; dev++)
        for (uint32_t level = 0; level < PAGE_LEVELS; level++)
            cr_assert_eq(actor_do(&a, DO_HOLD, dev, level), 0);
    cr_assert_not((row_of(a.pid).state & ROW_PAUSED));
    actor_kill(&a);
    join(&a, 3);
    cr_assert_eq(control_order(place.socket, target(&a), CONTROL_PAUSE, 0), -EOPNOTSUPP);
    actor_kill(&a);
}

Test(control, orders_reach_their_process)
{
    struct actor a;

    place_start(&place);
    join(&a, 0);
    cr_assert_eq(set(&a, CONTROL_BUDGET_US, 123), 0);
    cr_assert_eq(set(&a, CONTROL_DEPTH, 7), 0);
    cr_assert_eq(set(&a, CONTROL_WEIGHT, 5), 0);
    cr_assert_eq(control_order(place.socket, target(&a), CONTROL_RESET, CONTROL_ALL_STREAMS), 0);
    WAIT_UNTIL(actor_do(&a, DO_ORDERED, CONTROL_BUDGET_US, 0) == 123);
    WAIT_UNTIL(actor_do(&a, DO_ORDERED, CONTROL_DEPTH, 0) == 7);
    WAIT_UNTIL(actor_do(&a, DO_ORDERED, CONTROL_RESET, 0) == CONTROL_ALL_STREAMS);
    cr_assert_eq(row_of(a.pid).weight, 5);
    actor_kill(&a);
}

Test(control, orders_outlive_the_daemon)
{
    struct actor a, b;

    place_start(&place);
    join(&a, 2);
    join(&b, 0);
    cr_assert_eq(set(&a, CONTROL_WEIGHT, 5), 0);
    cr_assert_eq(control_order(place.socket, target(&a), CONTROL_PAUSE, 0), 0);
    cr_assert_eq(set(&a, CONTROL_LEVEL, 1), 0);
    cr_assert_eq(control_order(place.socket, target(&b), CONTROL_PAUSE, 0), 0);
    cr_assert_eq(control_order(place.socket, target(&b), CONTROL_RESUME, 0), 0);
    cr_assert_eq(set(&b, CONTROL_LEVEL, 3), 0);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 1 && actor_do(&b, DO_LEVEL, 0, 0) == 3);
    place_kill(&place);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 1) == 0); /* without a daemon there is no hold */
    place_start(&place);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 1) == PAGE_BIT_PAUSED);
    WAIT_UNTIL(row_of(b.pid).level == 3 && actor_do(&b, DO_LEVEL, 0, 0) == 3);
    cr_assert(row_of(a.pid).level == 1 && row_of(a.pid).weight == 5 &&
              (row_of(a.pid).state & ROW_PAUSED));
    cr_assert_not((row_of(b.pid).state & ROW_PAUSED));
    actor_kill(&a);
    actor_kill(&b);
}

static int as_other(int (*what)(const struct actor *a), const struct actor *a)
{
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setgid(65534) != 0 || setuid(65534) != 0 ? 99 : -what(a));
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -1;
}

static int pause_it(const struct actor *a)
{
    return control_order(place.socket, target(a), CONTROL_PAUSE, 0);
}

static int raise_it(const struct actor *a)
{
    return set(a, CONTROL_LEVEL, 3);
}

static int weigh_it(const struct actor *a)
{
    return set(a, CONTROL_WEIGHT, 9);
}

static int reset_it(const struct actor *a)
{
    return control_order(place.socket, target(a), CONTROL_RESET, CONTROL_ALL_STREAMS);
}

Test(control, users_cannot_change_others_processes_or_exceed_rules)
{
    struct actor mine, theirs;

    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    place_start(&place);
    join(&mine, 0);
    actor_new(&theirs, place.socket);
    cr_assert_eq(actor_do(&theirs, DO_USER, 65534, 0), 0);
    register_on(&theirs, 0);
    cr_assert_eq(as_other(pause_it, &mine), -EPERM);
    cr_assert_eq(as_other(raise_it, &mine), -EPERM);
    cr_assert_eq(as_other(weigh_it, &mine), -EPERM);
    cr_assert_eq(as_other(reset_it, &mine), -EPERM);
    cr_assert_eq(actor_do(&mine, DO_HOLD, 0, 0), 0);
    cr_assert_eq(as_other(raise_it, &theirs), -EPERM, "no rule gives it that level");
    cr_assert_eq(as_other(pause_it, &theirs), 0);
    cr_assert_eq(actor_do(&theirs, DO_HOLD, 0, 0), PAGE_BIT_PAUSED);
    cr_assert_eq(raise_it(&theirs), 0, "root may give what the user lacks");
    WAIT_UNTIL(actor_do(&theirs, DO_LEVEL, 0, 0) == 3);
    actor_kill(&mine);
    actor_kill(&theirs);
}
