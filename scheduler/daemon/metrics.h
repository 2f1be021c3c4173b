/*
 * metrics.h - figures of all clients as Prometheus text.
 *
 * Off unless cutind.conf names an address or a socket was handed to the daemon (http.h).
 */
#ifndef CUTIN_SCHEDULER_DAEMON_METRICS_H
#define CUTIN_SCHEDULER_DAEMON_METRICS_H

#include <stddef.h>

#include "scheduler/peers/peer.h"

/* The caller's to free(); NULL: no memory. */
char *metrics_text(const struct peer *peers, size_t *size);

#endif
