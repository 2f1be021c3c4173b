/*
 * log.h - what the daemon says: one line per event on stderr, with a severity.
 *
 * Where stderr is the journal, a line begins with its severity in the journal's own notation.
 */
#ifndef CUTIN_SCHEDULER_PEERS_LOG_H
#define CUTIN_SCHEDULER_PEERS_LOG_H

#include <stdint.h>

#include "common/severity.h"

void log_set_level(uint32_t most); /* the last severity still said */
void log_line(uint32_t severity, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
