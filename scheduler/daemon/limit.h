/*
 * limit.h - how many connections, clients, and clients of a device a user may have: cutind.conf's
 * [limits]; and how soon those above are told of his clients.
 *
 * A client below costs a real-time process some nanoseconds whenever it cuts in, and a mapping when
 * it comes and goes. So of one user only so many clients of a device are told to those above
 * (clients_per_device), and clients that come one after another at a rate. Who has to wait is
 * registered all the same; it is held by nobody until its turn comes. Users who control others have
 * no limit.
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
/* May those above be told of the client's device? If so it is counted until limit_leave; if it must
 * wait, limit_device_again asks for it. */
bool limit_device(struct peer *p, uint32_t slot, uint64_t now_ns);
/* Asks for all who had to wait, if it is time. */
void limit_device_again(struct daemon *d, uint64_t now_ns);
/* Those above are told of none of this client's user for a minute. */
void limit_ban(const struct peer *p, uint64_t now_ns);
/* The client goes. */
void limit_leave(struct peer *p);
/* All clients have gone. */
void limit_free(struct daemon *d);

#endif
