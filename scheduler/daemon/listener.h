/*
 * listener.h - the daemon's listening socket: exactly one daemon per path.
 *
 * The daemon that holds the lock file beside the socket owns the path. So a second daemon finds the
 * first alive and leaves, and what a dead one left behind is replaced without a race.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_LISTENER_H
#define CUTIN_SCHEDULER_DAEMON_LISTENER_H

#include <stddef.h>

#include "scheduler/policy/conf.h"
#include "scheduler/wire/socket.h"

struct listener {
    int fd;
    int folder, lock; /* -1: the socket was handed to us, and is not ours to remove */
    char name[SOCKET_PATH_MAX];
    char lock_name[SOCKET_PATH_MAX + 8];
    char made[SOCKET_PATH_MAX]; /* the folder, if it was not there; "": it was */
};

/* With the mode and group that `conf` says. Returns 0, or -errno and a line for the user in `why`;
 * -EADDRINUSE: another daemon is alive. Not while other threads run: it changes the umask. */
int listener_open(struct listener *l, const char *path, const struct conf *conf, char *why,
                  size_t why_size);
/* Takes over a listening socket, from socket activation. */
void listener_adopt(struct listener *l, int fd);
/* Stops listening, removes socket and lock, and a folder that it made, if nothing else is in it. */
void listener_close(struct listener *l);

#endif
