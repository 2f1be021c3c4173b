/*
 * remote.h - what somebody may order about running clients, in the daemon: level, weight, budget,
 * depth, pause, resume, reset.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_REMOTE_H
#define CUTIN_SCHEDULER_DAEMON_REMOTE_H

#include "scheduler/peers/peer.h"

/* Carries out what `from` wants. Returns 0 and the number of clients it concerned, or -ESRCH (no
 * such process), -EPERM, -EOPNOTSUPP (its streams have no queues: nothing to hold or reset). */
int remote_run(struct peer *from, const union message *m, uint32_t *count);
/* A client that has just come tells of orders by a daemon that is gone: gives them again. */
void remote_restore(struct peer *p, const struct message_hello *m);
/* A client that has one more device: a pause holds there, too. */
void remote_new_device(const struct peer *p, uint32_t slot);

#endif
