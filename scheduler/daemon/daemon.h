/*
 * daemon.h - the scheduler daemon: one thread, one epoll loop, connections that cannot hurt it.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_DAEMON_H
#define CUTIN_SCHEDULER_DAEMON_DAEMON_H

#include <stddef.h>
#include <stdint.h>

#include "scheduler/policy/conf.h"

struct daemon;

struct daemon_options {
    int listener;          /* listening socket */
    uint32_t idle_exit_s;  /* end after that long without a connection; 0 = never */
    struct conf *conf;     /* the daemon may replace its contents, on SIGHUP */
    const char *conf_path; /* as on the command line; NULL: the default places */
};

/* NULL: no memory or no descriptors (errno). Blocks SIGTERM, SIGINT and SIGHUP. */
struct daemon *daemon_new(const struct daemon_options *options);
/* Serves the metrics where the configuration says. Returns 0, or -errno and why. */
int daemon_serve_metrics(struct daemon *d, char *why, size_t why_size);
/* Until SIGTERM or SIGINT, a STOP message, or idleness. Returns 0 or -errno. */
int daemon_run(struct daemon *d);
/* Disconnects everybody and frees. */
void daemon_free(struct daemon *d);

#endif
