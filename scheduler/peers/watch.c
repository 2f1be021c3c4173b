/*
 * watch.c - something that epoll reports on.
 */
#include "scheduler/peers/watch.h"

#include <errno.h>
#include <sys/epoll.h>

static int control(struct watch *w, int what)
{
    struct epoll_event event = {.events = w->events, .data.ptr = w};

    return epoll_ctl(w->epoll, what, w->fd, &event) == 0 ? 0 : -errno;
}

int watch_begin(struct watch *w, int epoll, int fd, uint32_t events)
{
    w->epoll = epoll;
    w->fd = fd;
    w->events = events;
    return control(w, EPOLL_CTL_ADD);
}

int watch_change(struct watch *w, uint32_t events)
{
    if (events == w->events)
        return 0;
    w->events = events;
    return control(w, EPOLL_CTL_MOD);
}
