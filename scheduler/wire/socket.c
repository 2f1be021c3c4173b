/*
 * socket.c - where the daemon listens, and how to reach it.
 */
#include "scheduler/wire/socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/machine_socket.h"

int socket_default_path(char *out, size_t size)
{
    /* Secure: the caller of a set-user-id program must not choose its socket. */
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    int n;

    if (size > SOCKET_PATH_MAX)
        size = SOCKET_PATH_MAX;
    n = run && run[0] == '/' ? snprintf(out, size, "%s" USER_SOCKET, run)
                             : snprintf(out, size, MACHINE_SOCKET);
    if (n >= 0 && (size_t)n < size)
        return 0;
    if (size)
        out[0] = '\0';
    return -ENAMETOOLONG;
}

/* Whether others may have put this socket at the place of a user's daemon, and the daemon is
 * neither this user's nor root's. Other paths were chosen by a user; the machine's daemon is
 * another user by design, and containers may have /run open to all. */
static bool is_foreign(int fd, const char *path)
{
    static const char name[] = USER_SOCKET;
    size_t length = strlen(path);
    char folder[SOCKET_PATH_MAX];
    struct ucred peer;
    socklen_t size = sizeof(peer);
    struct stat st;
    bool open = false;

    if (length < sizeof(name) || strcmp(path + length + 1 - sizeof(name), name) != 0 ||
        strcmp(path, MACHINE_SOCKET) == 0)
        return false;
    for (size_t n = 1; n < length; n++) {
        if (path[n] != '/')
            continue;
        memcpy(folder, path, n);
        folder[n] = '\0';
        open |= stat(folder, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH));
    }
    return open && (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
                    (peer.uid != 0 && peer.uid != geteuid()));
}

int socket_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd, rc;

    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    memcpy(address.sun_path, path, strlen(path) + 1);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    if (is_foreign(fd, path)) {
        close(fd);
        return -SOCKET_FOREIGN;
    }
    return fd;
}
