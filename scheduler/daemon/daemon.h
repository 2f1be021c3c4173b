/*
 * daemon.h - the scheduler daemon: one thread, one epoll loop, connections that cannot hurt it.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_DAEMON_H
#define CUTIN_SCHEDULER_DAEMON_DAEMON_H

#include <stdint.h>

#include "scheduler/policy/conf.h"

struct daemon;
struct listener;

/* Ends after `idle_exit_s` without a connection and without a process that had one; 0: never. It
 * may replace the contents of `conf` on SIGHUP, from `conf_path`, which is as on the command line;
 * NULL: the default places. Blocks SIGTERM, SIGINT and SIGHUP. Returns NULL where there is no
 * memory or no descriptor (errno). */
struct daemon *daemon_new(struct listener *listener, uint32_t idle_exit_s, struct conf *conf,
                          const char *conf_path);
/* Serves the metrics at a socket that listens already, or, with -1, where the configuration says.
 * Returns 0 or -ENOMEM. */
int daemon_serve_metrics(struct daemon *d, int socket);
/* Until SIGTERM or SIGINT, a STOP message, or idleness. Returns 0 or -errno; -EADDRINUSE: another
 * daemon has taken the place of this one's socket, which somebody had removed. */
int daemon_run(struct daemon *d);
/* Disconnects everybody and frees. */
void daemon_free(struct daemon *d);

#endif
