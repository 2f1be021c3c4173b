/* fence.c - waits, records and re-records, within a set, across sets, and from plain threads. */
#include <criterion/criterion.h>

#include "tests/vhq/fake.h"

static int record(struct world *w, int stream, int event)
{
    return world_call(w, &(struct call){.stream = stream, .what = RECORD, .event = event});
}

static int wait_event(struct world *w, int stream, int event)
{
    return world_call(w, &(struct call){.stream = stream, .what = WAIT, .event = event});
}

static struct world *two_streams(int *a, int *b)
{
    struct world *w = world_new(NULL);
    *a = world_stream(w, VHQ_NONBLOCKING);
    *b = world_stream(w, VHQ_NONBLOCKING);
    return w;
}

Test(fence, held_record_blocks_wait_and_its_stream)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    atomic_store(&w->stream[a].hold, 1);
    int r = record(w, a, 0), x = wait_event(w, b, 0), k = launch(w, b, 1);
    int other = world_stream(w, VHQ_NONBLOCKING);
    int probe = launch(w, other, 1);
    WAIT_FOR(submitted(w, probe));
    cr_assert_not(submitted(w, x));
    cr_assert_not(submitted(w, k));
    atomic_store(&w->stream[a].hold, 0);
    vhq_drain(w->stream[b].q, false, false);
    cr_assert(submitted(w, r));
    cr_assert_null(check_order(w));
    world_free(w);
}

Test(fence, held_wait_blocks_re_record)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    record(w, a, 0);
    atomic_store(&w->stream[b].hold, 1);
    int x = wait_event(w, b, 0);
    int again = record(w, a, 0);
    int other = world_stream(w, VHQ_NONBLOCKING);
    for (int i = 0; i < 10; i++) {
        launch(w, other, 1);
        vhq_drain(w->stream[other].q, false, false);
    }
    cr_assert_not(submitted(w, again));
    atomic_store(&w->stream[b].hold, 0);
    vhq_drain(w->stream[a].q, false, false);
    cr_assert(w->command[x].submitted < w->command[again].submitted);
    world_free(w);
}

Test(fence, wait_uses_the_latest_record)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    record(w, a, 0);
    atomic_store(&w->stream[a].hold, 1);
    record(w, a, 0); /* held */
    int x = wait_event(w, b, 0);
    cr_assert_not(submitted(w, x));
    atomic_store(&w->stream[a].hold, 0);
    vhq_drain(w->stream[b].q, false, false);
    cr_assert_null(check_order(w));
    world_free(w);
}

Test(fence, records_and_waits_of_idle_streams_go_inline)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    for (int i = 0; i < 100; i++) {
        record(w, a, i % EVENTS_MAX);
        wait_event(w, b, i % EVENTS_MAX);
    }
    for (int i = 0; i < w->commands; i++)
        cr_assert(w->command[i].inlined);
    world_free(w);
}

Test(fence, wakes_the_dispatcher_of_another_context)
{
    struct world *w = world_new(NULL), *v = world_new(NULL);
    world_stream(w, VHQ_NONBLOCKING);
    world_stream(v, VHQ_NONBLOCKING);
    atomic_store(&w->stream[0].hold, 1);
    struct vhq_fence *f = vhq_fence_new();
    struct vhq_req req = {.flags = VHQ_UNCOUNTED, .signals = f};
    struct vhq_cmd *cmd;
    cr_assert_eq(vhq_begin(w->stream[0].q, &req, &cmd), VHQ_BUFFER);
    cmd->run = NULL;
    vhq_end(w->stream[0].q, NULL, 0);
    req = (struct vhq_req){.flags = VHQ_UNCOUNTED, .after = f};
    cr_assert_eq(vhq_begin(v->stream[0].q, &req, &cmd), VHQ_BUFFER);
    cmd->run = NULL;
    vhq_end(v->stream[0].q, NULL, 0);
    int k = launch(v, 0, 1);
    cr_assert_not(submitted(v, k));
    cr_assert_not(vhq_fence_submitted(f));
    atomic_store(&w->stream[0].hold, 0);
    vhq_drain(v->stream[0].q, false, false);
    cr_assert(submitted(v, k));
    cr_assert(vhq_fence_submitted(f));
    vhq_fence_put(f);
    world_free(w);
    world_free(v);
}

