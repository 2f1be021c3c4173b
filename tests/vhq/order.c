/*
 * order.c - which command goes next. Random programs are buffered while everything is held, then
 * random streams are let go. The order of submissions must be exactly that of a slow model, a
 * second version of the rules. Other programs run under random holds; the checker judges them.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

/* ---- the model ------------------------------------------------------------------------------- */

struct model {
    struct world *w;
    int n; /* commands in the model */
    bool done[COMMANDS_MAX], held[STREAMS_MAX];
    int order[COMMANDS_MAX], count;
};

static bool opposite(enum vhq_kind a, enum vhq_kind b)
{
    return (a == VHQ_LEGACY && b == VHQ_BLOCKING) || (a == VHQ_BLOCKING && b == VHQ_LEGACY);
}

/* Whether `late` must follow `early`, which was called before it. */
static bool follows(const struct world *w, int early, int late)
{
    const struct command *a = &w->command[early], *b = &w->command[late];
    return a->stream == b->stream ||
           opposite(w->stream[a->stream].kind, w->stream[b->stream].kind) || b->after == early ||
           b->displaces == early || (b->displaces != NONE && a->after == b->displaces);
}

static bool model_ready(const struct model *m, int i)
{
    if (m->done[i] || m->held[m->w->command[i].stream])
        return false;
    for (int k = 0; k < i; k++) {
        if (!m->done[k] && follows(m->w, k, i))
            return false;
    }
    return true;
}

static void model_run(struct model *m)
{
    for (int i = 0; i < m->n; i++) {
        if (!model_ready(m, i))
            continue;
        m->done[i] = true;
        m->order[m->count++] = i;
        i = -1; /* begins again with the smallest ticket that may go */
    }
}

/* ---- random programs ------------------------------------------------------------------------- */

static void random_streams(struct world *w, uint32_t *seed)
{
    int n = 2 + (int)rnd(seed, 6);
    for (int i = 0; i < n; i++)
        world_stream(w, i == 0 && rnd(seed, 2) ? VHQ_LEGACY
                        : rnd(seed, 3)         ? VHQ_BLOCKING
                                               : VHQ_NONBLOCKING);
}

static struct call random_call(struct world *w, uint32_t *seed)
{
    uint32_t what = rnd(seed, 10);
    struct call c = {
        .stream = (int)rnd(seed, (uint32_t)w->streams),
        .bytes = rnd(seed, 20) == 0 ? rnd(seed, 65536) : rnd(seed, 300),
        .est_ns = 1000 + rnd(seed, 30000),
        .event = (int)rnd(seed, 3),
        .what = what < 5   ? LAUNCH
                : what < 7 ? RECORD
                           : WAIT,
    };
    if (rnd(seed, 10) == 0)
        c.flags |= VHQ_UNCOUNTED;
    if (rnd(seed, 20) == 0)
        c.flags |= VHQ_MUST_BUFFER;
    return c;
}

/* Keeps the dispatcher in a driver call while hold words change, so that it sees all at once. */
static int dispatcher_busy(struct world *w, int stream)
{
    atomic_store(&w->run_wait, 1);
    int i =
        world_call(w, &(struct call){.stream = stream, .flags = VHQ_MUST_BUFFER | VHQ_UNCOUNTED});
    WAIT_FOR(atomic_load(&w->in_run) == 1);
    return i;
}

static void compare(const struct model *m, uint32_t seed)
{
    static int position[COMMANDS_MAX];
    for (int i = 0; i < m->count; i++)
        position[i] = m->order[i];
    for (int i = 1; i < m->count; i++) {
        const struct command *a = &m->w->command[position[i - 1]];
        const struct command *b = &m->w->command[position[i]];
        cr_assert(a->submitted < b->submitted, "seed %u: model says %d before %d", seed,
                  position[i - 1], position[i]);
    }
}

