/*
 * proc.h - does a process run, as /proc tells?
 */
#ifndef CUTIN_SCHEDULER_POLICY_PROC_H
#define CUTIN_SCHEDULER_POLICY_PROC_H

#include <sys/types.h>

enum proc {
    PROC_RUNS,
    PROC_STOPPED, /* by a signal or a debugger */
    PROC_ENDING,  /* all of its threads exit, or have; or its core is being written */
    PROC_UNSEEN,  /* it has gone, or lives in another PID namespace */
};

/* Six system calls for a process that runs; never waits. */
enum proc proc_look(pid_t pid);

#endif
