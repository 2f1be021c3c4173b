/*
 * log.h - what the daemon says: one line per event on stderr, with a severity.
 *
 * Where stderr is the journal, a line begins with its severity in the journal's own notation.
 */
#ifndef CUTIN_REPORT_H
#define CUTIN_REPORT_H

#include <stdint.h>

enum { REPORT_ERROR, REPORT_WARN, REPORT_INFO, REPORT_DEBUG }; /* as CUTIN_LOG */

void report_set_level(uint32_t most); /* the last severity still said */
void report(uint32_t severity, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
