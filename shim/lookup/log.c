/*
 * log.c - messages: one line, one write, to the standard error that the process was started with.
 */
#include "shim/lookup/shim.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Standard error at the start. A program may have closed it and opened a file in its place. */
static struct {
    bool known, open;
    struct stat is;
} start;

void log_start(void)
{
    start.known = true;
    start.open = fstat(STDERR_FILENO, &start.is) == 0;
}

/* Standard error is still that file, and takes a line without waiting for its reader. */
static bool takes_a_line(void)
{
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    struct stat is;

    if (!start.known) /* a unit test */
        log_start();
    return start.open && fstat(STDERR_FILENO, &is) == 0 && is.st_dev == start.is.st_dev &&
           is.st_ino == start.is.st_ino && poll(&p, 1, 0) == 1 && p.revents == POLLOUT;
}

/* CUTIN_LOG is read here, because config_get has messages of its own, also about bad values of
 * CUTIN_LOG. */
bool log_enabled(int severity)
{
    static _Atomic int known = -1;
    int value = atomic_load_explicit(&known, memory_order_relaxed);

    if (unlikely(value < 0)) {
        const char *text = secure_getenv("CUTIN_LOG");
        value = text ? word_index(LOG_WORDS, text) : -1;
        if (value < 0)
            value = LOG_WARN;
        atomic_store_explicit(&known, value, memory_order_relaxed);
    }
    return severity <= value;
}

void log_line(int severity, const char *format, ...)
{
    char line[1024] = "cutin: ";
    const size_t head = sizeof("cutin: ") - 1, room = sizeof(line) - head - 1;
    struct quiet quiet;
    va_list args;

    if (!log_enabled(severity))
        return;
    quiet_begin(&quiet);
    va_start(args, format);
    int length = vsnprintf(line + head, room, format, args);
    va_end(args);
    if (length >= 0 && takes_a_line()) {
        size_t end = head + ((size_t)length < room ? (size_t)length : room - 1);
        line[end++] = '\n';
        ssize_t written =
            write(STDERR_FILENO, line, end); /* a message may get lost, without an error */
        (void)written;
    }
    quiet_end(&quiet);
}
