/*
 * connection.c - a client's socket, in a process whose descriptors belong to the application.
 */
#include "scheduler/wire/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/wire/socket.h"

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
    if (fstat(fd, &st) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    *c = (struct connection){.fd = fd, .dev = st.st_dev, .ino = st.st_ino};
    return 0;
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

void connection_shutdown(const struct connection *c)
{
    if (connection_ours(c))
        shutdown(c->fd, SHUT_RDWR);
}

int connection_send(struct connection *c, const union message *m)
{
    return connection_ours(c) ? message_send(c->fd, m, -1) : -EBADF;
}

int connection_receive(struct connection *c, union message *m, int *fd)
{
    *fd = -1;
    return connection_ours(c) ? message_receive(c->fd, TO_CLIENT, m, fd) : -EBADF;
}
