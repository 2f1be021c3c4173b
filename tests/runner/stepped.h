/*
 * stepped.h - a test that lives in a time of its own, with all that it starts: one that moves when
 * nobody can run (tools/simgpu/README.md, "A clock that steps").
 */
#ifndef RUNNER_STEPPED_H
#define RUNNER_STEPPED_H

#include <sys/types.h>

/* This program begins again in that time, and runs this test alone. */
_Noreturn void stepped_become(const char *suite, const char *name);
/* Which thread was lost to this process's time: then another run may be otherwise. NULL: none. */
const char *stepped_lost(void);
/* The process is gone, and so is its time. */
void stepped_remove(pid_t pid);

#endif
