/* turns.c - a thread is in the driver, or waits for its turn; other threads call for its stream. */
#include <criterion/criterion.h>

#include <signal.h>

#include "tests/vhq/fake.h"
#include "common/clock.h"
#include "vhq/internal.h"

struct caller {
    struct vhq *q;
    pthread_t thread;
    _Atomic int inside, may_leave;
};

static void *caller_main(void *arg)
{
    struct caller *c = arg;
    struct vhq_req req = {.flags = VHQ_MUST_INLINE, .est_ns = 1000};
    struct vhq_cmd *cmd;
    vhq_begin(c->q, &req, &cmd);
    atomic_store(&c->inside, 1);
    WAIT_FOR(atomic_load(&c->may_leave));
    vhq_end(c->q, NULL, 0);
    return NULL;
}

static void caller_start(struct caller *c, struct world *w, int stream)
{
    *c = (struct caller){.q = w->stream[stream].q};
    pthread_create(&c->thread, NULL, caller_main, c);
}

static void caller_end(struct caller *c)
{
    WAIT_FOR(atomic_load(&c->inside));
    atomic_store(&c->may_leave, 1);
    pthread_join(c->thread, NULL);
}

static uint32_t buffered_now(struct world *w, int stream)
{
    struct vhq_stats st;
    vhq_get_stats(w->stream[stream].q, &st);
    return st.buffered_now;
}

Test(turns, later_command_waits_for_call_to_return)
{
    struct caller c;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    clock_freeze();
    caller_start(&c, w, a);
    WAIT_FOR(atomic_load(&c.inside));
    int behind = launch(w, a, 1);
    dispatcher_looks(w);
    cr_assert_not(submitted(w, behind));
    cr_assert(vhq_calling(c.q));
    caller_end(&c);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert(submitted(w, behind));
    cr_assert_not(vhq_calling(c.q));
    device_finish(w);
    world_free(w);
}

static void follows_in_time(bool held)
{
    struct caller c;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    clock_freeze();
    atomic_store(&w->stream[a].hold, held);
    caller_start(&c, w, a);
    WAIT_FOR(held ? buffered_now(w, a) == 1 : atomic_load(&c.inside) != 0);
    int behind = launch(w, a, 1);
    atomic_store(&w->stream[a].hold, 0);
    vhq_release(c.q);
    WAIT_FOR(atomic_load(&c.inside));
    dispatcher_looks(w);
    cr_assert_not(submitted(w, behind));
    clock_advance(200 * NS_PER_MS);
    dispatcher_looks(w);
    vhq_drain(c.q, false, false);
    cr_assert(submitted(w, behind));
    cr_assert(vhq_calling(c.q));
    caller_end(&c);
    cr_assert_not(vhq_calling(c.q));
    int last = launch(w, a, 1);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert(submitted(w, last));
    device_finish(w);
    world_free(w);
}

Test(turns, later_command_passes_stuck_call_after_timeout)
{
    follows_in_time(false);
}

Test(turns, later_command_passes_stuck_turn_after_timeout)
{
    follows_in_time(true);
}

Test(turns, run_in_call_order_with_commands_between)
{
    struct caller first, second, third;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    clock_freeze();
    caller_start(&first, w, a);
    WAIT_FOR(atomic_load(&first.inside));
    caller_start(&second, w, a);
    WAIT_FOR(buffered_now(w, a) == 1);
    int between = launch(w, a, 1);
    caller_start(&third, w, a);
    WAIT_FOR(buffered_now(w, a) == 3);
    caller_end(&first);
    WAIT_FOR(atomic_load(&second.inside));
    cr_assert_not(submitted(w, between) || atomic_load(&third.inside));
    caller_end(&second);
    WAIT_FOR(atomic_load(&third.inside));
    cr_assert(submitted(w, between));
    caller_end(&third);
    device_finish(w);
    world_free(w);
}

static _Atomic int handling, handled;

static void handle(int signal_)
{
    (void)signal_;
    atomic_store(&handling, 1);
    while (!atomic_load(&handled))
        nap_us(100);
}

/* Whether no thread works on the queue. */
static bool lies_still(struct vhq *q)
{
    bool still = queue_trylock(q);
    if (still)
        queue_unlock(q);
    return still;
}

/* A signal handler interrupts the wait for a turn, for longer than the turn is kept. */
Test(turns, are_offered_again_to_a_late_thread)
{
    struct caller c;
    struct vhq_stats st;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    clock_freeze();
    atomic_store(&w->stream[a].hold, 1);
    caller_start(&c, w, a);
    WAIT_FOR(buffered_now(w, a) == 1);
    WAIT_FOR(lies_still(c.q)); /* the thread waits, or is about to */
    /* ThreadSanitizer delivers a signal only when the thread calls one of its functions. */
    WAIT_FOR((pthread_kill(c.thread, SIGUSR1), atomic_load(&handling)));
    atomic_store(&w->stream[a].hold, 0);
    vhq_release(c.q);
    dispatcher_looks(w);
    cr_assert_eq(buffered_now(w, a), 1);
    clock_advance(200 * NS_PER_MS);
    dispatcher_looks(w);
    cr_assert_eq(buffered_now(w, a), 0);
    atomic_store(&handled, 1);
    caller_end(&c);
    vhq_get_stats(c.q, &st);
    cr_assert_eq(st.buffered, 2);
    device_finish(w);
    world_free(w);
}

