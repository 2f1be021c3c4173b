/*
 * stepped.h - a test that, with all that it starts, runs on a stepped clock: the clock moves only
 * while no thread can run (tools/simgpu/README.md, "A clock that steps").
 */
#ifndef RUNNER_STEPPED_H
#define RUNNER_STEPPED_H

#include <sys/types.h>

/* Starts this program again on that clock, to run only this test. */
_Noreturn void stepped_become(const char *suite, const char *name);
/* A thread that did not follow this process's clock, so another run may differ. NULL: none. */
const char *stepped_lost(void);
/* Removes the clock of a process that has ended. */
void stepped_remove(pid_t pid);

#endif
