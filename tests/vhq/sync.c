/* sync.c - drain until submitted, sync until complete, time-outs, queries. */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/vhq/fake.h"

Test(sync, returns_when_everything_completed)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream_polled(w, VHQ_NONBLOCKING);
    device_start(w, 1);
    for (int round = 0; round < 60; round++) {
        int s = round % 2 ? a : b;
        for (int i = 0; i <= round % 13; i++)
            launch(w, s, 5);
        vhq_sync(w->stream[s].q, false);
        cr_assert_eq(w->stream[s].completed, w->stream[s].submitted);
    }
    world_free(w);
}

Test(sync, puts_one_marker_behind_uncounted_commands)
{
    clock_freeze(); /* a thread that waits long places another marker */
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    device_start(w, 1);
    for (int i = 0; i < 50; i++) {
        world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED});
        vhq_sync(w->stream[a].q, false);
        cr_assert_eq(w->stream[a].completed, w->stream[a].submitted);
    }
    cr_assert_eq(w->mark_calls, 50, "one marker each, and they come back");
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(w->mark_calls, 50, "nothing new, no marker");
    world_free(w);
}

/* ---- while a stream may stand at a wait, and others behind it -------------------------------- */

static const _Atomic uint32_t external_waits = 1;

Test(sync, asks_driver_instead_of_marking_during_open_wait)
{
    struct world *w = world_new_asked(&(struct vhq_config){.external_waits = &external_waits});
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 5);
    device_finish(w);
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(w->mark_calls, 0);
    cr_assert_geq(atomic_load(&w->asked), 1);
    world_free(w);
}

/* The commands in the way of `next` have no marker, and get none. */
Test(sync, dispatcher_asks_driver_during_open_wait)
{
    struct world *w =
        world_new_asked(&(struct vhq_config){.budget_us = 200, .external_waits = &external_waits});
    for (int i = 0; i < 3; i++)
        launch(w, world_stream(w, VHQ_NONBLOCKING), 45);
    int next = launch(w, world_stream(w, VHQ_NONBLOCKING), 150);
    WAIT_FOR(atomic_load(&w->asked) > 3);
    cr_assert_eq(w->mark_calls, 0);
    device_finish(w);
    WAIT_FOR(submitted(w, next));
    device_finish(w);
    world_free(w);
}

Test(sync, covers_all_streams_of_the_set)
{
    struct world *w = world_new(NULL);
    for (int i = 0; i < 6; i++)
        world_stream(w, i % 2 ? VHQ_BLOCKING : VHQ_NONBLOCKING);
    device_start(w, 9);
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 40; i++)
            world_call(w, &(struct call){
                              .stream = i % 6, .est_ns = 9000, .flags = i % 4 ? 0 : VHQ_UNCOUNTED});
        vhq_set_sync(w->set, false);
        for (int i = 0; i < 6; i++)
            cr_assert_eq(w->stream[i].completed, w->stream[i].submitted);
        cr_assert(vhq_set_empty(w->set));
    }
    world_free(w);
}

Test(sync, drain_times_out_under_a_hold)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 10), 0);
    hold_all(w, true);
    launch(w, a, 1);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 10), -ETIMEDOUT);
    cr_assert_not(vhq_set_empty(w->set));
    hold_all(w, false);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 20000), 0);
    cr_assert(submitted(w, 0));
    world_free(w);
}

static _Atomic bool drained;

static void *drain_all(void *arg)
{
    vhq_set_drain(arg, VHQ_DRAIN_ALL, false);
    atomic_store(&drained, true);
    return NULL;
}

