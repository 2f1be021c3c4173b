/*
 * machine_socket.h - the daemon for all users of a machine.
 */
#ifndef CUTIN_COMMON_MACHINE_SOCKET_H
#define CUTIN_COMMON_MACHINE_SOCKET_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MACHINE_SOCKET "/run/cutin/cutin.sock"

/* Is its socket there, and comes before the one of a user whose $XDG_RUNTIME_DIR is `run`? In the
 * folder that every login session has (pam_systemd(8)), nobody has asked for a daemon of his own,
 * and users whose daemons know nothing of each other hold nobody. Thread safe. */
static inline bool machine_socket_first(const char *run)
{
    char session[40];
    struct stat st;

    snprintf(session, sizeof(session), "/run/user/%u", (unsigned)geteuid());
    return strcmp(run, session) == 0 && stat(MACHINE_SOCKET, &st) == 0 && S_ISSOCK(st.st_mode);
}

#endif
