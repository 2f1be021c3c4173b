/*
 * limit.h - how many connections, clients, and clients of a device a user may have: cutind.conf's
 * [limits]; how soon those above are told of his clients; and how often he may connect and ask.
 *
 * Connections beyond his rate are closed before anything is found out about them. Who asks more
 * than the daemon answers in time is not read for a while: a question counts as many times as there
 * are clients that it is about.
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

/* For how many peers there are descriptors, besides those in reserve, and for how many processes
 * that have gone. Raises the limit as far as it goes. */
void limit_room(struct daemon *d);
/* Must a connection be closed at once, because its user opens too many a second? */
bool limit_comes(struct daemon *d, int socket);
/* May this connection not stay? If it may, it is one of its user's until limit_leave. */
bool limit_connection(struct daemon *d, struct peer *new);
/* Has its user asked too much? Then it is muted, until this says otherwise. */
bool limit_mutes(struct peer *p, uint64_t now_ns);
/* It has asked what costs as much as `messages`. */
void limit_charge(struct peer *p, uint32_t messages);
/* May it not become a client? Then it has been told. */
bool limit_client(struct peer *p);
/* May those above be told of the client's device? If so it is counted until limit_leave; if it must
 * wait, limit_device_again asks for it. */
bool limit_device(struct peer *p, uint32_t slot, uint64_t now_ns);
/* Asks for all who had to wait, if it is time. */
void limit_device_again(struct daemon *d, uint64_t now_ns);
/* Those above are told of none of this client's user for a minute. */
void limit_ban(const struct peer *p, uint64_t now_ns);
/* The connection goes. */
void limit_leave(struct peer *p);
/* All have gone. */
void limit_free(struct daemon *d);

#endif
