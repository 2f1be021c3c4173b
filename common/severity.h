/*
 * severity.h - of messages, the worst first. A setting names the last one that is still said.
 */
#ifndef CUTIN_COMMON_SEVERITY_H
#define CUTIN_COMMON_SEVERITY_H

enum { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

#define LOG_WORDS "error warn info debug"

#endif
