/*
 * http.h - the metrics over HTTP, from the daemon's own loop: one request for each connection. Off
 * unless cutind.conf names an address or a socket was handed to the daemon.
 *
 * Never on an address that another machine can reach: loopback or a UNIX socket. Where that cannot
 * be had, because somebody else was first, the daemon goes on without, says so, and tries again.
 *
 * Anybody may connect to a port, so a connection has 5 s for all of it, and where there are too
 * many the oldest goes. A request that is there when its connection is taken in is answered before
 * the next one is.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_HTTP_H
#define CUTIN_SCHEDULER_DAEMON_HTTP_H

#include <stdint.h>
#include <stdio.h>

struct daemon;
struct http;

/* Serves at `address` as soon as that is to be had, or, with `socket` not -1, at what that listens
 * at. NULL: no memory. */
struct http *http_new(int epoll, const char *address, int socket, const struct daemon *daemon);
/* What no event announces. Returns when it is due again, in ms. */
int http_look(struct http *h, uint64_t now_ns);
void http_free(struct http *h);

/* metrics.c: figures of all clients and of the daemon as Prometheus text. */
void metrics_print(FILE *out, const struct daemon *d);

#endif
