/*
 * daemon.h - the scheduler daemon as the command sees it: is it there, and how to start it.
 */
#ifndef CUTIN_TOOLS_CUTIN_DAEMON_H
#define CUTIN_TOOLS_CUTIN_DAEMON_H

#include <stdint.h>
#include <sys/types.h>

#include "scheduler/wire/socket.h"
#include "paths.h"

/* How long a daemon that `cutin run` has started outlives the programs that it serves. */
#define DAEMON_IDLE_EXIT_S 10

/* The socket that the environment asks for: CUTIN_SOCKET, else the default place. "" = none wanted.
 */
const char *daemon_socket(void);
/* Does a daemon answer at `path`? Returns 0 or -errno (-ENAMETOOLONG: it
 * fits no socket address). */
int daemon_probe(const char *path);
/* Why a question to the daemon failed (a -errno of query.h), and what to do. Valid until the next
 * call; not thread safe. */
const char *daemon_trouble(const char *path, int rc);
struct subcommand;
/*
 * Make sure that a daemon answers at `path`: starts `program` in a session of its own, away from
 * the terminal and from every descriptor of the caller, and waits at most 10 s until it listens.
 * The caller gets no child that it did not ask for. Returns 0, or -errno and has said why, for
 * whoever runs a program in any case.
 */
int daemon_want(const struct subcommand *cmd, const char *program, const char *path);

/* As fork(); the child is in a process group of its own, out of reach of the terminal's Ctrl-C, and
 * gets this signal when its parent dies. */
pid_t own_fork(int when_orphaned);
/* Waits until then for the end of a process (0: none), and kills it. Its status. */
int own_reap(pid_t pid, uint64_t until_ns);
/* A daemon that nobody else finds: a child that ends with the caller, in a folder of its own. */
struct daemon_own {
    struct scratch folder;
    char socket[SOCKET_PATH_MAX];
    pid_t pid;
};
/* 0, or -errno with one line in `why`. `name` is for the folder's; `own` is zeroed before. */
int daemon_own_start(struct daemon_own *own, const char *program, const char *name, char *why,
                     size_t why_bytes);
/* Process and folder are gone afterwards; also of one that was not started. */
void daemon_own_end(struct daemon_own *own);

#endif
