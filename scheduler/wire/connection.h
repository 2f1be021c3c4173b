/*
 * connection.h - a client's socket, in a process whose descriptors belong to somebody else.
 *
 * Where its thread has no descriptor table of its own (scheduler/client/bell.h), the application
 * may close every descriptor it does not know, and the number may then be its own. So the socket's
 * inode is remembered and compared before each use: a number that means something else now counts
 * as a lost connection, and is left alone.
 */
#ifndef CUTIN_SCHEDULER_WIRE_CONNECTION_H
#define CUTIN_SCHEDULER_WIRE_CONNECTION_H

#include <stdbool.h>
#include <sys/types.h>

#include "scheduler/wire/protocol.h"

struct connection {
    int fd; /* -1: closed */
    dev_t dev;
    ino_t ino;
};

/* Returns 0 or -errno, and then the connection is closed. `among_others`: the descriptors of the
 * calling thread's table belong to somebody else. */
int connection_open(struct connection *c, const char *path, bool among_others);
void connection_close(struct connection *c);
/* Whoever waits for it hears that it is over. */
void connection_end(const struct connection *c);
bool connection_ours(const struct connection *c);
/* As message_send and message_receive; -EBADF when the descriptor is not ours any more. */
int connection_send(struct connection *c, const union message *m);
int connection_receive(struct connection *c, union message *m, int *fd);

#endif
