/*
 * wait.c - futexes, and the waiters of a set.
 *
 * A waiter lives on the stack of the thread that waits for commands to be retired. Whoever retires
 * one looks through the (short) list under the set's lock and wakes those that have got what they
 * wait for, and nobody else: no thundering herd behind a full ring. errno is the application's and
 * is kept.
 */
#include "vhq/internal.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <utlist.h>

/* 0, -ETIMEDOUT, or -EAGAIN/-EINTR: look again. The deadline is absolute CLOCK_MONOTONIC. */
int futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns)
{
    int saved = errno, ret = 0;
    struct timespec ts = {
        .tv_sec = (time_t)(deadline_ns / 1000000000ull),
        .tv_nsec = (long)(deadline_ns % 1000000000ull),
    };
    if (syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
                deadline_ns == NEVER ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY) != 0)
        ret = -errno;
    errno = saved;
    return ret;
}

void futex_wake(_Atomic uint32_t *word)
{
    int saved = errno;
    /* The word may be gone by now (a waiter's stack): then there is nobody to wake. */
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT32_MAX, NULL, NULL, 0);
    errno = saved;
}

static bool waiter_satisfied(struct vhq_set *s, const struct waiter *w)
{
    switch (w->what) {
    case WAIT_QUEUE:
        return atomic_load_explicit(&w->q->ring.head_seq, memory_order_acquire) >= w->target;
    case WAIT_ROOM:
        return ring_roomy(&w->q->ring, (uint32_t)w->target);
    case WAIT_SET:
        return order_floor(s, true) >= w->target;
    case WAIT_RETURNED:
        return order_floor(s, false) >= w->target;
    case WAIT_LEGACY:
        return order_floor_legacy(s) >= w->target;
    case WAIT_UNBLOCKED:
        return order_floor_unblocked(s) >= w->target;
    }
    return true;
}

int waiter_wait(struct vhq_set *s, struct waiter *w, uint64_t deadline_ns)
{
    int ret = 0;
    pthread_mutex_lock(&s->lock);
    if (waiter_satisfied(s, w)) {
        pthread_mutex_unlock(&s->lock);
        return 0;
    }
    atomic_init(&w->done, 0);
    DL_APPEND(s->waiters, w);
    pthread_mutex_unlock(&s->lock);

    while (atomic_load_explicit(&w->done, memory_order_acquire) == 0 && ret != -ETIMEDOUT)
        ret = futex_wait(&w->done, 0, deadline_ns);
    if (ret != -ETIMEDOUT)
        return 0;
    pthread_mutex_lock(&s->lock);
    bool done = atomic_load_explicit(&w->done, memory_order_acquire) != 0;
    if (!done)
        DL_DELETE(s->waiters, w);
    pthread_mutex_unlock(&s->lock);
    return done ? 0 : -ETIMEDOUT;
}

void waiter_check(struct vhq_set *s, struct vhq *q)
{
    struct waiter *w, *tmp;
    DL_FOREACH_SAFE(s->waiters, w, tmp)
    {
        if ((w->what < WAIT_SET && w->q != q) || !waiter_satisfied(s, w))
            continue;
        DL_DELETE(s->waiters, w);
        atomic_store_explicit(&w->done, 1, memory_order_release);
        futex_wake(&w->done); /* only the address is used: w may be gone already */
    }
}