Test(sync, drain_of_a_set_does_not_wait_for_later_commands)
{
    pthread_t drainer;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->run_wait, 1);
    int earlier = world_call(w, &(struct call){.stream = b, .flags = VHQ_MUST_BUFFER});
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 5), -ETIMEDOUT);
    pthread_create(&drainer, NULL, drain_all, w->set);
    WAIT_FOR(somebody_waits(w));
    atomic_store(&w->stream[a].hold, 1);
    int later = launch(w, a, 1);
    cr_assert_not(atomic_load(&drained));
    atomic_store(&w->run_wait, 0);
    WAIT_FOR(atomic_load(&drained));
    pthread_join(drainer, NULL);
    cr_assert(submitted(w, earlier));
    cr_assert_not(submitted(w, later));
    vhq_drain(w->stream[b].q, false, false); /* a's held command does not matter to it */
    atomic_store(&w->stream[a].hold, 0);
    world_free(w);
}

/* ---- more threads than there are waiters ----------------------------------------------------- */

enum { CROWD = 300 };

struct crowd {
    struct world *w;
    uint32_t timeout_ms;
    _Atomic uint32_t arrived, late;
};

static void *drain_in_time(void *arg)
{
    struct crowd *c = arg;
    atomic_fetch_add(&c->arrived, 1);
    if (vhq_set_drain_timeout(c->w->set, c->timeout_ms) != 0)
        atomic_fetch_add(&c->late, 1);
    return NULL;
}

static void crowd_start(struct crowd *c, pthread_t thread[CROWD])
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 256 << 10);
    for (int i = 0; i < CROWD; i++)
        cr_assert_eq(pthread_create(&thread[i], &attr, drain_in_time, c), 0);
    pthread_attr_destroy(&attr);
    WAIT_FOR(atomic_load(&c->arrived) == CROWD);
}

static void crowd_join(const pthread_t thread[CROWD])
{
    for (int i = 0; i < CROWD; i++)
        pthread_join(thread[i], NULL);
}

Test(sync, three_hundred_threads_may_drain_at_once)
{
    static pthread_t thread[CROWD];
    struct world *w = world_new(NULL);
    struct crowd short_ = {.w = w, .timeout_ms = 300}, long_ = {.w = w, .timeout_ms = 100000};
    int a = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    launch(w, a, 1);
    crowd_start(&short_, thread);
    crowd_join(thread);
    cr_assert_eq(short_.late, CROWD, "nobody thinks that it is submitted");
    crowd_start(&long_, thread);
    hold_all(w, false);
    crowd_join(thread);
    cr_assert_eq(long_.late, 0, "nobody misses it");
    world_free(w);
}

struct blocked {
    struct world *w;
    _Atomic int calls;
};

static void *fill(void *arg)
{
    struct blocked *b = arg;
    for (int i = 0; i < 100; i++) {
        launch(b->w, 0, 1);
        atomic_fetch_add(&b->calls, 1);
    }
    return NULL;
}

Test(sync, a_full_queue_makes_the_caller_wait)
{
    pthread_t t;
    struct world *w = world_new(&(struct vhq_config){.queue = 16});
    struct blocked b = {.w = w};
    world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    device_start(w, 1);
    pthread_create(&t, NULL, fill, &b);
    WAIT_FOR(atomic_load(&b.calls) == 16);
    WAIT_FOR(w->commands == 17);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 20), -ETIMEDOUT);
    cr_assert_eq(atomic_load(&b.calls), 16);
    hold_all(w, false);
    pthread_join(t, NULL);
    vhq_set_sync(w->set, false);
    cr_assert_eq(w->stream[0].completed, 100);
    cr_assert_null(check_order(w));
    world_free(w);
}

Test(sync, markers_wrap_around)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    vhq_destroy(w->stream[a].q);
    w->stream[a].done = UINT32_MAX - 20; /* the word has served other streams before */
    struct vhq_desc desc = {
        .stream = &w->stream[a], .user = &w->stream[a], .done = &w->stream[a].done};
    cr_assert_eq(vhq_create(w->set, &desc, &w->stream[a].q), 0);
    device_start(w, 2);
    for (int i = 0; i < 60; i++) {
        launch(w, a, 60);
        launch(w, a, 60);
        vhq_sync(w->stream[a].q, false);
        cr_assert_eq(w->stream[a].completed, w->stream[a].submitted);
    }
    cr_assert_lt(w->stream[a].done, 1000);
    world_free(w);
}
