/*
 * waker.c - a thread that looks at what is due, on time (see waker.h).
 */
#include "scheduler/client/waker.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/thread.h"

static void *waker_main(void *arg)
{
    struct waker *w = arg;

    prctl(PR_SET_TIMERSLACK, 1ul);
    while (!atomic_load(&w->stop)) {
        /* In this order: what is made due after the look changes the word, and then there is no
         * sleep; what was before is seen by the look. */
        uint32_t seen = atomic_load(&w->word);
        uint64_t next = w->look(w->user, clock_ns());

        next = next ? next : UINT64_MAX;
        atomic_store(&w->until_ns, next);
        struct timespec at = {.tv_sec = (time_t)(next / 1000000000u),
                              .tv_nsec = (long)(next % 1000000000u)};

        /* FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC. */
        syscall(SYS_futex, &w->word, FUTEX_WAIT_BITSET_PRIVATE, seen,
                next == UINT64_MAX ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
    }
    return NULL;
}

int waker_start(struct waker *w, uint64_t (*look)(void *, uint64_t), void *user)
{
    int rc;

    if (atomic_load(&w->running))
        return 0;
    w->look = look;
    w->user = user;
    atomic_store(&w->stop, false);
    atomic_store(&w->until_ns, 0);
    rc = thread_new(&w->thread, "cutin-waker", waker_main, w);
    if (rc != 0)
        return rc;
    atomic_store(&w->running, true);
    return 0;
}

static void wake(struct waker *w)
{
    syscall(SYS_futex, &w->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void waker_at(struct waker *w, uint64_t ns)
{
    int keep = errno;

    if (!atomic_load(&w->running))
        return;
    atomic_fetch_add(&w->word, 1);
    if (ns < atomic_load(&w->until_ns))
        wake(w);
    errno = keep;
}

void waker_stop(struct waker *w)
{
    if (!atomic_exchange(&w->running, false))
        return;
    atomic_store(&w->stop, true);
    atomic_fetch_add(&w->word, 1);
    wake(w);
    thread_join(w->thread);
}
