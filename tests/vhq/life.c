/* life.c - memory, threads, creation and destruction, fork. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/vhq/fake.h"

static int threads_named(const char *name)
{
    int n = 0;
    DIR *dir = opendir("/proc/self/task");
    for (struct dirent *e; (e = readdir(dir));) {
        char path[300], comm[32] = "";
        snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        if (fgets(comm, sizeof(comm), f))
            n += strncmp(comm, name, strlen(name)) == 0;
        fclose(f);
    }
    closedir(dir);
    return n;
}

Test(life, thread_starts_on_first_buffering_and_ends_with_set)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    launch(w, a, 1);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, true);
    cr_assert_eq(threads_named("cutin-vhq"), 0);
    hold_all(w, true);
    launch(w, a, 1);
    WAIT_FOR(threads_named("cutin-vhq") == 1);
    world_free(w);
    cr_assert_eq(threads_named("cutin-vhq"), 0);
}

Test(life, launches_do_not_allocate)
{
    struct world *w = world_new(&(struct vhq_config){.budget_us = 100});
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_BLOCKING);
    device_start(w, 1);
    /* Fences come in chunks, and how many are out at a time depends on which thread runs when. So a
     * round may still need another chunk; if launches allocated, every round would. */
    long allocs = 1;
    for (int round = 0; round < 10 && allocs; round++) {
        long before = wrap_allocs;
        for (int i = 0; i < 1000; i++) {
            launch(w, i % 2 ? a : b, 10);
            world_call(w, &(struct call){.stream = a, .what = i % 3 ? WAIT : RECORD, .event = 1});
        }
        vhq_set_sync(w->set, false);
        allocs = wrap_allocs - before;
    }
    cr_assert_eq(allocs, 0, "%ld allocations in the last round", allocs);
    world_free(w);
}

Test(life, ten_thousand_vhqs_come_and_go_without_growth)
{
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    _Atomic uint32_t done = 0;
    struct vhq_desc desc = {.stream = &w->stream[a], .user = NULL, .done = &done};
    struct vhq_stats st;
    struct vhq *q[10];
    long before = wrap_live;
    for (int i = 0; i < 1000; i++) {
        for (int k = 0; k < 10; k++) {
            struct vhq_req req = {.est_ns = 1000, .flags = k % 3 == 0 ? VHQ_MUST_BUFFER : 0};
            struct vhq_cmd *cmd;
            cr_assert_eq(vhq_create(w->set, &desc, &q[k]), 0);
            if (vhq_begin(q[k], &req, &cmd) == VHQ_BUFFER)
                cmd->run = NULL;
            vhq_end(q[k], NULL, 0);
        }
        for (int k = 0; k < 10; k++)
            vhq_destroy(q[k]);
    }
    cr_assert_eq(wrap_live, before);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.in_flight_now, 0);
    cr_assert_geq(st.buffered, 4000);
    cr_assert_eq(st.inlined + st.buffered, 10000);
    world_free(w);
}

Test(life, destroying_set_submits_everything_first)
{
    static struct world *w;
    static _Atomic uint32_t seen;
    w = world_new(&(struct vhq_config){.budget_us = 4000000, .depth = 1024});
    int a = world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    vhq_hold(w->stream[a].q); /* by the application, which forgot it */
    for (int i = 0; i < 500; i++)
        launch(w, a, 1);
    hold_all(w, false);
    vhq_set_destroy(w->set, false);
    seen = w->stream[a].submitted;
    cr_assert_eq(seen, 500);
}

struct syncer {
    struct world *w;
    _Atomic bool stop;
};

/* Commands and markers that the device was given for a stream. */
static uint32_t given(struct world *w, int stream)
{
    pthread_mutex_lock(&w->lock);
    uint32_t n = w->stream[stream].tail;
    pthread_mutex_unlock(&w->lock);
    return n;
}

static void *syncs(void *arg)
{
    struct syncer *s = arg;
    while (!atomic_load(&s->stop))
        vhq_set_sync(s->w->set, false);
    return NULL;
}

