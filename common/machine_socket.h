/*
 * machine_socket.h - the daemon for all users of a machine.
 */
#ifndef CUTIN_COMMON_MACHINE_SOCKET_H
#define CUTIN_COMMON_MACHINE_SOCKET_H

#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#define USER_SOCKET    "/cutin/cutin.sock" /* in $XDG_RUNTIME_DIR */
#define MACHINE_SOCKET "/run" USER_SOCKET

/* Is its socket there, and does it come before that of a user whose $XDG_RUNTIME_DIR is `run`? It
 * does in the folder that every login session has (pam_systemd(8)), also if sudo kept another
 * user's: there no user has asked for a daemon of their own, and under daemons that know nothing of
 * each other no user would hold another. Thread safe. */
static inline bool machine_socket_first(const char *run)
{
    static const char sessions[] = "/run/user/";
    const char *user = run + sizeof(sessions) - 1;
    struct stat st;

    return strncmp(run, sessions, sizeof(sessions) - 1) == 0 &&
           user[strspn(user, "0123456789")] == '\0' && stat(MACHINE_SOCKET, &st) == 0 &&
           S_ISSOCK(st.st_mode);
}

#endif
