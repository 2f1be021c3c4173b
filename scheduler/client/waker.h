/*
 * waker.h - a thread that ends what is due, on time.
 *
 * It sleeps until the earliest time that it knows of. A thread that sets an earlier time calls
 * waker_arm, which wakes the waker only if it would come too late. So times that follow one another
 * cost no system call.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_WAKER_H
#define CUTIN_SCHEDULER_CLIENT_WAKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct waker {
    /* Does what is due at `now_ns`. Returns when it must be called next (CLOCK_MONOTONIC, in
     * nanoseconds); 0: not before the next waker_arm. Only called in the waker's thread. */
    uint64_t (*look)(void *user, uint64_t now_ns);
    void *user;
    _Atomic bool running, stop;
    _Atomic uint32_t word;     /* changes with every waker_arm */
    _Atomic uint64_t until_ns; /* the thread wakes by then; UINT64_MAX: it sleeps for good */
    pthread_t thread;
};

/* Starts the thread, "cutin-waker", with all signals blocked. Idempotent; not from two threads at
 * once. Returns 0 or -errno. */
int waker_start(struct waker *w, uint64_t (*look)(void *user, uint64_t now_ns), void *user);
/* Something is due at `ns`, and `look` must already be able to see it. Any thread, no lock; does
 * nothing if the waker does not run. */
void waker_arm(struct waker *w, uint64_t ns);
/* Ends the thread and waits for it. Not from within `look`. */
void waker_stop(struct waker *w);

#endif