Test(life, vhqs_may_be_destroyed_during_context_sync)
{
    struct world *w = world_new(NULL);
    struct syncer s = {.w = w};
    pthread_t t;
    struct vhq_stats st;
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    world_call(w, &(struct call){.stream = a, .flags = VHQ_MUST_BUFFER}); /* it has a ring now */
    vhq_drain(w->stream[a].q, false, false);
    long live = wrap_live;
    device_start(w, 1);
    pthread_create(&t, NULL, syncs, &s);
    for (int i = 0; i < 500; i++) {
        struct vhq *q;
        static _Atomic uint32_t never;
        bool awaited = i % 2; /* its command is never known complete: only its end ends the sync */
        struct vhq_desc desc = {.stream = &w->stream[b], .done = awaited ? &never : NULL};
        struct vhq_req req = {.est_ns = 1000, .flags = awaited ? VHQ_UNCOUNTED : 0};
        struct vhq_cmd *cmd;
        vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
        uint32_t before = given(w, b);
        cr_assert_eq(vhq_create(w->set, &desc, &q), 0);
        if (vhq_begin(q, &req, &cmd) == VHQ_BUFFER)
            cmd->run = NULL;
        vhq_end(q, NULL, 0);
        launch(w, a, 10);
        if (awaited)
            WAIT_FOR(given(w, b) > before); /* the marker of the thread that syncs */
        vhq_destroy(q);
    }
    atomic_store(&s.stop, true);
    pthread_join(t, NULL);
    vhq_set_sync(w->set, false);
    cr_assert_eq(wrap_live, live, "each of them is gone");
    cr_assert_eq(w->stream[a].completed, 501);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.inlined + st.buffered, 1001);
    cr_assert_eq(st.in_flight_now, 0);
    world_free(w);
}

static int nested_result, nested_deferred;
static struct vhq *nested_queue;

static int run_deferred(void *payload)
{
    nested_deferred += *(int *)payload;
    return 0;
}

static int run_nested(void *payload)
{
    struct vhq_req req = {.est_ns = 1};
    struct vhq_cmd *cmd;
    nested_result = vhq_in_dispatcher() && vhq_begin(nested_queue, &req, &cmd) == VHQ_INLINE;
    vhq_end(nested_queue, NULL, 0);
    req = (struct vhq_req){.flags = VHQ_MUST_BUFFER | VHQ_UNCOUNTED, .bytes = sizeof(int)};
    nested_result += vhq_begin(nested_queue, &req, &cmd) == VHQ_BUFFER;
    *(int *)cmd->payload = 5;
    cmd->run = run_deferred;
    vhq_end(nested_queue, NULL, 0);
    vhq_drain(nested_queue, true, false);
    vhq_sync(nested_queue, true);
    return 0;
}

Test(life, a_command_may_itself_make_calls)
{
    struct world *w = world_new(NULL);
    world_stream(w, VHQ_NONBLOCKING);
    nested_queue = w->stream[0].q;
    struct vhq_req req = {.flags = VHQ_MUST_BUFFER | VHQ_UNCOUNTED, .bytes = 16};
    struct vhq_cmd *cmd;
    cr_assert_eq(vhq_begin(nested_queue, &req, &cmd), VHQ_BUFFER);
    cmd->run = run_nested;
    vhq_end(nested_queue, NULL, 0);
    vhq_drain(nested_queue, false, false);
    cr_assert_eq(nested_result, 2);
    cr_assert_eq(nested_deferred, 5);
    cr_assert_not(vhq_in_dispatcher());
    world_free(w);
}

static int child(struct world *w)
{
    vhq_after_fork();
    for (int i = 0; i < 5; i++) {
        launch(w, 0, 100000);
        world_call(w, &(struct call){.stream = 0, .what = i % 2 ? WAIT : RECORD});
    }
    vhq_drain(w->stream[0].q, true, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    vhq_sync(w->stream[0].q, false);
    vhq_set_sync(w->set, false);
    vhq_hold(w->stream[0].q);
    if (vhq_reset(w->stream[0].q) != 0)
        return 2;
    struct vhq_fence *f = vhq_fence_new();
    vhq_fence_drain(f, true);
    vhq_fence_put(f);
    vhq_destroy(w->stream[0].q);
    vhq_set_destroy(w->set, false);
    for (int i = w->commands - 10; i < w->commands; i++) {
        if (!w->command[i].inlined)
            return 3;
    }
    return 0;
}

Test(life, forked_child_bypasses_vhqs)
{
    int status;
    struct world *w = world_new(NULL);
    world_stream(w, VHQ_NONBLOCKING);
    hold_all(w, true);
    for (int i = 0; i < 10; i++)
        launch(w, 0, 1);
    pid_t pid = world_fork(w);
    if (pid == 0)
        _exit(child(w));
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
    hold_all(w, false);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert_eq(submitted_count(w), 10);
    world_free(w);
}
