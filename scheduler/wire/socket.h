/*
 * socket.h - where the daemon listens, how to reach it, and a client's connection to it.
 *
 * Shared by shim, tools and daemon. Thread safe; keeps no state of its own.
 */
#ifndef CUTIN_SCHEDULER_WIRE_SOCKET_H
#define CUTIN_SCHEDULER_WIRE_SOCKET_H

#include <errno.h>
#include <sys/types.h>

#include "scheduler/wire/protocol.h"

#define SOCKET_PATH_MAX 108 /* sizeof(sockaddr_un.sun_path), terminator included */
#define SOCKET_FOREIGN  EKEYREJECTED

/* Where a daemon listens: $XDG_RUNTIME_DIR/cutin/cutin.sock, else MACHINE_SOCKET. A caller that
 * looks for a daemon also asks machine_socket_first. Returns 0, or -ENAMETOOLONG with `out` "". */
int socket_default_path(char out[SOCKET_PATH_MAX]);
/* A connected, non-blocking, close-on-exec SOCK_SEQPACKET descriptor, or -errno (-ENAMETOOLONG: the
 * path does not fit a socket address; -SOCKET_FOREIGN: the daemon is another user's, in a place
 * where others than the folders' owners can put one). Never blocks: a full backlog is -EAGAIN. */
int socket_connect(const char *path);

/*
 * A client's socket, in a process whose descriptors belong to the application. Where the socket's
 * thread has no descriptor table of its own (scheduler/client/link.c), the application may close
 * descriptors that it does not know and use their numbers itself. So the socket's inode is
 * remembered and compared before each use. A number that means something else by then counts as a
 * lost connection, and is left alone.
 */
struct connection {
    int fd; /* -1: closed */
    dev_t dev;
    ino_t ino;
};

/* Returns 0, or -errno with the connection closed. `among_others`: the descriptors of the calling
 * thread's table belong to the application. */
int connection_open(struct connection *c, const char *path, bool among_others);
void connection_close(struct connection *c);
/* Whether the descriptor is still this socket. */
bool connection_ours(const struct connection *c);
/* As message_send; -EBADF if the descriptor is no longer this socket. */
int connection_send(struct connection *c, const union message *m);

#endif