static void exact_program(uint32_t seed)
{
    static struct model m;
    uint32_t s = seed;
    struct world *w = world_new(&(struct vhq_config){.budget_us = 4000000, .depth = 1024});
    random_streams(w, &s);
    hold_all(w, true);
    int calls = 10 + (int)rnd(&s, 60);
    /* While the program is made nothing may go inline, not even in a stream that is not held. */
    for (int i = 0; i < calls; i++) {
        struct call c = random_call(w, &s);
        world_call(w, &c);
    }
    int plain = world_stream(w, VHQ_NONBLOCKING);
    m = (struct model){.w = w, .n = calls};
    for (int round = 0; round < 3; round++) {
        int busy = dispatcher_busy(w, plain);
        for (int i = 0; i < plain; i++) {
            bool hold = round < 2 && rnd(&s, 2);
            m.held[i] = hold;
            atomic_store(&w->stream[i].hold, hold);
        }
        atomic_store(&w->run_wait, 0);
        model_run(&m);
        WAIT_FOR(submitted_count(w) >= m.count + round + 1);
        cr_assert(submitted(w, busy));
    }
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    compare(&m, seed);
    cr_assert_null(check_order(w), "seed %u: %s", seed, check_order(w));
    world_free(w);
}

Test(order, follows_the_model_exactly_in_300_random_programs)
{
    for (uint32_t seed = 1; seed <= 300; seed++)
        exact_program(seed);
}

/* ---- free running ---------------------------------------------------------------------------- */

struct toggler {
    struct world *w;
    _Atomic bool stop;
    uint32_t seed;
};

static void *toggle(void *arg)
{
    struct toggler *t = arg;
    while (!atomic_load(&t->stop)) {
        int i = (int)rnd(&t->seed, (uint32_t)t->w->streams);
        atomic_store(&t->w->stream[i].hold, rnd(&t->seed, 2));
        nap_us(rnd(&t->seed, 60));
    }
    hold_all(t->w, false);
    return NULL;
}

static void free_program(uint32_t seed)
{
    uint32_t s = seed;
    struct vhq_config cfg = {
        .budget_us = 20 + rnd(&s, 200),
        .depth = 1 + rnd(&s, 40),
        .queue = 4 + rnd(&s, 100),
    };
    struct world *w = world_new(&cfg);
    struct toggler t = {.w = w, .seed = seed};
    pthread_t thread;
    random_streams(w, &s);
    device_start(w, seed);
    pthread_create(&thread, NULL, toggle, &t);
    int calls = 20 + (int)rnd(&s, 150);
    for (int i = 0; i < calls; i++) {
        struct call c = random_call(w, &s);
        if (rnd(&s, 15) == 0)
            c.flags = (c.flags & ~(uint32_t)VHQ_MUST_BUFFER) | VHQ_MUST_INLINE;
        world_call(w, &c);
    }
    atomic_store(&t.stop, true);
    pthread_join(thread, NULL);
    vhq_set_sync(w->set, false);
    cr_assert_null(check_order(w), "seed %u: %s", seed, check_order(w));
    struct vhq_stats st;
    vhq_set_stats(w->set, &st);
    if (st.guard_lifts == 0) /* a machine that stood still for 100 ms proves nothing */
        cr_assert_null(check_cap(w, false), "seed %u: %s", seed, check_cap(w, false));
    cr_assert_eq(st.submitted, (uint64_t)w->commands);
    cr_assert_eq(st.in_flight_now, 0);
    world_free(w);
}

Test(order, is_legal_in_200_random_programs_with_holds_and_caps)
{
    for (uint32_t seed = 1; seed <= 200; seed++)
        free_program(seed);
}

Test(order, boosted_drain_submits_exactly_its_dependencies)
{
    for (uint32_t seed = 1; seed <= 150; seed++) {
        uint32_t s = seed * 77;
        bool need[COMMANDS_MAX] = {false};
        struct world *w = world_new(&(struct vhq_config){.budget_us = 4000000, .depth = 1024});
        random_streams(w, &s);
        hold_all(w, true);
        int calls = 10 + (int)rnd(&s, 50), expected = 0;
        for (int i = 0; i < calls; i++) {
            struct call c = random_call(w, &s);
            world_call(w, &c);
        }
        int x = (int)rnd(&s, (uint32_t)w->streams);
        for (int i = calls - 1; i >= 0; i--) {
            need[i] = w->command[i].stream == x;
            for (int k = i + 1; k < calls && !need[i]; k++)
                need[i] = need[k] && follows(w, i, k);
            expected += need[i];
        }
        vhq_drain(w->stream[x].q, true, false);
        for (int i = 0; i < calls; i++)
            cr_assert_eq(submitted(w, i), need[i], "seed %u: command %d", seed, i);
        cr_assert_eq(submitted_count(w), expected);
        world_free(w);
    }
}

