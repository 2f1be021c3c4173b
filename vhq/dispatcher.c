/*
 * dispatcher.c - the thread of a set that submits what is buffered.
 *
 * It starts when something is buffered for the first time. It sleeps on one futex, `kick`, until a
 * vHQ gets its first command, a fence changes, another thread asks for a look, or order.c wants
 * one. It never spins, and holds no lock while it is in a command or in ops.
 *
 * The driver lets a thread wait that submits to a stream without room, maybe until the program does
 * something else first. So where there may be no room, the thread lends its role for the time of
 * the call. A spare thread looks every now and then, and takes the role if the call takes long. If
 * a spare thread is needed and there is none, one is started.
 */
#include "vhq/internal.h"

#include <errno.h>
#include <sys/prctl.h>

#include "common/thread.h"

enum { LENT_MS = 1 }; /* a thread that is in a call for so long dispatches no more */

_Thread_local uint32_t vhq_t_inside __attribute__((tls_model("initial-exec")));

void dispatcher_kick(struct vhq_set *s)
{
    /* seq_cst on both sides: either the sleeper sees the kick, or the kicker sees the sleeper. */
    atomic_fetch_add(&s->kick, 1);
    if (atomic_load(&s->sleeping))
        futex_wake(&s->kick);
}

void dispatcher_ready(struct vhq *q)
{
    struct vhq_set *s = q->set;
    /* seq_cst: tail_seq was stored before. Partner: order_head, the other way round. A listed vHQ
     * needs nothing: its head is known, and what is behind that changes nothing. */
    if (likely(atomic_load(&q->ready_listed)) || atomic_exchange(&q->ready_listed, 1))
        return;
    q->ready_next = atomic_load_explicit(&s->fresh_ready, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&s->fresh_ready, &q->ready_next, q,
                                                  memory_order_release, memory_order_relaxed))
        ;
    dispatcher_kick(s);
}

/* ---- retiring a command ---------------------------------------------------------------------- */

void slot_submitted(struct vhq *q, const struct slot *slot)
{
    /* Release, before the fence tells: a thread that sees it submitted finds the vHQ not busy. */
    atomic_store_explicit(&q->submitted_seq, peek(q->ring.head_seq) + 1, memory_order_release);
    if (unlikely(slot->flags & VHQ_PEER))
        atomic_fetch_sub_explicit(&q->peers, 1, memory_order_relaxed);
}

void slot_release(const struct slot *slot)
{
    if (slot->signals) {
        fence_signal(slot->signals);
        vhq_fence_put(slot->signals);
    }
    if (slot->after) {
        if (slot->flags & SLOT_WAIT_COUNTED)
            fence_wait_end(slot->after);
        vhq_fence_put(slot->after);
    }
    vhq_fence_put(slot->displaces);
}

void dispatcher_retire(struct vhq *q, enum running running)
{
    struct vhq_set *s = q->set;
    ring_pop(&q->ring);
    s->plain &= running != RUN_TURN; /* else the next head stands behind a call in the driver */
    heads_note(s, ring_head(&q->ring));
    q->begun = false;
    atomic_store_explicit(&q->running, running, memory_order_release);
    /* Release: a thread that finds nothing buffered also finds it submitted, and may go inline. */
    atomic_fetch_add_explicit(&s->retired, 1, memory_order_release);
    if (s->waiters)
        waiter_check(s, q, false);
}

/* The head keeps its place, so all that follows it still does. */
void dispatcher_piece_sent(struct vhq *q, struct slot *slot)
{
    cap_sent(q, slot->flags, slot->load, 0);
    set_lock(q->set);
    slot->flags &= (uint16_t)~SLOT_LOOSE;
    q->begun = true;
    atomic_store_explicit(&q->running, RUN_NONE, memory_order_release);
    set_unlock(q->set);
}

static inline void job_retire(const struct job *job, bool lost)
{
    struct vhq *q = job->q;
    struct vhq_set *s = q->set;
    slot_submitted(q, job->slot);
    slot_release(job->slot);
    set_lock(s);
    if (lost)
        cap_forget(q);
    dispatcher_retire(q, RUN_NONE);
    set_unlock(s);
}

