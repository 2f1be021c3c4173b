/* used.c - how long the device has worked for a set. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "tests/vhq/fake.h"

enum { ABOVE = 1, TURN = 2, PAUSE = 4, MS = 1000 * 1000 };

static const struct vhq_config config = {.unbounded = TURN, .queue = 4};

static uint64_t gpu_ns(struct world *w)
{
    struct vhq_stats stats;
    vhq_set_stats(w->set, &stats);
    return stats.gpu_ns;
}

/* Without the marker it would not be known when what is in flight has run out. While a client above
 * holds there is none: it would be in that client's way. */
Test(used, turn_of_another_process_marks_work_in_flight)
{
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 1);
    atomic_store(&w->stream[a].hold, ABOVE | TURN);
    launch(w, a, 1);
    dispatcher_looks(w);
    cr_assert_eq(w->mark_calls, 0);
    atomic_store(&w->stream[a].hold, TURN);
    dispatcher_looks(w);
    WAIT_FOR(w->mark_calls == 1);
    dispatcher_looks(w);
    cr_assert_eq(w->mark_calls, 1, "%d", w->mark_calls);
    atomic_store(&w->stream[a].hold, 0);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    device_finish(w);
    world_free(w);
}

static void *fills_the_ring(void *world)
{
    struct world *w = world;
    for (uint32_t i = 0; i < 2 * config.queue; i++)
        launch(w, 0, 1);
    return NULL;
}

Test(used, thread_waiting_for_ring_space_is_not_device_time)
{
    pthread_t thread;
    clock_freeze();
    struct world *w = world_new(&config);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 20 * 1000);
    gpu_ns(w);
    clock_advance(5 * MS);
    cr_assert_eq(gpu_ns(w), 5 * MS, "as it runs");
    atomic_store(&w->stream[a].hold, TURN);
    pthread_create(&thread, NULL, fills_the_ring, w);
    WAIT_FOR(!vhq_empty(w->stream[a].q) && w->stream[a].in_flight == 1);
    dispatcher_looks(w);
    device_finish(w);
    uint64_t ran = gpu_ns(w);
    clock_advance(10 * MS);
    cr_assert_eq(gpu_ns(w), ran);
    atomic_store(&w->stream[a].hold, 0);
    dispatcher_looks(w);
    device_start(w, 1);
    pthread_join(thread, NULL);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    world_free(w);
}

/* Their times vary, and few take as long as their estimates. */
Test(used, relaxed_cap_scales_with_mean_command_time)
{
    clock_freeze();
    _Atomic uint32_t above = 0, rivals = 1;
    struct vhq_config cfg = {.budget_us = 100, .above = &above, .rivals = &rivals};
    struct world *w = world_new(&cfg);
    int a = world_stream(w, VHQ_NONBLOCKING);
    vhq_set_weigh(w->set, (struct vhq_weights){32, 64, 128});
    for (int i = 0; i < 100; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 4 * 8, "%u", w->stream[a].in_flight);
    vhq_set_weigh(w->set, (struct vhq_weights){1, 1, 1}); /* the most, whatever the weights say */
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 8 * 8, "%u", w->stream[a].in_flight);
    device_start(w, 1);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    world_free(w);
}

/* A set that stands for a moment is as open afterwards as before. */
Test(used, open_set_stays_open_after_standing)
{
    clock_freeze();
    _Atomic uint32_t above = 1, rivals = 1;
    struct world *w = world_new(&(struct vhq_config){
        .budget_us = 100, .above = &above, .rivals = &rivals, .unbounded = TURN});
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, ABOVE);
    vhq_set_pay_share(w->set, 2);
    vhq_set_hold_all(w->set, true);
    launch(w, a, 100);
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 0);
    vhq_set_hold_all(w->set, false);
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 1);
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    world_free(w);
}

/* A least share is worth nothing if a process that becomes active can close the hold. */
Test(used, open_set_is_held_only_by_turns_and_pauses)
{
    clock_freeze();
    _Atomic uint32_t above = 1, rivals = 1;
    const uint32_t unbounded[] = {TURN, PAUSE};
    struct vhq_config cfg = {
        .budget_us = 100, .above = &above, .rivals = &rivals, .unbounded = TURN | PAUSE};
    struct world *w = world_new(&cfg);
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, ABOVE);
    for (int i = 0; i < 100; i++)
        launch(w, a, 100);
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 0);
    vhq_set_pay_share(w->set, 2);
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 8, "the relaxed cap: %u", w->stream[a].in_flight);
    uint64_t before = gpu_ns(w);
    clock_advance(MS);
    cr_assert_eq(gpu_ns(w) - before, MS / 2, "of two");
    for (int i = 0; i < 2; i++) {
        atomic_store(&w->stream[a].hold, ABOVE | unbounded[i]);
        vhq_set_pay_share(w->set, 2);
        dispatcher_looks(w); /* a look that is under way has not seen it */
        device_finish(w);
        dispatcher_looks(w);
        device_marks(w, a); /* behind what went last */
        cr_assert_eq(w->stream[a].in_flight, 0, "%d", i);
        atomic_store(&w->stream[a].hold, ABOVE);
        vhq_set_pay_share(w->set, 2);
        dispatcher_looks(w);
        cr_assert_geq(w->stream[a].in_flight, 8, "%d: %u", i, w->stream[a].in_flight);
    }
    vhq_set_pay_share(w->set, 0);
    dispatcher_looks(w);
    device_finish(w);
    dispatcher_looks(w);
    device_marks(w, a);
    cr_assert_eq(w->stream[a].in_flight, 0);
    atomic_store(&w->stream[a].hold, 0);
    dispatcher_looks(w);
    cr_assert_eq(w->stream[a].in_flight, 1, "the strict cap again: %u", w->stream[a].in_flight);
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    world_free(w);
}
