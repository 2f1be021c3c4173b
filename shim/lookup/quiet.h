/*
 * quiet.h - the library does something of its own in a thread of the program's: writes a line or a
 * file, joins a thread. What that could bring upon the program does not come: the signals of a
 * write (a reader is gone, a file may not grow, a terminal stops who writes), an end by
 * pthread_cancel in a call that the program did not make, another errno.
 */
#ifndef CUTIN_SHIM_LOOKUP_QUIET_H
#define CUTIN_SHIM_LOOKUP_QUIET_H

#include <signal.h>

struct quiet {
    int errno_was, cancel_was;
    sigset_t mask_was, pending_was;
};

/* Between the two, in one thread. They nest, and may stand in a signal handler. */
void quiet_begin(struct quiet *q);
void quiet_end(const struct quiet *q);

#endif
