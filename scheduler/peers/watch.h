/*
 * watch.h - something that epoll reports on.
 */
#ifndef CUTIN_SCHEDULER_PEERS_WATCH_H
#define CUTIN_SCHEDULER_PEERS_WATCH_H

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>

struct watch {
    void (*ready)(void *user, uint32_t events);
    void *user;
    int epoll, fd;
    uint32_t events; /* that epoll reports */
};

static inline int watch_control(struct watch *w, int what)
{
    struct epoll_event event = {.events = w->events, .data.ptr = w};

    return epoll_ctl(w->epoll, what, w->fd, &event) == 0 ? 0 : -errno;
}

/* `ready` is called when there is something to read, until watch_change. Return 0 or -errno. */
static inline int watch_begin(struct watch *w, int epoll, int fd,
                              void (*ready)(void *user, uint32_t events), void *user)
{
    *w = (struct watch){.ready = ready, .user = user, .epoll = epoll, .fd = fd, .events = EPOLLIN};
    return watch_control(w, EPOLL_CTL_ADD);
}

static inline int watch_change(struct watch *w, uint32_t events)
{
    if (events == w->events)
        return 0;
    w->events = events;
    return watch_control(w, EPOLL_CTL_MOD);
}

#endif
