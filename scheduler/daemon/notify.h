/*
 * notify.h - what the daemon tells a service manager: sd_notify(3), a variable and a datagram,
 * documented as stable, so no library is needed.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_NOTIFY_H
#define CUTIN_SCHEDULER_DAEMON_NOTIFY_H

#include <stdint.h>

/* "READY=1" and the like, to whoever asked to be told. */
void notify(const char *state);
/* Says that the loop turns, if that is due to be said. Returns when it is due again, in ms; -1:
 * nobody watches. */
int notify_alive(uint64_t now_ns);

#endif
