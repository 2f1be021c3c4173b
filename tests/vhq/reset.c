/* reset.c - dropping what is buffered: counts, fences, waiters, a command in submission. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

static int dropped_count(struct world *w)
{
    int n = 0;
    for (int i = 0; i < w->commands; i++)
        n += w->command[i].drops;
    return n;
}

/* The dispatcher, which is to drop them, is in the driver. */
Test(reset, dropped_commands_no_longer_count_as_buffered)
{
    struct vhq_stats st;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    w->run_wait = 1;
    world_call(w, &(struct call){.stream = b, .flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER});
    WAIT_FOR(w->in_run);
    atomic_store(&w->stream[a].hold, 1);
    for (int i = 0; i < 30; i++)
        launch(w, a, 1);
    cr_assert_eq(vhq_reset(w->stream[a].q), 30);
    launch(w, a, 1);
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.buffered_now, 1, "%u", st.buffered_now);
    w->run_wait = 0;
    hold_all(w, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_finish(w);
    world_free(w);
}

Test(reset, drops_and_counts_buffered_commands)
{
    struct vhq_stats st;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 1);
    hold_all(w, true);
    for (int i = 0; i < 30; i++)
        launch(w, a, 1);
    int other = launch(w, b, 1);
    cr_assert_eq(vhq_reset(w->stream[a].q), 30);
    cr_assert_eq(vhq_reset(w->stream[a].q), 0);
    int later = launch(w, a, 1);
    WAIT_FOR(dropped_count(w) == 30);
    cr_assert_not(submitted(w, other));
    hold_all(w, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert(submitted(w, later));
    cr_assert(submitted(w, other));
    cr_assert_null(check_order(w), "%s", check_order(w));
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.dropped, 30);
    cr_assert_eq(vhq_reset(w->stream[a].q), 0);
    device_finish(w);
    world_free(w);
}

Test(reset, keeps_the_command_that_is_being_submitted)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    vhq_hold(w->stream[a].q);
    for (int i = 0; i < 10; i++)
        launch(w, a, 1);
    atomic_store(&w->run_wait, 1);
    vhq_release(w->stream[a].q);
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    cr_assert_eq(vhq_reset(w->stream[a].q), 9);
    atomic_store(&w->run_wait, 0);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(submitted_count(w), 1);
    cr_assert_eq(dropped_count(w), 9);
    cr_assert_null(check_order(w));
    device_finish(w);
    world_free(w);
}

Test(reset, releases_fences_and_their_waiters)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, 1);
    world_call(w, &(struct call){.stream = a, .what = RECORD});
    int x = world_call(w, &(struct call){.stream = b, .what = WAIT});
    int y = world_call(w, &(struct call){.stream = a, .what = WAIT});
    int again = world_call(w, &(struct call){.stream = b, .what = RECORD});
    cr_assert_not(submitted(w, x));
    cr_assert_eq(vhq_reset(w->stream[a].q), 2);
    vhq_drain(w->stream[b].q, false, false);
    cr_assert(submitted(w, x));
    cr_assert(submitted(w, again));
    cr_assert_not(submitted(w, y));
    cr_assert(vhq_fence_submitted(w->event[0].fence));
    world_free(w);
}

static void *drains(void *arg)
{
    vhq_drain(arg, false, false);
    return NULL;
}

Test(reset, wakes_draining_thread)
{
    pthread_t t;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    for (int i = 0; i < 5; i++)
        launch(w, a, 1);
    pthread_create(&t, NULL, drains, w->stream[a].q);
    WAIT_FOR(somebody_waits(w));
    vhq_reset(w->stream[a].q);
    pthread_join(t, NULL);
    cr_assert_eq(dropped_count(w), 5);
    world_free(w);
}

static void *must_inline(void *arg)
{
    struct world *w = arg;
    world_call(w, &(struct call){.stream = 0, .flags = VHQ_MUST_INLINE});
    return NULL;
}

Test(reset, leaves_a_waiting_thread_its_turn)
{
    pthread_t t;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    for (int i = 0; i < 5; i++)
        launch(w, a, 1);
    pthread_create(&t, NULL, must_inline, w);
    WAIT_FOR(w->commands == 6);
    struct vhq_stats st;
    WAIT_FOR((vhq_get_stats(w->stream[a].q, &st), st.buffered_now == 6));
    cr_assert_eq(vhq_reset(w->stream[a].q), 5);
    WAIT_FOR(dropped_count(w) == 5);
    hold_all(w, false);
    pthread_join(t, NULL);
    cr_assert(submitted(w, 5));
    world_free(w);
}

static void *resets(void *arg)
{
    struct world *w = arg;
    uintptr_t n = 0;
    while (atomic_load(&w->running)) {
        n += vhq_reset(w->stream[0].q);
        nap_us(50);
    }
    return (void *)n;
}

Test(reset, races_with_launches_and_loses_no_command)
{
    pthread_t t;
    void *n;
    struct world *w = world_new(&(struct vhq_config){.budget_us = 50, .queue = 32});
    int a = world_stream(w, VHQ_BLOCKING), b = world_stream(w, VHQ_LEGACY);
    device_start(w, 3);
    pthread_create(&t, NULL, resets, w);
    for (int i = 0; i < 1500; i++)
        launch(w, i % 5 ? a : b, 10);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_stop(w);
    pthread_join(t, &n);
    cr_assert_eq((int)(uintptr_t)n, dropped_count(w));
    cr_assert_eq(submitted_count(w) + dropped_count(w), 1500);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

Test(reset, abandoning_a_set_drops_the_rest)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    for (int i = 0; i < 100; i++)
        launch(w, a, 1);
    vhq_set_destroy(w->set, true); /* it joins the thread although everything is held */
    for (int i = 0; i < 100; i++)
        cr_assert_eq(w->command[i].drops, 1, "%d", i);
    cr_assert_eq(submitted_count(w), 0);
    world_forget(w);
}
