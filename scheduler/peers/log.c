/*
 * log.c - what the daemon says: one line per event on stderr, with a severity.
 */
#include "scheduler/peers/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t level = LOG_INFO;

/* systemd names device and inode of the journal's end of our stderr. */
static bool to_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    struct stat st;

    return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(2, &st) == 0 &&
           st.st_dev == dev && st.st_ino == ino;
}

void log_set_level(uint32_t most)
{
    level = most;
}

void log_line(uint32_t severity, const char *format, ...)
{
    static const int priority[] = {3, 4, 6, 7}; /* of syslog(3) */
    char text[512];
    va_list args;

    if (severity > level)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (to_journal())
        fprintf(stderr, "<%d>%s\n", priority[severity], text);
    else
        fprintf(stderr, "cutind: %s\n", text);
}
