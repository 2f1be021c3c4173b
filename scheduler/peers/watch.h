/*
 * watch.h - something that epoll reports on.
 */
#ifndef CUTIN_SCHEDULER_PEERS_WATCH_H
#define CUTIN_SCHEDULER_PEERS_WATCH_H

#include <stdint.h>

struct watch {
    void (*ready)(struct watch *w, uint32_t events);
    int epoll, fd;
    uint32_t events; /* that epoll reports */
};

/* Return 0 or -errno. */
int watch_begin(struct watch *w, int epoll, int fd, uint32_t events);
int watch_change(struct watch *w, uint32_t events);

#endif
