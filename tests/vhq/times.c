/* times.c - how long holds last, and how soon the device has stopped, on a stopped clock. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "common/clock.h"
#include "vhq/internal.h"

#define US 1000ull

/* One bucket per 10 us. */
enum { BUCKETS = 1000 };
static _Atomic uint32_t hold_times[BUCKETS], stop_times[BUCKETS];

static uint32_t bucket_of(uint64_t ns)
{
    uint64_t bucket = ns / (10 * US);
    return bucket < BUCKETS ? (uint32_t)bucket : BUCKETS - 1;
}

static const struct vhq_times times = {bucket_of, hold_times, stop_times};

static uint32_t total(const _Atomic uint32_t *counts)
{
    uint32_t sum = 0;
    for (int i = 0; i < BUCKETS; i++)
        sum += counts[i];
    return sum;
}

static struct world *timed(void)
{
    clock_freeze();
    return world_new(&(struct vhq_config){.budget_us = 200, .depth = 8, .times = &times});
}

static void hold(struct world *w, int stream)
{
    atomic_store(&w->stream[stream].hold_since, clock_ns());
    atomic_store(&w->stream[stream].hold, 1);
}

static void release(struct world *w, int stream)
{
    atomic_store(&w->stream[stream].hold, 0);
    vhq_drain(w->stream[stream].q, false, false);
    device_finish(w);
}

Test(times, hold_records_its_length_and_device_stop_time)
{
    struct world *w = timed();
    int a = world_stream(w, VHQ_NONBLOCKING);

    launch(w, a, 100);
    launch(w, a, 100);
    hold(w, a);
    clock_advance(30 * US); /* until the dispatcher notices */
    launch(w, a, 100);
    dispatcher_looks(w);
    clock_advance(70 * US);
    device_step(w, a);
    dispatcher_looks(w);
    clock_advance(100 * US);
    device_step(w, a);
    dispatcher_looks(w);
    clock_advance(300 * US);
    release(w, a);
    cr_assert_eq(hold_times[47], 1, "buffered work was held for 470 us");
    cr_assert_eq(stop_times[20], 1, "the last in flight was complete 200 us after the hold");
    cr_assert_eq(total(hold_times) + total(stop_times), 2);
    world_free(w);
}

Test(times, unobserved_device_stop_is_not_counted)
{
    struct world *w = timed();
    int a = world_stream(w, VHQ_NONBLOCKING);

    launch(w, a, 100);
    hold(w, a);
    launch(w, a, 100);
    dispatcher_looks(w);
    release(w, a);
    cr_assert_eq(total(hold_times), 1);
    cr_assert_eq(total(stop_times), 0, "it was let go before anything completed");

    launch(w, a, 100);
    device_finish(w);
    clock_advance(1000 * US);
    hold(w, a);
    clock_advance(8000 * US);
    launch(w, a, 100);
    dispatcher_looks(w);
    release(w, a);
    cr_assert_eq(total(hold_times), 2);
    cr_assert_eq(total(stop_times), 0, "nobody looked for nine milliseconds");
    world_free(w);
}

static uint64_t held_us(struct world *w)
{
    struct vhq_stats st;

    vhq_set_stats(w->set, &st);
    return st.total_held_ns / US;
}

/* Time passes and the hold ends at once for the dispatcher, which reads both in one look. */
static void release_after(struct world *w, int stream, uint64_t us)
{
    pthread_mutex_lock(&w->set->lock);
    clock_advance(us * US);
    atomic_store(&w->stream[stream].hold, 0);
    pthread_mutex_unlock(&w->set->lock);
    release(w, stream);
}

Test(times, overlapping_holds_of_two_streams_count_once)
{
    struct world *w = timed();
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);

    hold(w, a);
    launch(w, a, 100);
    dispatcher_looks(w);
    clock_advance(100 * US);
    cr_expect_eq(held_us(w), 100, "a hold that lasts counts until now");
    hold(w, b);
    launch(w, b, 100);
    dispatcher_looks(w);
    release_after(w, a, 200);
    release_after(w, b, 400);
    cr_expect_eq(held_us(w), 700);
    clock_advance(800 * US);
    hold(w, a); /* nothing of it waits */
    clock_advance(1600 * US);
    cr_expect_eq(held_us(w), 700);
    world_free(w);
}
