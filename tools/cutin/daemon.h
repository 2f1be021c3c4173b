/*
 * daemon.h - finds and starts the scheduler daemon for the command.
 */
#ifndef CUTIN_TOOLS_CUTIN_DAEMON_H
#define CUTIN_TOOLS_CUTIN_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

#include "scheduler/wire/socket.h"
#include "paths.h"

/* The option --socket; it is NULL where that was not given. */
extern const char *daemon_asked;
#define DAEMON_SOCKET_OPTION {"socket", "PATH", "the daemon's socket", TAKE_TEXT(daemon_asked)}
/* The daemon's socket: that option's, else CUTIN_SOCKET if it is set, else the default place. "":
 * no daemon is wanted. */
const char *daemon_socket(void);
/* 0 if a daemon answers at `path`, else -errno (-ENAMETOOLONG: the path fits no socket address). */
int daemon_probe(const char *path);
/* Says why a question to the daemon failed (`rc` is a -errno of query.h), and what to do. The text
 * is valid until the next call. Not thread safe. */
const char *daemon_error(const char *path, int rc);
struct subcommand;
/*
 * Makes sure that a daemon answers at `path`: starts `program` in a session of its own, away from
 * the terminal and from every descriptor of the caller, and waits at most 10 s until it listens.
 * Leaves the caller no child. Returns 0 or -errno. An error is reported on stderr already, so that
 * a caller that runs a program in any case can go on.
 */
int daemon_ensure(const struct subcommand *cmd, const char *program, const char *path);

/* Like fork(). The child is in a process group of its own, out of reach of the terminal's Ctrl-C,
 * and gets the signal `when_orphaned` when its parent dies. */
pid_t fork_in_group(int when_orphaned);
/* Waits until then for the process to end (0: none), else kills it. Returns its status. */
int reap_or_kill(pid_t pid, uint64_t until_ns);
/* A private daemon: a child that ends with the caller, with its socket in a folder of its own. */
struct daemon_own {
    struct scratch folder;
    char socket[SOCKET_PATH_MAX];
    pid_t pid;
};
/* 0, or -errno with one line in `why`. `folder`: its name's begin. `own` is zero before. */
int daemon_own_start(struct daemon_own *own, const char *program, const char *folder, char *why,
                     size_t why_bytes);
/* Ends the process and removes the folder. Also for an `own` that was not started. */
void daemon_own_end(struct daemon_own *own);

#endif
