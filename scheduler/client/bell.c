/*
 * bell.c - wakes a thread that has a descriptor table of its own (see bell.h).
 */
#include "scheduler/client/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

void bell_open(struct bell *b)
{
    int fds[2];

    *b = (struct bell){.fd = -1, .end = -1};
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    b->fd = fds[0];
    b->end = fds[1];
    for (int fd = 0; fd >= 0 && fd < STDERR_FILENO;)
        fd = fcntl(b->fd, F_DUPFD_CLOEXEC, 0);
    /* "PID/task/TID" by the numbers of this /proc, which may be of another namespace. */
    char thread[32] = "";
    ssize_t n = readlink("/proc/thread-self", thread, sizeof(thread) - 1);

    if (n > 0)
        snprintf(b->name, sizeof(b->name), "/proc/%s/fd/%d", thread, b->end);
}

void bell_clear(const struct bell *b)
{
    char rings[64];

    while (b->fd >= 0 && read(b->fd, rings, sizeof(rings)) > 0)
        ;
}

void bell_close(struct bell *b)
{
    if (b->fd >= 0) {
        close(b->fd);
        close(b->end);
    }
    *b = (struct bell){.fd = -1, .end = -1};
}

/* Opens the pipe for reading as well: so it can be written to even if its thread has closed it. */
void bell_ring(const struct bell *b)
{
    int keep = errno, fd = b->name[0] ? open(b->name, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd >= 0) {
        ssize_t rung = write(fd, "", 1); /* a full pipe has been rung already */
        (void)rung;
        close(fd);
    }
    errno = keep;
}
