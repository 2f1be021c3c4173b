/* failure.c - the driver refuses commands or markers; memory and threads run out. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"

Test(failure, refused_deferred_command_is_reported_and_rest_goes_on)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 50});
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    launch(w, a, 10);
    world_call(w, &(struct call){.stream = a, .est_ns = 40000, .fail = 700});
    world_call(w, &(struct call){.stream = a, .what = RECORD, .fail = 700});
    int x = world_call(w, &(struct call){.stream = b, .what = WAIT});
    for (int i = 0; i < 20; i++)
        launch(w, i % 2 ? a : b, 10);
    device_start(w, 1);
    hold_all(w, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert_eq(w->fails, 2);
    cr_assert_eq(w->fail_code, 700);
    cr_assert(submitted(w, x));
    cr_assert_null(check_order(w));
    vhq_set_sync(w->set, false);
    struct vhq_stats st;
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.in_flight_now, 0);
    cr_assert_eq(st.submitted, 22);
    world_free(w);
}

/* A failure completes nothing: what was in flight still is. */
Test(failure, nonfatal_error_leaves_earlier_work_in_flight)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100});
    int a = world_stream(w, VHQ_NONBLOCKING);
    struct vhq_stats st;
    launch(w, a, 90);
    hold_all(w, true);
    world_call(w, &(struct call){.stream = a, .est_ns = 5000, .fail = 2});
    hold_all(w, false);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(w->fails, 1);
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.in_flight_now, 1);
    device_start(w, 1);
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(w->stream[a].completed, 1, "the wait did not end for the failure");
    world_free(w);
}

Test(failure, refused_inline_command_frees_its_room)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100});
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 50; i++) {
        int k = world_call(w, &(struct call){.stream = a, .est_ns = 90000, .fail = 1});
        cr_assert(w->command[k].inlined);
    }
    cr_assert_eq(w->fails, 0, "the caller has the error");
    int k = launch(w, a, 100);
    cr_assert(w->command[k].inlined);
    device_finish(w);
    world_free(w);
}

Test(failure, refused_markers_block_neither_cap_nor_sync)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 50, .depth = 4});
    int a = world_stream(w, VHQ_NONBLOCKING);
    w->refuse_marks = true; /* as in a capture */
    for (int i = 0; i < 100; i++)
        launch(w, a, 20);
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(submitted_count(w), 100);
    w->refuse_marks = false;
    device_start(w, 1);
    for (int i = 0; i < 100; i++)
        launch(w, a, 20);
    vhq_sync(w->stream[a].q, false);
    cr_assert_eq(submitted_count(w), 200);
    cr_assert_eq(w->stream[a].completed, 200);
    world_free(w);
}

/* The markers were accepted, then the context fails: they will never be written. */
static void *dies(void *arg)
{
    struct world *w = arg;
    nap_us(5000);
    pthread_mutex_lock(&w->lock);
    w->refuse_marks = true;
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

Test(failure, dead_context_ends_waiting_sync)
{
    pthread_t t;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 3; i++)
        launch(w, a, 60);
    pthread_create(&t, NULL, dies, w);
    vhq_sync(w->stream[a].q, false); /* the device does not run */
    pthread_join(t, NULL);
    cr_assert_eq(w->stream[a].completed, 0);
    device_finish(w);
    world_free(w);
}

Test(failure, dead_context_does_not_block_buffered_commands)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 50});
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 50);
    launch(w, a, 50);
    for (int i = 0; i < 50; i++)
        world_call(w, &(struct call){.stream = a, .est_ns = 50000, .fail = 700});
    /* the device does not run: the guard lets the first go */
    vhq_drain(w->stream[a].q, false, false);
    cr_assert_eq(w->fails, 50);
    vhq_sync(w->stream[a].q, false);
    world_free(w);
}

Test(failure, without_dispatcher_thread_callers_submit_themselves)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100});
    int a = world_stream(w, VHQ_NONBLOCKING);
    wrap_no_threads = 1;
    for (int i = 0; i < 4; i++) {
        launch(w, a, 100); /* the second has no room for a tenth of a second */
        cr_assert(submitted(w, i));
    }
    world_call(w, &(struct call){.stream = a, .flags = VHQ_MUST_BUFFER | VHQ_UNCOUNTED});
    cr_assert(submitted(w, 4), "deferred, and run by vhq_end");
    wrap_no_threads = 0;
    hold_all(w, true);
    int k = launch(w, a, 1);
    cr_assert_not(submitted(w, k), "the next try had a thread");
    device_finish(w);
    world_free(w);
}

Test(failure, command_given_up_by_its_caller_is_skipped)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    struct vhq_fence *f = vhq_fence_new();
    struct vhq_req req = {.bytes = 64, .est_ns = 1000, .signals = f};
    struct vhq_cmd *cmd;
    hold_all(w, true);
    for (int i = 0; i < 10; i++) {
        cr_assert_eq(vhq_begin(w->stream[a].q, &req, &cmd), VHQ_BUFFER);
        vhq_end(w->stream[a].q, NULL, 2);
        req.signals = NULL;
    }
    int k = launch(w, a, 1);
    hold_all(w, false);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert(submitted(w, k));
    cr_assert(vhq_fence_submitted(f));
    struct vhq_stats st;
    vhq_get_stats(w->stream[a].q, &st);
    cr_assert_eq(st.submitted, 1);
    vhq_fence_put(f);
    device_finish(w);
    world_free(w);
}
