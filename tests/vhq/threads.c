/*
 * threads.c - many producers at once: own and shared streams, shared events, one context or two,
 * holds that come and go, syncs in between. The checker goes by which call returned before which.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/vhq/fake.h"

enum { PRODUCERS = 4, CALLS = 120 };

struct producer {
    struct world *w;
    pthread_t thread;
    uint32_t seed;
    int own;
    bool shared_only;
};

static void random_act(struct producer *p)
{
    struct world *w = p->w;
    uint32_t what = rnd(&p->seed, 20);
    int stream =
        rnd(&p->seed, 3) && !p->shared_only ? p->own : (int)rnd(&p->seed, (uint32_t)w->streams);
    if (what == 0)
        vhq_drain(w->stream[stream].q, rnd(&p->seed, 2) == 0, false);
    else if (what == 1)
        vhq_sync(w->stream[stream].q, rnd(&p->seed, 2) == 0);
    else if (what == 2)
        vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    struct call c = {
        .stream = stream,
        .bytes = rnd(&p->seed, 200),
        .est_ns = 1000 + rnd(&p->seed, 20000),
        .event = (int)rnd(&p->seed, EVENTS_MAX),
        .what = what < 14   ? LAUNCH
                : what < 17 ? RECORD
                            : WAIT,
        .flags = what == 3   ? VHQ_MUST_INLINE
                 : what == 4 ? VHQ_MUST_BUFFER
                             : 0,
        .boost = rnd(&p->seed, 2) == 0,
    };
    world_call(w, &c);
}

static void *produce(void *arg)
{
    struct producer *p = arg;
    for (int i = 0; i < CALLS; i++)
        random_act(p);
    return NULL;
}

static _Atomic uint32_t above;

struct toggler {
    struct world *w;
    _Atomic bool stop;
    uint32_t seed;
};

static void *toggle(void *arg)
{
    struct toggler *t = arg;
    while (!atomic_load(&t->stop)) {
        struct stream *s = &t->w->stream[rnd(&t->seed, (uint32_t)t->w->streams)];
        atomic_store(&s->hold, rnd(&t->seed, 2));
        if (rnd(&t->seed, 8) == 0) /* a client above comes or leaves */
            atomic_fetch_xor(&above, 1);
        if (rnd(&t->seed, 2))
            vhq_hold(s->q);
        else
            vhq_release(s->q);
        nap_us(rnd(&t->seed, 100));
    }
    atomic_store(&above, 1);
    hold_all(t->w, false);
    for (int i = 0; i < t->w->streams; i++)
        vhq_release(t->w->stream[i].q);
    return NULL;
}

static void storm(uint32_t seed, bool shared_only)
{
    struct vhq_config cfg = {.budget_us = 100, .depth = 8, .queue = 64, .above = &above};
    struct world *w = world_new(&cfg);
    struct producer p[PRODUCERS];
    struct toggler t = {.w = w, .seed = seed};
    pthread_t toggler;
    world_stream(w, VHQ_LEGACY);
    for (int i = 0; i < PRODUCERS; i++)
        p[i] = (struct producer){.w = w,
                                 .seed = seed * 31 + (uint32_t)i,
                                 .shared_only = shared_only,
                                 .own = world_stream(w, i % 2 ? VHQ_BLOCKING : VHQ_NONBLOCKING)};
    world_stream_polled(w, VHQ_BLOCKING);
    device_start(w, seed);
    pthread_create(&toggler, NULL, toggle, &t);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_create(&p[i].thread, NULL, produce, &p[i]);
    for (int i = 0; i < PRODUCERS; i++)
        pthread_join(p[i].thread, NULL);
    atomic_store(&t.stop, true);
    pthread_join(toggler, NULL);
    vhq_set_sync(w->set, false);
    cr_assert_null(check_order(w), "seed %u: %s", seed, check_order(w));
    for (int i = 0; i < w->streams; i++)
        cr_assert_eq(w->stream[i].completed, w->stream[i].submitted);
    world_free(w);
}

Test(threads, keep_order_with_a_stream_each)
{
    for (uint32_t seed = 1; seed <= 12; seed++)
        storm(seed, false);
}

Test(threads, keep_order_on_shared_streams)
{
    for (uint32_t seed = 101; seed <= 112; seed++)
        storm(seed, true);
}

/* The dispatcher looks while streams become empty and fill again: it must not see a later call
 * without an earlier one. */
Test(threads, the_dispatcher_sees_a_consistent_cut)
{
    uint32_t seed = 5;
    struct world *w = world_new(NULL);
    int legacy = world_stream(w, VHQ_LEGACY);
    for (int i = 0; i < 3; i++)
        world_stream(w, VHQ_BLOCKING);
    for (int i = 0; i < 3000; i++)
        world_call(w, &(struct call){.stream = rnd(&seed, 2) ? legacy : 1 + (int)rnd(&seed, 3),
                                     .flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER});
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert_null(check_order(w), "%s", check_order(w));
    world_free(w);
}

/* Short commands complete at once: vHQs join and leave the list of those in flight all the time,
 * from several threads. */