Test(turns, survive_a_reset_that_drops_other_commands)
{
    struct caller c;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    atomic_store(&w->stream[a].hold, 1);
    int before = launch(w, a, 1);
    caller_start(&c, w, a);
    WAIT_FOR(buffered_now(w, a) == 2);
    int behind = launch(w, a, 1);
    cr_assert_eq(vhq_reset(c.q), 2);
    dispatcher_looks(w);
    cr_assert_not(atomic_load(&c.inside));
    atomic_store(&w->stream[a].hold, 0);
    vhq_release(c.q);
    caller_end(&c);
    vhq_set_drain(w->set, VHQ_DRAIN_ALL, false);
    cr_assert_not(submitted(w, before) || submitted(w, behind));
    cr_assert(w->command[before].drops == 1 && w->command[behind].drops == 1);
    device_finish(w);
    world_free(w);
}

Test(turns, outlive_their_stream)
{
    struct caller c;
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING), b = world_stream(w, VHQ_NONBLOCKING);
    struct vhq_stats st;
    caller_start(&c, w, a);
    WAIT_FOR(atomic_load(&c.inside));
    long live = wrap_live;
    vhq_leave(c.q, true);
    vhq_destroy(c.q);
    cr_assert_eq(wrap_live, live, "its thread will come back");
    int other = launch(w, b, 1);
    cr_assert(submitted(w, other));
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.in_flight_ns, 2000, "%lu", (unsigned long)st.in_flight_ns);
    caller_end(&c);
    cr_assert_eq(wrap_live, live - 1);
    vhq_set_stats(w->set, &st);
    cr_assert_eq(st.in_flight_ns, 1000, "%lu", (unsigned long)st.in_flight_ns);
    cr_assert_eq(st.inlined, 2);
    device_finish(w);
    world_free(w);
}

static void *never_returns(void *arg)
{
    struct vhq_req req = {.flags = VHQ_MUST_INLINE, .est_ns = 1000};
    struct vhq_cmd *cmd;
    vhq_begin(arg, &req, &cmd);
    return NULL;
}

/* The thread is ended in the driver, or leaves it by a jump out of a signal handler. There may be
 * more such turns than places for turns. */
Test(turns, end_with_their_thread)
{
    enum { THREADS = 300 };
    struct world *w = world_new(NULL);
    int a = world_stream(w, VHQ_NONBLOCKING);
    clock_freeze();
    for (int i = 0; i < THREADS; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, never_returns, w->stream[a].q);
        pthread_join(thread, NULL);
        int behind = launch(w, a, 1);
        dispatcher_looks(w);
        cr_assert(submitted(w, behind), "%d", i);
        device_finish(w);
    }
    world_free(w);
}

/* A handler on top of a call has begun another command and left it by a jump, so that command does
 * not end before the call. */
Test(turns, end_with_their_call_despite_nested_command)
{
    struct world *w = world_new(NULL);
    struct vhq *q = w->stream[world_stream(w, VHQ_NONBLOCKING)].q;
    struct vhq *other = w->stream[world_stream(w, VHQ_NONBLOCKING)].q;
    const char deeper_and_less_deep[2] = {0};
    struct vhq_req within = {.est_ns = 1000, .frame = &deeper_and_less_deep[0]};
    struct vhq_req call = {
        .flags = VHQ_MUST_INLINE, .est_ns = 1000, .frame = &deeper_and_less_deep[1]};
    struct vhq_cmd *cmd;
    vhq_begin(q, &call, &cmd);
    vhq_begin(other, &within, &cmd);
    vhq_end(q, call.frame, 0);
    cr_assert_not(vhq_calling(q));
    vhq_end(other, within.frame, 0);
    cr_assert_not(vhq_calling(other));
    world_free(w);
}

/* A signal stack may be above the program's own as well as below it. */
Test(turns, left_on_signal_stack_end_at_next_normal_call)
{
    static char memory[64 + (1 << 16)];
    const char *below = &memory[0];
    stack_t own, signals = {.ss_sp = &memory[64], .ss_size = 1 << 16};
    struct world *w = world_new(NULL);
    struct vhq *q = w->stream[world_stream(w, VHQ_NONBLOCKING)].q;
    struct vhq *other = w->stream[world_stream(w, VHQ_NONBLOCKING)].q;
    struct vhq_req call = {.flags = VHQ_MUST_INLINE, .est_ns = 1000, .frame = below};
    struct vhq_req on_top = {.flags = VHQ_MUST_INLINE, .est_ns = 1000, .frame = &memory[1024]};
    struct vhq_cmd *cmd;
    sigaltstack(&signals, &own);
    vhq_begin(q, &call, &cmd);
    vhq_begin(other, &on_top, &cmd);
    cr_assert(vhq_calling(q));
    vhq_end(q, call.frame, 0);
    vhq_begin(other, &on_top, &cmd);
    vhq_begin(q, &call, &cmd);
    cr_assert_not(vhq_calling(other));
    vhq_end(q, call.frame, 0);
    sigaltstack(&own, NULL);
    world_free(w);
}
