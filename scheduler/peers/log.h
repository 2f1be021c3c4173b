/*
 * log.h - what the daemon says: one line per event on stderr, with a severity.
 *
 * Where stderr is the journal, a line begins with its severity in the journal's own notation. A log
 * that nobody reads keeps nobody waiting: lines are lost, and counted.
 */
#ifndef CUTIN_SCHEDULER_PEERS_LOG_H
#define CUTIN_SCHEDULER_PEERS_LOG_H

#include <stdint.h>

#include "common/severity.h"

struct user;

extern uint32_t log_most; /* the last severity still said */
/* What a user's processes made happen (NULL: of one without limits, or nobody's): 32 lines at once,
 * and then one a second. The next one is preceded by how many were left out. */
void log_about(struct user *user, uint32_t severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define log_line(...) log_about(NULL, __VA_ARGS__)
/* Lines that nobody read, or that were left out, since the beginning. */
extern uint64_t log_dropped;

#endif
