/*
 * waker.h - a thread that looks at what is due, on time.
 *
 * It sleeps until the earliest time that it knows of. Whoever makes something due earlier says so
 * by waker_at, which wakes it only if it would come too late: where times follow one another,
 * nobody pays a system call.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_WAKER_H
#define CUTIN_SCHEDULER_CLIENT_WAKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
    /* Does what is due at `now` and returns when it wants to be called next (CLOCK_MONOTONIC, in
     * nanoseconds), 0: not before the next waker_at. In the waker's thread alone. */
    uint64_t (*look)(void *user, uint64_t now_ns);
    void *user;
    _Atomic bool running, stop;
    _Atomic uint32_t word;     /* changes with every waker_at */
    _Atomic uint64_t until_ns; /* it wakes no later than this; UINT64_MAX: sleeps for good */
    pthread_t thread;
};

/* Starts the thread: all signals blocked, name "cutin-waker". Idempotent; not from two threads at
 * once. Returns 0 or -errno. */
int waker_start(struct waker *w, uint64_t (*look)(void *user, uint64_t now_ns), void *user);
/* Something is due at `ns`; it must be there to be seen already. Any thread, no lock; nothing where
 * the waker does not run. */
void waker_at(struct waker *w, uint64_t ns);
/* Ends the thread and waits for it. Not from within `look`. */
void waker_stop(struct waker *w);

#endif
