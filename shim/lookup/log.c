/*
 * log.c - messages: one line, one write, to stderr.
 */
#include "shim/lookup/shim.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Read here, not by config_get: that one has messages of its own, CUTIN_LOG's bad values included.
 */
static int threshold(void)
{
    static const char *const words[] = {"error", "warn", "info", "debug"};
    static _Atomic int known = -1;
    int value = atomic_load_explicit(&known, memory_order_relaxed);
    const char *text;

    if (likely(value >= 0))
        return value;
    value = LOG_WARN;
    text = secure_getenv("CUTIN_LOG");
    for (int i = LOG_ERROR; text && i <= LOG_DEBUG; i++)
        if (strcmp(text, words[i]) == 0)
            value = i;
    atomic_store_explicit(&known, value, memory_order_relaxed);
    return value;
}

bool log_enabled(int severity)
{
    return severity <= threshold();
}

void log_line(int severity, const char *format, ...)
{
    char line[1024] = "cutin: ";
    const size_t head = sizeof("cutin: ") - 1, room = sizeof(line) - head - 1;
    int saved = errno;
    va_list args;

    if (!log_enabled(severity))
        return;
    va_start(args, format);
    int length = vsnprintf(line + head, room, format, args);
    va_end(args);
    if (length >= 0) {
        size_t end = head + ((size_t)length < room ? (size_t)length : room - 1);
        line[end++] = '\n';
        ssize_t written =
            write(STDERR_FILENO, line, end); /* a message may be lost, never an error */
        (void)written;
    }
    errno = saved;
}
