/*
 * thread.h - the library's own threads: named, without signals, and never in the way of real time.
 *
 * A thread inherits scheduling class and processors of the one that creates it. Where that one is
 * SCHED_FIFO, pinned, and spins in a synchronisation, a helper of its kind on its processor would
 * not run at all. So helpers are never of a real-time class, and their processors are, the first of
 * these that there are:
 *   - those of thread_set_cpus (CUTIN_CPUS);
 *   - the process's own, as it was started, whatever its threads have pinned themselves to since;
 * and, where the creating thread is of a real-time class, without that thread's, even if the
 * process was started with no others (`chrt -f 50 taskset -c 0`): then with all that the machine
 * gives it.
 */
#ifndef CUTIN_COMMON_THREAD_H
#define CUTIN_COMMON_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* From now on helpers run there: a list such as "0-3,8". Returns 0, or -EINVAL and changes
 * nothing. */
int thread_set_cpus(const char *list);
/* Has this process had one of them from its start? Else helpers run as if none was named. */
bool thread_cpus_usable(void);
/* Creates a thread that takes no signals. Returns 0 or -errno. */
int thread_new(pthread_t *thread, void *(*run)(void *), void *arg);
/* One that runs until the process ends, made at the first call; `running`, the caller's, says that
 * it is there. Not thread safe. False: there is none. */
bool thread_once(bool *running, void *(*run)(void *));
/* Names the calling thread; of `name` the first 15 characters. (Another thread's is written through
 * /proc, and that takes a descriptor, for a moment the one that is the program's next.) */
void thread_name(const char *name);
/* The calling thread has a descriptor table of its own from now on, and nothing in it: no file of
 * the program's stays open by this thread, and none of this thread's is among the program's. False:
 * the kernel cannot, or a sandbox forbids it. */
bool thread_table_own(void);
/* Returns when it has ended; the calling thread is not cancelled meanwhile. */
void thread_join(pthread_t thread);

#endif
