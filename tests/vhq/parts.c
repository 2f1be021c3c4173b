/* parts.c - commands that go to the driver in parts. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"

enum { PARTS = 5, PART_US = 200 };

static struct world *w;
static int a, legacy, other;

static void open_world(void)
{
    clock_freeze();
    w = world_new(&(struct vhq_config){.budget_us = PART_US, .depth = 32});
    a = world_stream(w, VHQ_BLOCKING);
    legacy = world_stream(w, VHQ_LEGACY);
    other = world_stream(w, VHQ_NONBLOCKING);
}

static void close_world(void)
{
    world_free(w);
}

TestSuite(parts, .init = open_world, .fini = close_world);

static int in_parts(uint32_t flags)
{
    return world_call(
        w,
        &(struct call){.stream = a, .flags = flags, .est_ns = PART_US * 1000, .parts_of = PARTS});
}

static int went(int command)
{
    return atomic_load(&w->command[command].submits);
}

/* Completes one of the parts that went; part number `then` goes then. */
static void complete_one(int command, int then)
{
    WAIT_FOR(went(command) == then - 1);
    dispatcher_looks(w); /* a marker follows */
    device_step(w, a);
    for (int i = 0; went(command) < then && i < 200; i++) {
        dispatcher_looks(w);
        device_marks(w, a); /* a thread that submits by itself puts the marker when it waits */
    }
}

Test(parts, each_takes_room_of_its_own)
{
    int k = in_parts(0);
    cr_assert_not(w->command[k].inlined);
    for (int i = 1; i < PARTS; i++) {
        complete_one(k, i + 1);
        cr_assert_eq(went(k), i + 1);
    }
    vhq_drain(w->stream[a].q, false, false);
}

Test(parts, hold_stops_the_rest_of_a_command)
{
    int k = in_parts(0);
    complete_one(k, 2);
    cr_assert_eq(went(k), 2);
    atomic_store(&w->stream[a].hold, 1);
    dispatcher_looks(w); /* it may have looked at the hold word before, and not yet at the room */
    device_finish(w);
    dispatcher_looks(w);
    cr_assert_eq(went(k), 2);
    cr_assert(vhq_pending(w->stream[a].q));
    atomic_store(&w->stream[a].hold, 0);
    device_start(w, 1);
    vhq_drain(w->stream[a].q, false, false);
    device_stop(w);
    cr_assert_eq(went(k), PARTS);
}

Test(parts, followers_wait_for_the_last_but_others_do_not)
{
    int k = in_parts(0), next = launch(w, a, 1), after = launch(w, legacy, 1);
    complete_one(k, 2);
    int beside = world_call(w, &(struct call){.stream = other, .flags = VHQ_UNCOUNTED});
    dispatcher_looks(w);
    cr_assert_lt(went(k), PARTS);
    cr_assert(submitted(w, beside));
    cr_assert_not(submitted(w, next));
    cr_assert_not(submitted(w, after));
    device_start(w, 1);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_stop(w);
    cr_assert_eq(went(k), PARTS);
    cr_assert_lt(w->command[k].submitted, w->command[next].submitted);
    cr_assert_lt(w->command[next].submitted, w->command[after].submitted);
}

Test(parts, reset_drops_none_of_a_command_already_begun)
{
    int k = in_parts(0), next = launch(w, a, 1), later = in_parts(0);
    complete_one(k, 2);
    cr_assert_eq(vhq_reset(w->stream[a].q), 2);
    device_start(w, 1);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_stop(w);
    cr_assert_eq(went(k), PARTS);
    cr_assert_eq(went(next), 0);
    cr_assert_eq(went(later), 0);
}

Test(parts, failure_ends_the_command)
{
    int k = world_call(w, &(struct call){.stream = a, .est_ns = 1000, .parts_of = 3, .fail = 1});
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(went(k), 1);
}

static void *call_inline(void *user)
{
    in_parts(VHQ_MUST_INLINE);
    return user;
}

Test(parts, inline_caller_waits_before_each)
{
    pthread_t t;
    int k = w->commands;
    cr_assert_eq(pthread_create(&t, NULL, call_inline, NULL), 0);
    WAIT_FOR(went(k) == 1);
    complete_one(k, 2);
    WAIT_FOR(went(k) == 2);
    atomic_store(&w->stream[a].hold, 1);
    dispatcher_looks(w);
    device_step(w, a);
    dispatcher_looks(w);
    cr_assert_eq(went(k), 2);
    atomic_store(&w->stream[a].hold, 0);
    device_start(w, 1);
    pthread_join(t, NULL);
    device_stop(w);
    cr_assert_eq(went(k), PARTS);
    cr_assert(vhq_empty(w->stream[a].q));
}
