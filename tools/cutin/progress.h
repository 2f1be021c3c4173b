/*
 * progress.h - how far along a long command is, for whoever looks at a terminal; and its end by
 * Ctrl-C.
 *
 * A line on stderr, if that is a terminal, from the first second on, rewritten at most ten times a
 * second. The first SIGINT, SIGTERM or SIGHUP sets a flag that the command looks at, to end with
 * what it has; a second one ends it at once. One thread.
 */
#ifndef CUTIN_TOOLS_CUTIN_PROGRESS_H
#define CUTIN_TOOLS_CUTIN_PROGRESS_H

#include <signal.h>

/* The signal that came, once progress_begin was called; the command exits with 128 more. */
extern volatile sig_atomic_t progress_cancel;

/* From here on signals set the flag, and time counts. A pipe that nobody reads is an error of the
 * write, so that a command also ends its processes then. */
void progress_begin(void);
/* `done` of `total`, and what is being done; the time so far where it is not known (0) how much
 * there is. */
void progress_show(double done, double total, const char *what);
/* Takes the line away; what is shown next is another one. */
void progress_end(void);

#endif
