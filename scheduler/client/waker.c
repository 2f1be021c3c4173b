/* waker.c - see waker.h. */
#include "scheduler/client/waker.h"

#include <sys/prctl.h>

#include "common/clock.h"
#include "common/futex.h"
#include "common/thread.h"

static void *waker_main(void *arg)
{
    struct waker *w = arg;

    thread_name("cutin-waker");
    prctl(PR_SET_TIMERSLACK, 1ul);
    while (!atomic_load(&w->stop)) {
        /* The order matters: a time that is set after the look changes the word, and so there is no
         * sleep; a time set before is seen by the look. */
        uint32_t seen = atomic_load(&w->word);
        uint64_t next = w->look(w->user, clock_ns());

        next = next ? next : UINT64_MAX;
        atomic_store(&w->until_ns, next);
        futex_wait(&w->word, seen, next);
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
    rc = thread_new(&w->thread, waker_main, w);
    if (rc == 0)
        atomic_store(&w->running, true);
    return rc;
}

void waker_arm(struct waker *w, uint64_t ns)
{
    if (!atomic_load(&w->running))
        return;
    atomic_fetch_add(&w->word, 1);
    if (ns < atomic_load(&w->until_ns))
        futex_wake(&w->word);
}

void waker_stop(struct waker *w)
{
    if (!atomic_exchange(&w->running, false))
        return;
    atomic_store(&w->stop, true);
    atomic_fetch_add(&w->word, 1);
    futex_wake(&w->word);
    thread_join(w->thread);
}