/* The dispatcher looked at a stream while it was empty, and the next stream already has a later
 * command. What such a look finds must be left for the next look. By hand, without a dispatcher. */
Test(order, look_leaves_commands_newer_than_its_start)
{
    struct world *w = world_new(NULL);
    struct vhq_set *s = w->set;
    int a = world_stream(w, VHQ_BLOCKING), legacy = world_stream(w, VHQ_LEGACY);
    atomic_store(&s->thread_up, 1);
    launch(w, a, 1); /* inline */
    world_call(w, &(struct call){.stream = legacy, .flags = VHQ_MUST_BUFFER | VHQ_UNCOUNTED});
    atomic_store(&s->issued, 0); /* the look began before the call */
    cr_assert_eq(order_next(s, 0).kind, JOB_AGAIN);
    atomic_store(&s->issued, 1);
    struct job job = order_next(s, 0);
    cr_assert_eq(job.kind, JOB_RUN);
    cr_assert_eq(job.q, w->stream[legacy].q);
    job.slot->cmd.run(job.slot->cmd.payload);
    dispatcher_retire(job.q, RUN_NONE);
    cr_assert_eq(order_next(s, 0).kind, JOB_SLEEP);
    atomic_store(&s->thread_up, 0);
    device_finish(w);
    world_free(w);
}

/* ---- what a look costs: by hand, without a dispatcher ---------------------------------------- */

/* Streams that share a hold word, each with `each` commands buffered. */
static struct world *crowd(int each)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 1000000, .depth = 1024});
    for (int i = 0; i < STREAMS_MAX; i++) {
        world_stream(w, VHQ_NONBLOCKING);
        atomic_store(&w->stream[i].q->hold, &w->stream[0].hold);
    }
    w->set->gaps.several = false;
    atomic_store(&w->set->thread_up, 1);
    atomic_store(&w->stream[0].hold, 1);
    for (int i = 0; i < each * STREAMS_MAX; i++)
        launch(w, i % STREAMS_MAX, 1);
    return w;
}

/* Submits the next command. False: none may go. */
static bool goes(struct vhq_set *s)
{
    struct job job;
    while ((job = order_next(s, atomic_load(&s->kick))).kind == JOB_AGAIN)
        ;
    if (job.kind != JOB_RUN)
        return false;
    job.slot->cmd.run(job.slot->cmd.payload);
    dispatcher_retire(job.q, RUN_NONE);
    return true;
}

static void crowd_free(struct world *w)
{
    atomic_store(&w->set->thread_up, 0);
    device_finish(w);
    world_free(w);
}

/* At most MOST looks at heads for each command: two or three, and now and then one at all of
 * them. */
enum { EACH = 8, MOST = 6 };

Test(order, release_does_not_scan_all_streams_per_command)
{
    struct world *w = crowd(EACH);
    cr_assert_not(goes(w->set));
    atomic_store(&w->stream[0].hold, 0);
    long before = atomic_load(&wrap_heads);
    for (int i = 0; i < EACH * STREAMS_MAX; i++)
        cr_assert(goes(w->set) && submitted(w, i), "command %d", i);
    cr_assert_leq(atomic_load(&wrap_heads) - before, EACH * STREAMS_MAX * MOST);
    crowd_free(w);
}

Test(order, held_stream_causes_no_full_scan_per_command)
{
    struct world *w = crowd(EACH);
    vhq_hold(w->stream[0].q);
    atomic_store(&w->stream[0].hold, 0);
    long before = atomic_load(&wrap_heads);
    for (int i = 0; i < EACH * (STREAMS_MAX - 1); i++)
        cr_assert(goes(w->set));
    cr_assert_leq(atomic_load(&wrap_heads) - before, EACH * STREAMS_MAX * MOST);
    cr_assert_not(goes(w->set));
    vhq_release(w->stream[0].q);
    for (int i = 0; i < EACH; i++)
        cr_assert(goes(w->set) && submitted(w, i * STREAMS_MAX));
    crowd_free(w);
}

