/*
 * listener.h - the daemon's listening socket: exactly one daemon per path.
 *
 * The daemon that holds the lock file beside the socket owns the path. So a second daemon finds the
 * first alive and leaves, and what a dead one left behind is replaced without a race.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_LISTENER_H
#define CUTIN_SCHEDULER_DAEMON_LISTENER_H

#include "scheduler/policy/conf.h"
#include "scheduler/wire/socket.h"

struct listener {
    int fd;
    int folder, lock;
    ino_t file;                 /* that the path leads to */
    char path[SOCKET_PATH_MAX]; /* "": the socket was handed to us, and is not ours to remove */
    char name[SOCKET_PATH_MAX];
    char lock_name[SOCKET_PATH_MAX + 8];
    char made[SOCKET_PATH_MAX]; /* the folder, if it was not there; "": it was */
};

/* With the mode and group that `conf` says. Returns 0, or -errno and a line for the user in `why`;
 * -EADDRINUSE: another daemon is alive. Not while other threads run: it changes the umask. */
int listener_open(struct listener *l, const char *path, const struct conf *conf, char *why,
                  size_t why_size);
/* The path leads to it. What others rename or remove, who may write there, does not any more. */
bool listener_is_named(const struct listener *l);
/* The same socket anew, in place of what is not named any more: it stops listening there. Returns
 * like listener_open; -EADDRINUSE: somebody else has taken its place. */
int listener_again(struct listener *l, const struct conf *conf, char *why, size_t why_size);
/* Stops listening, removes socket and lock, and a folder that it made, if nothing else is in it. */
void listener_close(struct listener *l);

#endif