static void job_run(struct vhq_set *s, const struct job *job)
{
    struct slot *slot = job->slot;
    struct vhq *q = job->q;
    lock_none_inside();
    int (*run)(void *payload) = slot->cmd.run; /* NULL: it was given up after vhq_begin */
    if (MUTANT(repeated) && run && !(slot->flags & VHQ_UNCOUNTED))
        run(slot->cmd.payload);
    if (likely(run))
        submit_before(q, slot->flags);
    uint64_t from_ns = trace_on() ? clock_ns() : 0;
    int err = run ? run(slot->cmd.payload) : 0;
    if (unlikely(err == VHQ_MORE)) {
        dispatcher_piece_sent(q, slot);
        return;
    }
    if (likely(run))
        cap_sent(q, slot->flags, slot->load, err);
    else
        cap_give_back(q, slot->flags, slot->load);
    bool lost = unlikely(err != 0) && s->ops.failed(s->user, q, err);
    if (unlikely(lost))
        atomic_store_explicit(&q->failed, 1, memory_order_relaxed);
    if (unlikely(from_ns != 0))
        traced_queue(TRACE_SUBMITTED, q, slot->ticket, -1, from_ns);
    job_retire(job, lost);
}

static void job_do(struct vhq_set *s, const struct job *job)
{
    switch (job->kind) {
    case JOB_RUN:
        job_run(s, job);
        break;
    case JOB_DROP:
        if (job->slot->cmd.run && job->slot->cmd.drop)
            job->slot->cmd.drop(job->slot->cmd.payload);
        bump(job->q->dropped, 1u);
        if (trace_on())
            traced_queue(TRACE_DROPPED, job->q, job->slot->ticket, -1, 0);
        job_retire(job, false);
        break;
    case JOB_MARK:
        tail_mark_or_ask(job->q);
        set_lock(s);
        atomic_store_explicit(&job->q->running, RUN_NONE, memory_order_release);
        set_unlock(s);
        futex_wake(&job->q->running); /* vhq_destroy may wait for it */
        break;
    case JOB_BOOST:
        fence_boost(job->fence);
        break;
    case JOB_BOOST_WAITS:
        fence_boost_waits(job->fence);
        break;
    case JOB_SLEEP:
    case JOB_AGAIN:
        break;
    }
}

static void dispatcher_sleep(struct vhq_set *s, uint32_t kick, uint64_t wake_ns)
{
    atomic_store(&s->sleeping, 1);
    if (futex_wait(&s->kick, kick, wake_ns) == -ETIMEDOUT) {
        /* By how much it wakes late, on average. */
        uint64_t now = clock_ns(), late = now > wake_ns ? now - wake_ns : 0;
        int64_t known = peek(s->late_ns), seen = (int64_t)(late < NS_PER_MS ? late : NS_PER_MS);
        atomic_store_explicit(&s->late_ns, (uint32_t)(known + (seen - known) / 8),
                              memory_order_relaxed);
    }
    atomic_store(&s->sleeping, 0);
    if (s->poll_due)
        cap_poll_all(s);
    s->poll_due = false;
}

/* ---- which thread ---------------------------------------------------------------------------- */

/* The lower bits of `dispatching`. The bits above count how often the role was lent. */
enum { ROLE_FREE, ROLE_TAKEN, ROLE_LENT, ROLE_STATE = 3 };

static bool role_change(struct vhq_set *s, uint32_t seen, uint32_t state)
{
    return atomic_compare_exchange_strong(&s->dispatching, &seen,
                                          seen - (seen & ROLE_STATE) + state);
}

