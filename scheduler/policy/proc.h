/*
 * proc.h - a process, as /proc tells: whether it runs, and which process started it.
 */
#ifndef CUTIN_SCHEDULER_POLICY_PROC_H
#define CUTIN_SCHEDULER_POLICY_PROC_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum proc {
    PROC_RUNS,
    PROC_STOPPED, /* by a signal or a debugger */
    PROC_ENDING,  /* all of its threads exit, or have exited; or its core is being written */
    PROC_UNSEEN,  /* it has gone, or lives in another PID namespace */
};

enum { PROC_EXITING = 4 }; /* a bit of `flags`: PF_EXITING of linux/sched.h in the kernel */

struct proc_stat {
    char state;
    pid_t parent;
    unsigned int flags;
    unsigned long long started; /* in ticks since the machine's start */
};

/* Reads as much of a file as fits, as text, and closes it. Returns 0 or -errno. */
int proc_text(int fd, char *text, size_t size);
/* Returns 0 or -errno. */
int proc_stat(pid_t pid, struct proc_stat *stat);
/* Six system calls for a process that runs; never waits. */
enum proc proc_run_state(pid_t pid);
/* Whether any of its threads has not ended or, with `runnable`, runs or would if it had a
 * processor: no thread of a frozen container does. Four system calls for each thread; never
 * waits. */
bool proc_any_thread(pid_t pid, bool runnable);

#endif
