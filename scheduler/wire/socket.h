/*
 * socket.h - where the daemon listens, and how to reach it.
 *
 * Shared by shim, tools and daemon. Thread safe; keeps no state.
 */
#ifndef CUTIN_SCHEDULER_WIRE_SOCKET_H
#define CUTIN_SCHEDULER_WIRE_SOCKET_H

#include <errno.h>
#include <stddef.h>

#define SOCKET_PATH_MAX 108 /* sizeof(sockaddr_un.sun_path), terminator included */
#define SOCKET_FOREIGN  EKEYREJECTED

/* Where a daemon listens: $XDG_RUNTIME_DIR/cutin/cutin.sock, else MACHINE_SOCKET. A caller that
 * looks for a daemon also asks machine_socket_first. Returns 0, or -ENAMETOOLONG with `out` "". */
int socket_default_path(char *out, size_t size);
/* A connected, non-blocking, close-on-exec SOCK_SEQPACKET descriptor, or -errno (-ENAMETOOLONG: the
 * path does not fit a socket address; -SOCKET_FOREIGN: the daemon is another user's, in a place
 * where others than the folders' owners can put one). Never blocks: a full backlog is -EAGAIN. */
int socket_connect(const char *path);

#endif