/* From a thread that stays in one call for a while, or that has given the role up. */
static void role_take(struct vhq_set *s)
{
    uint32_t seen;
    do {
        atomic_fetch_add(&s->asleep, 1);
        while (((seen = atomic_load(&s->dispatching)) & ROLE_STATE) == ROLE_TAKEN)
            futex_wait(&s->dispatching, seen, NEVER);
        atomic_fetch_sub(&s->asleep, 1);
        if ((seen & ROLE_STATE) == ROLE_LENT)
            clock_nap(LENT_MS * NS_PER_MS);
    } while (!role_change(s, seen, ROLE_TAKEN));
    atomic_fetch_sub_explicit(&s->spares, 1, memory_order_relaxed);
}

static void *dispatcher_main(void *arg);

/* Set's lock held. False: there can be no more threads. */
static bool spare_start(struct vhq_set *s)
{
    atomic_fetch_add_explicit(&s->spares, 1, memory_order_relaxed);
    if (s->threads < DISPATCHERS && thread_new(&s->thread[s->threads], dispatcher_main, s) == 0) {
        s->threads++;
        return true;
    }
    atomic_fetch_sub_explicit(&s->spares, 1, memory_order_relaxed);
    return false;
}

/* The driver may let the thread that does this job wait. Set's lock held. */
static bool job_may_wait(struct vhq_set *s, const struct job *job)
{
    if ((job->kind != JOB_RUN && job->kind != JOB_MARK) || likely(!cap_may_lack_room(job->q)))
        return false;
    cap_poll_words(s, clock_ns());
    return cap_may_lack_room(job->q) && !MUTANT(dispatcher_stalls);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* False: the set is closed, and nothing is left. */
static bool dispatch(struct vhq_set *s)
{
    uint32_t kick = atomic_load(&s->kick), lent = 0;
    if (unlikely(s->ops.room))
        s->room = s->ops.room(s->user);
    set_lock(s);
    struct job job = order_next(s, kick);
    bool stop = s->stage != SET_OPEN && set_empty(s);
    if (unlikely(job_may_wait(s, &job)) && (peek(s->spares) != 0 || spare_start(s))) {
        lent = ((peek(s->dispatching) | ROLE_STATE) + 1) | ROLE_LENT;
        /* seq_cst on both sides: either the sleeper sees that the role is lent, or it is woken. */
        atomic_store(&s->dispatching, lent);
        if (atomic_load(&s->asleep))
            futex_wake(&s->dispatching);
    }
    set_unlock(s);
    if (job.kind != JOB_SLEEP)
        job_do(s, &job);
    else if (!stop)
        dispatcher_sleep(s, kick, job.wake_ns);
    if (unlikely(lent != 0) && !role_change(s, lent, ROLE_TAKEN)) {
        /* Another thread has taken the role. What this thread's command kept back may go. */
        atomic_fetch_add_explicit(&s->spares, 1, memory_order_relaxed);
        dispatcher_kick(s);
        role_take(s);
    }
    return !stop;
}

static void *dispatcher_main(void *arg)
{
    struct vhq_set *s = arg;
    vhq_t_inside = VHQ_DISPATCHER;
    thread_name("cutin-vhq");
    prctl(PR_SET_TIMERSLACK, 1ul); /* the default, 50 us, is as long as HOLD_LOOK_US */
    if (s->ops.thread_start)
        s->ops.thread_start(s->user);
    role_take(s);
    while (dispatch(s))
        ;
    atomic_store(&s->dispatching, ROLE_FREE);
    futex_wake(&s->dispatching);
    return NULL;
}

bool dispatcher_start(struct vhq_set *s)
{
    if (likely(atomic_load_explicit(&s->thread_up, memory_order_acquire)))
        return true;
    set_lock(s);
    bool up = peek(s->thread_up) != 0 || spare_start(s);
    atomic_store_explicit(&s->thread_up, up, memory_order_release);
    set_unlock(s);
    return up;
}

/* Each thread was started by one before it. */
void dispatcher_join(struct vhq_set *s)
{
    for (uint32_t i = 0;; i++) {
        set_lock(s);
        bool more = i < s->threads;
        pthread_t thread = s->thread[more ? i : 0];
        set_unlock(s);
        if (!more)
            return;
        thread_join(thread);
    }
}
