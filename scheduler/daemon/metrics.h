/*
 * metrics.h - figures of all clients as Prometheus text, over HTTP.
 *
 * Off unless cutind.conf names an address, and never on one that another machine can reach:
 * loopback or a UNIX socket. Served by libmicrohttpd inside the daemon's own loop, in no thread of
 * its own.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_METRICS_H
#define CUTIN_SCHEDULER_DAEMON_METRICS_H

#include <stddef.h>

#include "scheduler/peers/peer.h"

/* A cutind that was built without libmicrohttpd has no metrics.c: all of these are NULL there. */
#pragma weak metrics_open
#pragma weak metrics_fd
#pragma weak metrics_run
#pragma weak metrics_wait_ms
#pragma weak metrics_close

struct metrics;

/* Listens. Returns 0, or -errno and why. `peers` is where the daemon keeps its list. */
int metrics_open(struct metrics **out, const char *address, struct peer *const *peers, char *why,
                 size_t why_size);
/* Readable when something is to be done: then metrics_run, which never blocks. */
int metrics_fd(const struct metrics *m);
void metrics_run(struct metrics *m);
/* When it must be run in any case, in ms; -1: not at all. */
int metrics_wait_ms(const struct metrics *m);
void metrics_close(struct metrics *m);

#endif
