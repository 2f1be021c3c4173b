/*
 * side.h - the processes that an oracle starts, of the bare side and of the side under cutin. Each
 * has an environment of its own.
 */
#ifndef ORACLE_SIDE_H
#define ORACLE_SIDE_H

#include <sys/types.h>

void nap_us(long us);
/* The path of a file beside the oracle's own program. It is valid until eight more calls. */
char *beside(const char *relative);

struct side { /* the environment of one side */
    char text[32][512];
    const char *env[33];
};
void side_set(struct side *s, const char *name, const char *value);

/* Starts a program with this environment, without what steers cutin and the simulator, and with
 * `extra` ("A=b", ends with NULL). It ends when its starter does. */
pid_t spawn(char *const argv[], const char *const *extra);
/* Kills the process, if there is one, and waits until it is gone. */
void end(pid_t *pid);
/* Starts cutind at `socket` and waits until the socket is there. */
pid_t daemon_spawn(const char *daemon, const char *socket);

#endif
