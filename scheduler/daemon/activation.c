/*
 * activation.c - what a service manager and the daemon tell each other.
 */
#include "scheduler/daemon/activation.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { FIRST_FD = 3 };

static bool has(int fd, int option, int value)
{
    int is;
    socklen_t size = sizeof(is);

    return getsockopt(fd, SOL_SOCKET, option, &is, &size) == 0 && is == value;
}

int activation_socket(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    bool ours = pid && fds && atol(pid) == getpid() && strcmp(fds, "1") == 0;

    unsetenv("LISTEN_PID"); /* not for a child of ours */
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    if (!ours)
        return -1;
    fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC);
    if (!has(FIRST_FD, SO_DOMAIN, AF_UNIX) || !has(FIRST_FD, SO_TYPE, SOCK_SEQPACKET) ||
        !has(FIRST_FD, SO_ACCEPTCONN, 1))
        return -1;
    fcntl(FIRST_FD, F_SETFL, fcntl(FIRST_FD, F_GETFL) | O_NONBLOCK);
    return FIRST_FD;
}

void activation_notify(const char *state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path ? strlen(path) : 0;
    int fd;

    if (length < 2 || length >= sizeof(to.sun_path) || !strchr("/@", path[0]))
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    memcpy(to.sun_path, path, length);
    if (path[0] == '@') /* an abstract name */
        to.sun_path[0] = '\0';
    /* Nobody is left to be told where this fails. */
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}
