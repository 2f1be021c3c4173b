/* pad.c - which commands go although they are held, and which do not. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"

enum { SOON_US = 1000 };

static struct world *w;
static int a, b;

static void setup(void)
{
    clock_freeze();
    w = world_new(NULL);
    a = world_stream(w, VHQ_NONBLOCKING);
    b = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, 1);
    atomic_store(&w->stream[b].hold, 1);
}

static void teardown(void)
{
    world_free(w);
}

TestSuite(pad, .init = setup, .fini = teardown);

static int kernel(int stream, uint64_t est_us, uint32_t eighths)
{
    return world_call(w, &(struct call){.stream = stream,
                                        .flags = VHQ_MAY_PAD,
                                        .est_ns = est_us * 1000,
                                        .eighths = eighths});
}

static void goes(int command)
{
    WAIT_FOR(submitted(w, command));
}

static bool finished(int command)
{
    device_finish(w); /* again and again: markers may come late */
    return submitted(w, command);
}

static void goes_at_last(int command)
{
    WAIT_FOR(finished(command));
}

static void stays(int command)
{
    dispatcher_looks(w);
    cr_expect_not(submitted(w, command));
}

static uint64_t padded(void)
{
    return vhq_set_padded(w->set);
}

Test(pad, without_room_nothing_goes)
{
    stays(kernel(a, 10, 1));
    cr_expect_eq(padded(), 0);
}

Test(pad, kernel_goes_once_it_fits_the_room)
{
    world_room(w, 3, SOON_US);
    goes(kernel(a, 10, 3));
    cr_expect_eq(padded(), 1);
    int wide = kernel(a, 10, 4);
    stays(wide);
    world_room(w, 4, SOON_US);
    goes_at_last(wide);
    cr_expect_eq(padded(), 2);
}

Test(pad, kernel_of_unknown_cost_stays_held)
{
    world_room(w, 8, SOON_US);
    stays(launch(w, a, 10));
}

Test(pad, kernel_outlasting_its_holder_stays_held)
{
    world_room(w, 8, 50);
    int longer = kernel(a, 60, 1);
    stays(longer);
    goes(kernel(b, 50, 1));
    world_room(w, 8, 60);
    goes_at_last(longer);
}

Test(pad, kernels_ahead_in_stream_add_to_duration)
{
    world_room(w, 8, 100);
    goes(kernel(a, 60, 1));
    int behind = kernel(a, 60, 1);
    stays(behind);
    goes_at_last(behind);
}

Test(pad, room_is_shared_among_streams_not_within_one)
{
    world_room(w, 4, SOON_US);
    goes(kernel(a, 10, 3));
    goes(kernel(a, 10, 2));
    int wide = kernel(b, 10, 2);
    stays(wide);
    goes_at_last(wide);
    cr_expect_eq(padded(), 3);
}

Test(pad, work_in_flight_at_start_of_hold_takes_room)
{
    atomic_store(&w->stream[b].hold, 0);
    launch(w, b, 10); /* it is not known how much of the device this one takes */
    atomic_store(&w->stream[b].hold, 1);
    world_room(w, 4, SOON_US);
    int beside = kernel(a, 10, 1);
    stays(beside);
    goes_at_last(beside);
}

Test(pad, cap_still_applies)
{
    world_room(w, 8, SOON_US);
    goes(kernel(a, 150, 1));
    int behind = kernel(a, 150, 1);
    stays(behind);
    goes_at_last(behind);
}

Test(pad, record_goes_but_other_uncounted_commands_stay)
{
    world_room(w, 1, SOON_US);
    goes(world_call(w, &(struct call){.stream = a, .what = RECORD, .flags = VHQ_MAY_PAD}));
    stays(world_call(w, &(struct call){.stream = a, .flags = VHQ_UNCOUNTED}));
    cr_expect_eq(padded(), 0);
}

Test(pad, application_hold_is_respected)
{
    world_room(w, 8, SOON_US);
    vhq_hold(w->stream[a].q);
    int k = kernel(a, 10, 1);
    stays(k);
    vhq_release(w->stream[a].q);
    goes(k);
}