struct quick {
    struct vhq *q;
    _Atomic uint32_t done;
    pthread_t thread;
};

static int quick_mark(void *user, struct vhq *q, void *stream, uint32_t value)
{
    struct quick *s = stream;
    atomic_store_explicit(&s->done, value, memory_order_release);
    return 0;
}

static void *quick_main(void *arg)
{
    struct quick *s = arg;
    struct vhq_req req = {.est_ns = 5000};
    struct vhq_cmd *cmd;
    for (int i = 0; i < 100000; i++) {
        if (vhq_begin(s->q, &req, &cmd) == VHQ_BUFFER)
            cmd->run = NULL;
        vhq_end(s->q, NULL, 0);
    }
    return NULL;
}

Test(threads, racing_completions_leave_nothing_in_flight)
{
    struct vhq_config cfg = {.budget_us = 50};
    struct vhq_ops ops = {.mark = quick_mark};
    struct vhq_set *set;
    struct vhq_stats st;
    static struct quick s[3];
    cr_assert_eq(vhq_set_create(&cfg, &ops, NULL, &set), 0);
    for (int i = 0; i < 3; i++) {
        struct vhq_desc desc = {.stream = &s[i], .done = &s[i].done};
        cr_assert_eq(vhq_create(set, &desc, &s[i].q), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_create(&s[i].thread, NULL, quick_main, &s[i]);
    for (int i = 0; i < 3; i++)
        pthread_join(s[i].thread, NULL);
    cr_assert_eq(vhq_set_drain_timeout(set, 20000), 0);
    vhq_set_sync(set, false);
    vhq_set_stats(set, &st);
    cr_assert_eq(st.in_flight_now, 0);
    cr_assert_eq(st.guard_lifts, 0);
    vhq_set_destroy(set, false);
}

/* Commands of two contexts wait for each other's records: a pipeline across sets. */

struct stage {
    struct world *w;
    pthread_t thread;
    struct vhq_fence **in, **out; /* one per item */
    _Atomic int *began;           /* items whose fence of `in` may be waited for */
    _Atomic int *ends;
    int behind; /* it waits for the item of `in` that is so many before its own */
};

enum { ITEMS = 200, BEHIND = 4 };

static _Atomic int waited, early;

static int fenced_run(void *payload)
{
    const struct vhq_fence *const *after = payload;
    if (*after)
        atomic_fetch_add(vhq_fence_submitted(*after) ? &waited : &early, 1);
    return 0;
}

static void fenced_call(struct world *w, struct vhq_fence *after, struct vhq_fence *signals)
{
    struct vhq_req req = {.flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER,
                          .bytes = sizeof(after),
                          .after = after,
                          .signals = signals};
    struct vhq_cmd *cmd;
    vhq_begin(w->stream[0].q, &req, &cmd);
    *(const struct vhq_fence **)cmd->payload = after;
    cmd->run = fenced_run;
    vhq_end(w->stream[0].q, NULL, 0);
}

static void *stage_main(void *arg)
{
    struct stage *s = arg;
    for (int i = 0; i < ITEMS; i++) {
        int other = i - s->behind;
        while (atomic_load(s->began) <= other)
            nap_us(10);
        fenced_call(s->w, other >= 0 ? s->in[other] : NULL, s->out[i]);
        atomic_fetch_add(s->ends, 1);
        launch(s->w, 0, 5);
    }
    return NULL;
}

Test(threads, pipeline_across_contexts_does_not_get_stuck)
{
    struct vhq_fence *ab[ITEMS], *ba[ITEMS];
    _Atomic int a_done = 0, b_done = 0;
    struct world *a = world_new(NULL), *b = world_new(NULL);
    world_stream(a, VHQ_NONBLOCKING);
    world_stream(b, VHQ_NONBLOCKING);
    for (int i = 0; i < ITEMS; i++) {
        ab[i] = vhq_fence_new();
        ba[i] = vhq_fence_new();
    }
    device_start(a, 1);
    device_start(b, 2);
    struct stage first = {
        .w = a, .in = ba, .out = ab, .began = &b_done, .ends = &a_done, .behind = BEHIND};
    struct stage second = {.w = b, .in = ab, .out = ba, .began = &a_done, .ends = &b_done};
    pthread_create(&first.thread, NULL, stage_main, &first);
    pthread_create(&second.thread, NULL, stage_main, &second);
    pthread_join(first.thread, NULL);
    pthread_join(second.thread, NULL);
    cr_assert_eq(vhq_set_drain_timeout(a->set, 100000), 0);
    cr_assert_eq(vhq_set_drain_timeout(b->set, 100000), 0);
    cr_assert_eq(atomic_load(&early), 0, "%d", early);
    cr_assert_eq(atomic_load(&waited), 2 * ITEMS - BEHIND, "%d", waited);
    for (int i = 0; i < ITEMS; i++) {
        cr_assert(vhq_fence_submitted(ba[i]));
        cr_assert(vhq_fence_submitted(ab[i]));
        vhq_fence_put(ab[i]);
        vhq_fence_put(ba[i]);
    }
    world_free(a);
    world_free(b);
}
