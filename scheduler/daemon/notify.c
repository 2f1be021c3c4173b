/*
 * notify.c - what the daemon tells a service manager: sd_notify(3), a variable and a datagram,
 * documented as stable, so no library is needed.
 */
#include "scheduler/daemon/daemon.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify(const char *state)
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
    /* If this fails there is nothing left that could be told. */
    (void)!sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
    close(fd);
}

int notify_alive(uint64_t now_ns)
{
    static uint64_t due_ns;
    const char *us = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    uint64_t every_ns = us ? strtoull(us, NULL, 10) * 1000 / 2 : 0;

    if (!every_ns || (pid && atol(pid) != getpid()))
        return -1;
    if (now_ns >= due_ns) {
        notify("WATCHDOG=1");
        due_ns = now_ns + every_ns;
    }
    return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
}
