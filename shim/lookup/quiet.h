/*
 * quiet.h - protects the program when the library writes a line or a file, or joins a thread, in
 * one of the program's threads. The program then sees no signals of a write (its reader is gone, a
 * file may not grow, a terminal stops writers), no end by pthread_cancel in a call that the program
 * did not make, and no change of errno.
 */
#ifndef CUTIN_SHIM_LOOKUP_QUIET_H
#define CUTIN_SHIM_LOOKUP_QUIET_H

#include <signal.h>

struct quiet {
    int errno_was, cancel_was;
    sigset_t mask_was, pending_was;
};

/* Call both in one thread, around the work. They nest, and may be called in a signal handler. */
void quiet_begin(struct quiet *q);
void quiet_end(const struct quiet *q);

#endif
