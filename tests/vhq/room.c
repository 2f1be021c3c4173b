/*
 * room.c - a stream without room in the driver keeps only its own commands waiting.
 */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

static int uncounted(struct world *w, int stream)
{
    return world_call(w, &(struct call){.stream = stream, .flags = VHQ_UNCOUNTED});
}

/* Puts as many commands into the driver as it surely takes. */
static void fill(struct world *w, int stream)
{
    for (int i = 0; i < ROOM_SURE; i++)
        uncounted(w, stream);
}

/* Buffers one more, for which there is no room. */
static int overfill(struct world *w, int stream)
{
    vhq_hold(w->stream[stream].q);
    int last = uncounted(w, stream);
    atomic_store(&w->stream[stream].full, true);
    return last;
}

static void make_room(struct world *w, int stream, int last)
{
    atomic_store(&w->stream[stream].full, false);
    WAIT_FOR(submitted(w, last));
}

Test(room, full_stream_blocks_no_other_stream)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    fill(w, a);
    int last = overfill(w, a);
    vhq_release(w->stream[a].q);
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    int one = launch(w, b, 1),
        turn = world_call(w, &(struct call){.stream = b, .flags = VHQ_MUST_INLINE});
    WAIT_FOR(submitted(w, one));
    cr_assert(submitted(w, turn));
    cr_assert(!submitted(w, last));
    make_room(w, a, last);
    device_finish(w);
    world_free(w);
}

/* Its own stream's next commands wait, and so does a legacy command behind a blocking stream's. */
Test(room, full_stream_blocks_its_followers)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_BLOCKING), legacy = world_stream(w, VHQ_LEGACY);
    fill(w, a);
    int last = overfill(w, a);
    int own = launch(w, a, 1), behind = launch(w, legacy, 1);
    vhq_release(w->stream[a].q);
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    dispatcher_looks(w);
    cr_assert(!submitted(w, own));
    cr_assert(!submitted(w, behind));
    make_room(w, a, last);
    WAIT_FOR(submitted(w, behind));
    cr_assert_null(check_order(w));
    device_finish(w);
    world_free(w);
}

Test(room, several_streams_may_be_full_repeatedly)
{
    enum { FULL = 4 };
    int a[FULL], last[FULL];
    struct world *w = world_new(NULL);
    int b = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < FULL; i++)
        a[i] = world_stream(w, VHQ_NONBLOCKING);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < FULL; i++)
            fill(w, a[i]);
        for (int i = 0; i < FULL; i++)
            last[i] = overfill(w, a[i]);
        for (int i = 0; i < FULL; i++)
            vhq_release(w->stream[a[i]].q);
        WAIT_FOR(atomic_load(&w->in_run) == FULL);
        int one = launch(w, b, 1);
        WAIT_FOR(submitted(w, one));
        for (int i = 0; i < FULL; i++)
            make_room(w, a[i], last[i]);
        vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
        device_finish(w);
        cr_assert_leq(w->set->threads, FULL + 1);
    }
    world_free(w);
}

struct closer {
    struct world *w;
    pthread_t thread;
    int submitted; /* when the set was closed */
    _Atomic bool closed;
};

static void *closes(void *arg)
{
    struct closer *c = arg;
    vhq_set_destroy(c->w->set, false);
    c->submitted = submitted_count(c->w);
    atomic_store(&c->closed, true);
    return NULL;
}

static bool set_is_open(struct world *w)
{
    pthread_mutex_lock(&w->set->lock);
    bool open = w->set->stage == SET_OPEN;
    pthread_mutex_unlock(&w->set->lock);
    return open;
}

Test(room, closing_set_waits_until_its_commands_have_room)
{
    struct world *w = world_new(NULL);
    struct closer c = {.w = w};
    int a = world_stream(w, VHQ_NONBLOCKING);
    fill(w, a);
    int last = overfill(w, a), behind = uncounted(w, a);
    vhq_release(w->stream[a].q);
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    pthread_create(&c.thread, NULL, closes, &c);
    WAIT_FOR(atomic_load(&c.closed) || !set_is_open(w));
    if (!atomic_load(&c.closed))
        dispatcher_looks(w); /* the other thread, which has not lent its role, sees it, too */
    cr_assert_not(atomic_load(&c.closed) || submitted(w, last));
    make_room(w, a, last);
    pthread_join(c.thread, NULL);
    cr_assert_eq(c.submitted, ROOM_SURE + 2, "%d", c.submitted);
    cr_assert(submitted(w, behind));
    world_forget(w);
}
