/*
 * side.h - the processes that an oracle starts: those of the one side, bare, and of the other,
 * under cutin, each with an environment of its own.
 */
#ifndef ORACLE_SIDE_H
#define ORACLE_SIDE_H

#include <sys/types.h>

void nap_us(long us);
/* The path of what lies there, seen from the oracle's own program: good for eight calls. */
char *beside(const char *relative);

struct side { /* environment of one side */
    char text[32][512];
    const char *env[33];
};
void side_set(struct side *s, const char *name, const char *value);

/* This environment without what steers cutin and the simulator, plus `extra` ("A=b", NULL-ended).
 * It ends with who started it. */
pid_t spawn(char *const argv[], const char *const *extra);
/* Kills it, if there is one, and waits until it is gone. */
void end(pid_t *pid);
/* Starts cutind at `socket` and waits until that is there. */
pid_t daemon_spawn(const char *daemon, const char *socket);

#endif
