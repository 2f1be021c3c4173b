/*
 * activation.h - what a service manager and the daemon tell each other (sd_listen_fds(3),
 * sd_notify(3)). Both are a variable and a descriptor, and documented as stable, so no library is
 * needed.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_ACTIVATION_H
#define CUTIN_SCHEDULER_DAEMON_ACTIVATION_H

/* The listening socket that the daemon was started with, not blocking; -1: none. To be asked
 * once. */
int activation_socket(void);

/* "READY=1" and the like, to whoever asked to be told. */
void activation_notify(const char *state);

#endif