Test(order, look_under_hold_reads_only_the_shared_hold_word)
{
    struct world *w = crowd(1);
    cr_assert_not(goes(w->set));
    long before = atomic_load(&wrap_heads);
    for (int i = 0; i < STREAMS_MAX; i++)
        cr_assert_not(goes(w->set));
    cr_assert_leq(atomic_load(&wrap_heads), before);
    /* Whatever else may let a command go kicks the dispatcher. */
    order_boost(&w->stream[1].q->boost_below, atomic_load(&w->set->issued));
    dispatcher_kick(w->set);
    cr_assert(goes(w->set) && submitted(w, 1));
    cr_assert_not(goes(w->set));
    atomic_store(&w->stream[0].hold, 0);
    cr_assert(goes(w->set) && submitted(w, 0));
    crowd_free(w);
}

/* A command that cannot go passes its boost on to those ahead of it, and they go at once. */
Test(order, boost_passed_on_by_short_look_acts_at_once)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100, .depth = 1024});
    struct vhq_set *s = w->set;
    atomic_store(&w->above, 1);
    atomic_store(&s->thread_up, 1);
    int legacy = world_stream(w, VHQ_LEGACY), blocking = world_stream(w, VHQ_BLOCKING);
    for (int i = 2; i < STREAMS_MAX; i++)
        world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    world_call(w, &(struct call){.stream = legacy, .flags = VHQ_MUST_BUFFER | VHQ_UNCOUNTED});
    for (int i = 1; i < STREAMS_MAX; i++)
        launch(w, i, 200);
    launch(w, 2, 200); /* a stream that gets empty is another reason to look again */
    vhq_hold(w->stream[legacy].q);
    hold_all(w, false);
    clock_freeze();
    cr_assert(goes(s) && submitted(w, 2), "there is no more room now");
    order_boost(&w->stream[blocking].q->boost_below, atomic_load(&s->issued));
    cr_assert(goes(s) && submitted(w, 0));
    vhq_release(w->stream[legacy].q);
    crowd_free(w);
}

/* ---- the checker bites ----------------------------------------------------------------------- */

static struct world *good_world(void)
{
    struct world *w = world_new(NULL);
    int legacy = world_stream(w, VHQ_LEGACY), a = world_stream(w, VHQ_BLOCKING);
    int b = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 10);                                           /* 0 */
    launch(w, a, 10);                                           /* 1 */
    launch(w, legacy, 10);                                      /* 2 */
    world_call(w, &(struct call){.stream = a, .what = RECORD}); /* 3 */
    world_call(w, &(struct call){.stream = b, .what = WAIT});   /* 4 */
    world_call(w, &(struct call){.stream = a, .what = RECORD}); /* 5 */
    launch(w, legacy, 10);                                      /* 6 */
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    return w;
}

static void swap(struct world *w, int i, int j)
{
    uint64_t t = w->command[i].submitted;
    w->command[i].submitted = w->command[j].submitted;
    w->command[j].submitted = t;
}

Test(checker, finds_every_broken_rule)
{
    static const struct {
        int i, j;
    } pairs[] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}, {5, 6}, {3, 5}};
    struct world *w = good_world();
    cr_assert_null(check_order(w));
    for (size_t k = 0; k < sizeof(pairs) / sizeof(pairs[0]); k++) {
        swap(w, pairs[k].i, pairs[k].j);
        cr_assert_not_null(check_order(w), "pair %zu", k);
        swap(w, pairs[k].i, pairs[k].j);
    }
    cr_assert_null(check_order(w));
    w->command[1].submits = 2;
    cr_assert_not_null(check_order(w), "a repeated command");
    w->command[1].submits = 0;
    cr_assert_not_null(check_order(w), "a lost command");
    w->command[1].submits = 1;
    w->cfg.budget_us = 5;
    w->cfg.depth = 1;
    w->command[1].flying_ns = 10000;
    w->command[1].in_flight = 0;
    cr_assert_not_null(check_cap(w, true), "the budget");
    w->command[1].flying_ns = 0;
    w->command[1].in_flight = 1;
    cr_assert_not_null(check_cap(w, true), "the depth");
    world_free(w);
}
