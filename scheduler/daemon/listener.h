/*
 * listener.h - the daemon's listening socket: exactly one daemon per path.
 *
 * The daemon that holds the lock file beside the socket owns the path. So a second daemon finds the
 * first one alive and ends, and what a dead one left behind is replaced without a race.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_LISTENER_H
#define CUTIN_SCHEDULER_DAEMON_LISTENER_H

#include "scheduler/policy/conf.h"
#include "scheduler/wire/socket.h"

struct listener {
    int fd;
    int folder, lock;
    ino_t file;                 /* the file that the path leads to */
    char path[SOCKET_PATH_MAX]; /* "": the socket was handed over, and must not be removed */
    char name[SOCKET_PATH_MAX];
    char lock_name[SOCKET_PATH_MAX + 8];
    char made[SOCKET_PATH_MAX]; /* the folder, if cutind made it; "": it was there */
    char why[512];              /* why it could not be opened: a line for the user */
};

/* Opens it with `conf`'s mode and group. Returns 0, or -errno and `why`; -EADDRINUSE: another
 * daemon is alive. Not while other threads run: it changes the umask. */
int listener_open(struct listener *l, const char *path, const struct conf *conf);
/* Whether the path still leads to it: users who may write there can change that. */
bool listener_is_named(const struct listener *l);
/* Opens the socket anew, in place of one that is no longer named, which stops listening. Returns
 * like listener_open; -EADDRINUSE: another daemon has taken its place. */
int listener_reopen(struct listener *l, const struct conf *conf);
/* Stops listening, removes socket and lock, and a folder that it made if nothing else is in it. */
void listener_close(struct listener *l);

#endif
