/* socket.c - see socket.h. */
#include "scheduler/wire/socket.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/machine_socket.h"

int socket_default_path(char out[SOCKET_PATH_MAX])
{
    /* Secure: the caller of a set-user-id program must not choose its socket. */
    const char *run = secure_getenv("XDG_RUNTIME_DIR");
    bool users = run && run[0] == '/';

    if (snprintf(out, SOCKET_PATH_MAX, "%s" USER_SOCKET, users ? run : "/run") < SOCKET_PATH_MAX)
        return 0;
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
    for (const char *end = path; (end = strchr(end + 1, '/'));) {
        snprintf(folder, sizeof(folder), "%.*s", (int)(end - path), path);
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
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        rc = -errno;
    else
        rc = is_foreign(fd, path) ? -SOCKET_FOREIGN : fd;
    if (rc < 0)
        close(fd);
    return rc;
}

/* Programs choose low numbers on purpose (dup2, shells); few use the ones from here on. */
enum { QUIET_FD = 700 };

int connection_open(struct connection *c, const char *path, bool among_others)
{
    struct stat st;
    int fd = socket_connect(path), high, rc;

    c->fd = -1;
    if (fd < 0)
        return fd;
    high = among_others ? fcntl(fd, F_DUPFD_CLOEXEC, QUIET_FD) : -1;
    if (high >= 0) { /* the limit of descriptors allows it */
        close(fd);
        fd = high;
    }
    rc = fstat(fd, &st) == 0 ? 0 : -errno;
    if (rc == 0)
        *c = (struct connection){.fd = fd, .dev = st.st_dev, .ino = st.st_ino};
    else
        close(fd);
    return rc;
}

bool connection_ours(const struct connection *c)
{
    struct stat st;

    return c->fd >= 0 && fstat(c->fd, &st) == 0 && st.st_dev == c->dev && st.st_ino == c->ino;
}

void connection_close(struct connection *c)
{
    if (connection_ours(c))
        close(c->fd);
    c->fd = -1;
}

int connection_send(struct connection *c, const union message *m)
{
    return connection_ours(c) ? message_send(c->fd, m, -1) : -EBADF;
}
