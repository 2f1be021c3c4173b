/*
 * stop.h - ends a daemon of which only the socket is known.
 */
#ifndef CUTIN_TESTS_SCHEDULER_STOP_H
#define CUTIN_TESTS_SCHEDULER_STOP_H

#include "scheduler/wire/protocol.h"
#include "scheduler/wire/socket.h"

#include <errno.h>
#include <poll.h>
#include <unistd.h>

/* Only its owner and root may (-EPERM). Returns when it has ended, or -ETIMEDOUT after 60 s. */
static inline int daemon_stop(const char *socket)
{
    struct pollfd p = {.fd = socket_connect(socket), .events = POLLIN};
    int rc = p.fd < 0 ? p.fd : -ETIMEDOUT;
    union message m;

    if (p.fd < 0)
        return rc;
    message_init(&m, MESSAGE_STOP);
    rc = message_send(p.fd, &m, -1);
    /* First DONE comes; then the end, when the daemon closes its connections, last of all. */
    for (int i = 0; i < 2 && rc == 0; i++) {
        rc = poll(&p, 1, 60000) == 1 ? message_receive(p.fd, TO_CLIENT, &m, NULL) : -ETIMEDOUT;
        if (rc == 0)
            rc = i == 0 && m.header.type == MESSAGE_DONE ? m.done.error : -EPROTO;
    }
    close(p.fd);
    return rc == -ECONNRESET ? 0 : rc;
}

#endif
