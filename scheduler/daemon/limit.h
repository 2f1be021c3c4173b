/*
 * limit.h - how many connections, clients, and clients of a device a user may have: cutind.conf's
 * [limits].
 */
#ifndef CUTIN_SCHEDULER_DAEMON_LIMIT_H
#define CUTIN_SCHEDULER_DAEMON_LIMIT_H

#include "scheduler/peers/peer.h"

/* For how many peers there are descriptors, besides those in reserve. Raises the limit as far as it
 * goes. */
uint32_t limit_room(void);
/* May this connection not stay? */
bool limit_connection(const struct daemon *d, const struct peer *new);
/* May it not become a client? Then it has been told. */
bool limit_client(struct peer *p);
/* May those above be told of the client's device? If it must wait, limit_device_again asks for
 * it. */
bool limit_device(struct peer *p, uint32_t slot, uint64_t now_ns);
/* Asks for all who had to wait, if it is time. */
void limit_device_again(struct daemon *d, uint64_t now_ns);

#endif
