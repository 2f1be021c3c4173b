/*
 * socket.c - where the daemon listens, and how to reach it.
 */
#include "scheduler/wire/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/machine_socket.h"

int socket_default_path(char *out, size_t size)
{
    /* Secure: a set-user-id program must not be led to a socket of its caller's choice. */
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    int n;

    if (size > SOCKET_PATH_MAX)
        size = SOCKET_PATH_MAX;
    n = run && run[0] == '/' ? snprintf(out, size, "%s/cutin/cutin.sock", run)
                             : snprintf(out, size, MACHINE_SOCKET);
    if (n >= 0 && (size_t)n < size)
        return 0;
    if (size)
        out[0] = '\0';
    return -ENAMETOOLONG;
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
    return fd;
}
