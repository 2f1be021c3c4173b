/*
 * progress.h - shows the progress of a long command on a terminal, and lets Ctrl-C end it.
 *
 * The line is on stderr, if that is a terminal. It appears after the first second and changes at
 * most ten times a second. The first SIGINT, SIGTERM or SIGHUP sets a flag; the command looks at
 * it, and ends with what it has. A second signal ends the command at once. For one thread only.
 */
#ifndef CUTIN_TOOLS_CUTIN_PROGRESS_H
#define CUTIN_TOOLS_CUTIN_PROGRESS_H

#include <signal.h>

/* The signal that came since progress_begin was called. The command exits with 128 more than
 * this. */
extern volatile sig_atomic_t progress_cancel;

/* From here on signals set the flag, and time counts. SIGPIPE is ignored: a write to a closed pipe
 * fails, so that the command can still end its processes. */
void progress_begin(void);
/* Shows that `done` of `total` is done, and `what` is being done. If `total` is 0 (not known),
 * shows the time so far. */
void progress_show(double done, double total, const char *what);
/* Takes the line away. What is shown next is a new line. */
void progress_end(void);

#endif
