/*
 * request.h - what clients and commands ask of the daemon: one function for each message.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_REQUEST_H
#define CUTIN_SCHEDULER_DAEMON_REQUEST_H

#include "scheduler/peers/peer.h"

/* Returns 0; anything else: the connection is no good. */
int request_run(struct peer *p, const union message *m);

#endif
