/* gaps.c - what may be in flight while no request is due, on a stopped clock. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

enum { BUDGET_US = 100, HOLD_US = 50, STEP_US = 250 };

static struct world *w;
static int a;

static void setup(void)
{
    clock_freeze();
    w = world_new(&(struct vhq_config){.budget_us = BUDGET_US, .depth = 64});
    a = world_stream(w, VHQ_NONBLOCKING);
}

static void teardown(void)
{
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
    cr_assert_null(check_order(w));
    world_free(w);
}

TestSuite(gaps, .init = setup, .fini = teardown);

static uint32_t in_device(void)
{
    return atomic_load(&w->stream[a].submitted) - atomic_load(&w->stream[a].completed);
}

static bool buffered(void)
{
    return atomic_load(&w->stream[a].submitted) < (uint32_t)w->commands;
}

/* Buffers more than may be in flight. */
static void busy(void)
{
    device_finish(w);
    while (w->commands - (int)atomic_load(&w->stream[a].submitted) < 40)
        launch(w, a, 100);
}

/* Completes what is in the device now. It does not wait for an empty device: more follows. */
static void complete(void)
{
    for (uint32_t n = in_device(); n > 0; n--)
        device_step(w, a);
}

/* Waits until the dispatcher has looked at a new time. */
static void seen(void)
{
    uint64_t at = 0;
    cr_assert(buffered());
    clock_advance(1);
    while (at != clock_ns()) {
        pthread_mutex_lock(&w->set->lock);
        at = w->set->gaps.seen_ns;
        pthread_mutex_unlock(&w->set->lock);
        nap_us(100);
    }
}

static void advance(uint64_t us)
{
    for (uint64_t step; us; us -= step) {
        step = us < STEP_US ? us : STEP_US;
        clock_advance(step * 1000 - 1);
        seen();
    }
}

/* A client above comes and goes; after that there is no hold. */
static void request(void)
{
    busy();
    seen();
    atomic_store(&w->stream[a].hold_since, clock_ns());
    atomic_store(&w->stream[a].hold, 1);
    advance(HOLD_US);
    device_finish(w);
    atomic_store(&w->stream[a].hold, 0);
    seen();
}

static void requests(int n, uint64_t gap_us)
{
    for (int i = 0; i < n; i++) {
        request();
        for (uint64_t us = 0; us < gap_us; us += 2000) {
            advance(gap_us - us < 2000 ? gap_us - us : 2000);
            busy();
            seen();
        }
    }
    request();
}

/* Returns how many commands go now while the device completes none. A command that goes only when a
 * marker comes late, after the device has finished, is not counted. */
static uint32_t goes(void)
{
    device_finish(w);
    pthread_mutex_lock(&w->set->lock);
    measure_scale(w->set, SCALE_ONE); /* commands take as long as the test says */
    pthread_mutex_unlock(&w->set->lock);
    busy();
    uint32_t before = UINT32_MAX;
    for (int same = 0; same < 20; same = in_device() == before ? same + 1 : 0) {
        before = in_device();
        device_marks(w, a);
        seen();
        dispatcher_looks(w);
    }
    return in_device();
}

Test(gaps, long_intervals_admit_more_until_request_is_due)
{
    requests(70, 4000);
    cr_expect_eq(goes(), 2, "and he may come earlier than ever: %u", in_device());
    complete();
    advance(2100);
    cr_expect_eq(goes(), 1, "%u", in_device());
}

Test(gaps, few_known_intervals_admit_no_more)
{
    requests(20, 4000);
    cr_expect_eq(goes(), 1, "%u", in_device());
}

Test(gaps, short_interval_is_remembered_for_some_time)
{
    requests(70, 4000);
    request();
    advance(150);
    request();
    cr_expect_eq(goes(), 1, "%u", in_device());
    requests(20, 4000);
    cr_expect_eq(goes(), 1, "%u", in_device());
    requests(80, 4000);
    cr_expect_eq(goes(), 2, "%u", in_device());
}

Test(gaps, short_intervals_admit_no_more)
{
    requests(40, 200);
    cr_expect_eq(goes(), 1, "%u", in_device());
}

/* The microseconds until the dispatcher's next look, if it looked now. */
static uint64_t next_look_us(void)
{
    set_lock(w->set);
    struct job job = order_next(w->set, atomic_load(&w->set->kick));
    set_unlock(w->set);
    cr_assert_eq(job.kind, JOB_SLEEP);
    return (job.wake_ns - clock_ns()) / 1000;
}

/* After a new hold has begun, real time may soon come and go again, between two rare looks. */
Test(gaps, long_hold_gets_rare_looks_until_next_hold_begins)
{
    atomic_store(&w->stream[a].hold_since, clock_ns());
    atomic_store(&w->stream[a].hold, 1);
    int k = launch(w, a, 1);
    dispatcher_looks(w);
    cr_expect_leq(next_look_us(), 250);
    clock_advance(900 * NS_PER_MS);
    cr_expect_leq(next_look_us(), 250);
    clock_advance(4100 * NS_PER_MS);
    uint64_t us = next_look_us();
    cr_expect(us > 40000 && us <= 60000, "%lu us", (unsigned long)us);
    clock_advance(60000 * NS_PER_MS);
    cr_expect_leq(next_look_us(), 100000);
    atomic_store(&w->stream[a].hold_since, clock_ns());
    for (int s = 0; s < 5; s++) {
        cr_expect_leq(next_look_us(), 250);
        clock_advance(1000 * NS_PER_MS);
    }
    atomic_store(&w->stream[a].hold, 0);
    dispatcher_looks(w);
    cr_expect(submitted(w, k));
}
