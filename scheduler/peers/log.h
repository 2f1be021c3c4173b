/*
 * log.h - the daemon's log: one line per event on stderr, with a severity.
 *
 * If stderr is the journal, a line begins with its severity in the journal's own notation. A log
 * that is not read delays nothing: lines are lost, and counted.
 */
#ifndef CUTIN_SCHEDULER_PEERS_LOG_H
#define CUTIN_SCHEDULER_PEERS_LOG_H

#include <stdint.h>

#include "common/severity.h"

struct user;

extern uint32_t log_most; /* the least severe lines that are logged */
/* Logs an event that a user's processes caused (NULL: a user without limits, or no user): 32 lines
 * at once, and then one a second. A line after that first says how many were left out. */
void log_about(struct user *user, uint32_t severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define log_line(...) log_about(NULL, __VA_ARGS__)
/* Lines that were lost or left out since the beginning. */
extern uint64_t log_dropped;

#endif
