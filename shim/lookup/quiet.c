/*
 * quiet.c - a signal that a write causes goes to the thread that wrote. If it was not pending
 * before, the library caused it, and takes it back (see shim.h).
 */
#include "shim/lookup/shim.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

static const int of_writes[] = {SIGPIPE, SIGXFSZ, SIGTTOU};
enum { OF_WRITES = sizeof(of_writes) / sizeof(*of_writes) };

void quiet_begin(struct quiet *q)
{
    sigset_t set;

    q->errno_was = errno;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &q->cancel_was);
    sigemptyset(&set);
    for (int i = 0; i < OF_WRITES; i++)
        sigaddset(&set, of_writes[i]);
    pthread_sigmask(SIG_BLOCK, &set, &q->mask_was);
    sigpending(&q->pending_was);
}

void quiet_end(const struct quiet *q)
{
    const struct timespec now = {0};
    sigset_t pending, set;

    sigpending(&pending);
    for (int i = 0; i < OF_WRITES; i++)
        if (sigismember(&pending, of_writes[i]) == 1 &&
            sigismember(&q->pending_was, of_writes[i]) == 0) {
            sigemptyset(&set);
            sigaddset(&set, of_writes[i]);
            while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
                ;
        }
    pthread_sigmask(SIG_SETMASK, &q->mask_was, NULL);
    pthread_setcancelstate(q->cancel_was, NULL);
    errno = q->errno_was;
}