Test(fence, boosted_drain_reaches_another_context)
{
    struct world *w = world_new(NULL), *v = world_new(NULL);
    world_stream(w, VHQ_NONBLOCKING);
    world_stream(v, VHQ_NONBLOCKING);
    hold_all(w, true);
    hold_all(v, true);
    struct vhq_fence *f = vhq_fence_new();
    struct vhq_req req = {.flags = VHQ_UNCOUNTED, .signals = f};
    struct vhq_cmd *cmd;
    int ahead = launch(w, 0, 1);
    vhq_begin(w->stream[0].q, &req, &cmd);
    cmd->run = NULL;
    vhq_end(w->stream[0].q, NULL, 0);
    int behind = launch(w, 0, 1);
    req = (struct vhq_req){.flags = VHQ_UNCOUNTED, .after = f};
    vhq_begin(v->stream[0].q, &req, &cmd);
    cmd->run = NULL;
    vhq_end(v->stream[0].q, NULL, 0);
    vhq_drain(v->stream[0].q, true, false);
    cr_assert(submitted(w, ahead));
    cr_assert_not(submitted(w, behind));
    vhq_fence_put(f);
    world_free(w);
    world_free(v);
}

Test(fence, boosted_drain_submits_record_and_what_is_ahead)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    hold_all(w, true);
    int first = launch(w, a, 1), r = record(w, a, 0), last = launch(w, a, 1);
    vhq_fence_drain(w->event[0].fence, true);
    cr_assert(submitted(w, first));
    cr_assert(submitted(w, r));
    cr_assert_not(submitted(w, last));
    world_free(w);
}

static void *drains(void *arg)
{
    vhq_fence_drain(arg, false);
    return NULL;
}

Test(fence, many_threads_drain_one_fence)
{
    pthread_t t[4];
    int a, b;
    struct world *w = two_streams(&a, &b);
    hold_all(w, true);
    record(w, a, 0);
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], NULL, drains, w->event[0].fence);
    nap_us(500);
    hold_all(w, false);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    cr_assert(vhq_fence_submitted(w->event[0].fence));
    world_free(w);
}

Test(fence, record_never_begun_blocks_neither_wait_nor_drain)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    struct vhq_fence *f = vhq_fence_new();
    struct vhq_req req = {.flags = VHQ_UNCOUNTED, .after = f};
    struct vhq_cmd *cmd;
    cr_assert_eq(vhq_begin(w->stream[a].q, &req, &cmd), VHQ_INLINE);
    vhq_end(w->stream[a].q, NULL, 0);
    vhq_fence_cancel(f);
    cr_assert(vhq_fence_submitted(f));
    vhq_fence_drain(f, true);
    vhq_fence_put(f);
    world_free(w);
}

/* Two threads that race on one event may make these calls, which must not wait for each other. */

static void fenced(struct vhq *q, struct vhq_req req)
{
    struct vhq_cmd *cmd;
    req.flags = VHQ_UNCOUNTED | VHQ_MUST_BUFFER;
    cr_assert_eq(vhq_begin(q, &req, &cmd), VHQ_BUFFER);
    cmd->run = NULL;
    vhq_end(q, NULL, 0);
}

Test(fence, wait_ignores_record_begun_later)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    struct vhq_fence *f = vhq_fence_new();
    fenced(w->stream[a].q, (struct vhq_req){.after = f});
    fenced(w->stream[a].q, (struct vhq_req){.signals = f});
    cr_assert_eq(vhq_set_drain_timeout(w->set, 20000), 0);
    cr_assert(vhq_fence_submitted(f));
    vhq_fence_put(f);
    world_free(w);
}

Test(fence, re_record_ignores_record_begun_later)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    struct vhq_fence *f = vhq_fence_new();
    fenced(w->stream[a].q, (struct vhq_req){.displaces = f});
    fenced(w->stream[a].q, (struct vhq_req){.signals = f});
    cr_assert_eq(vhq_set_drain_timeout(w->set, 20000), 0);
    vhq_fence_put(f);
    world_free(w);
}

Test(fence, re_record_ignores_waits_begun_later)
{
    int a, b;
    struct world *w = two_streams(&a, &b);
    struct vhq_fence *f = vhq_fence_new();
    atomic_store(&w->stream[a].hold, 1);
    fenced(w->stream[a].q, (struct vhq_req){.signals = f});
    fenced(w->stream[a].q, (struct vhq_req){.displaces = f});
    fenced(w->stream[a].q, (struct vhq_req){.after = f});
    atomic_store(&w->stream[a].hold, 0);
    cr_assert_eq(vhq_set_drain_timeout(w->set, 20000), 0);
    vhq_fence_put(f);
    world_free(w);
}

Test(fence, reuse_does_not_allocate)
{
    struct vhq_fence *f[200];
    for (int i = 0; i < 200; i++)
        f[i] = vhq_fence_new();
    for (int i = 0; i < 200; i++)
        vhq_fence_put(f[i]);
    long before = wrap_allocs;
    for (int k = 0; k < 100; k++) {
        for (int i = 0; i < 200; i++)
            f[i] = vhq_fence_get(vhq_fence_new());
        for (int i = 0; i < 200; i++) {
            cr_assert_not(vhq_fence_submitted(f[i]));
            vhq_fence_put(f[i]);
            vhq_fence_put(f[i]);
        }
    }
    cr_assert_eq(wrap_allocs, before);
}
