/*
 * futex.h - wait for a word to change, and wake the threads that wait. Within a process; any
 * thread. errno is kept: it may be the application's.
 */
#ifndef CUTIN_COMMON_FUTEX_H
#define CUTIN_COMMON_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns 0, -ETIMEDOUT, or -EAGAIN/-EINTR: look again. The deadline is absolute CLOCK_MONOTONIC;
 * UINT64_MAX: none. */
int futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline_ns);
/* Waits until the word is another one. False: it was not by that time. */
bool futex_wait_change(_Atomic uint32_t *word, uint32_t seen, uint64_t by_ns);
/* Wakes all threads that wait for the word; or one of them. */
void futex_wake(_Atomic uint32_t *word);
void futex_wake_one(_Atomic uint32_t *word);

#endif
