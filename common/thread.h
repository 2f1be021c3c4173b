/*
 * thread.h - the library's own threads: named, without signals, and never in the way of real time.
 *
 * A thread inherits the scheduling class and the processors of its creator. If the creator is
 * SCHED_FIFO, pinned, and spins in a synchronisation, a helper like it on its processor would not
 * run at all. So helpers never have a real-time class, and their processors are the first of these
 * that there are:
 *   - those of thread_set_cpus (CUTIN_CPUS);
 *   - the process's own, as it was started, whatever its threads have pinned themselves to since;
 * and, if the creator has a real-time class, without the creator's, even if the process was started
 * with no others (`chrt -f 50 taskset -c 0`): then with all that the machine gives it.
 */
#ifndef CUTIN_COMMON_THREAD_H
#define CUTIN_COMMON_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* From now on helpers run there: a list such as "0-3,8". Returns 0, or -EINVAL and changes
 * nothing. */
int thread_set_cpus(const char *list);
/* Did this process have one of them at its start? Else helpers run as if none was named. */
bool thread_cpus_usable(void);
/* Creates a thread that takes no signals. Returns 0 or -errno. */
int thread_new(pthread_t *thread, void *(*run)(void *), void *arg);
/* Makes a thread at the first call, which runs until the process ends. `running` is the caller's,
 * and says that it is there. Not thread safe. False: there is none. */
bool thread_once(bool *running, void *(*run)(void *));
/* Calls `run` when the calling thread ends, with a value of no use; once, however often a thread
 * asks. `key` is the caller's, one for each `run`, and 0 at first. False: it will not be called. */
bool thread_at_end(_Atomic unsigned *key, void (*run)(void *unused));
/* Names the calling thread by the first 15 characters of `name`. (To name another thread, /proc
 * takes a descriptor for a moment, and its number may be the program's next.) */
void thread_name(const char *name);
/* The calling thread has an empty descriptor table of its own from now on: it keeps no file of the
 * program's open, and none of its files is among the program's. False: the kernel cannot, or a
 * sandbox forbids it. */
bool thread_unshare_fds(void);
/* Returns when the thread has ended; the caller is not cancelled meanwhile. */
void thread_join(pthread_t thread);

#endif
