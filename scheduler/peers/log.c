/* log.c - see peer.h. */
#include "scheduler/peers/peer.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/clock.h"

#define SAY_NS    1000000000ull
#define SAY_BURST 32u

uint32_t log_most = LOG_INFO;
uint64_t log_dropped;

void log_about(struct user *user, uint32_t severity, const char *format, ...)
{
    static const int priority[] = {3, 4, 6, 7}; /* of syslog(3) */
    static uint32_t lost;
    static bool torn; /* the last write was no whole line */
    struct pollfd log = {.fd = STDERR_FILENO, .events = POLLOUT};
    char mark[32] = "cutind: ", text[512], line[700];
    const char *stream = getenv("JOURNAL_STREAM");
    unsigned long long dev, ino;
    ssize_t n, written = 0;
    struct stat st;
    va_list args;

    if (user && !rate_take(&user->log_due_ns, clock_ns(), SAY_NS, SAY_BURST)) {
        user->unsaid++;
        log_dropped++;
        return;
    }
    if (user && user->unsaid)
        log_line(LOG_WARN, "%u lines about processes of user %u were left out", user->unsaid,
                 (unsigned)user->uid);
    if (user)
        user->unsaid = 0;
    if (severity > log_most)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* systemd passes the device and inode of the journal's end of stderr. */
    if (stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 && fstat(2, &st) == 0 &&
        st.st_dev == dev && st.st_ino == ino)
        snprintf(mark, sizeof(mark), "<%d>", priority[severity]);
    if (lost)
        n = snprintf(line, sizeof(line),
                     "%s%s%u lines were lost: this log was not read, or its disk was full\n%s%s\n",
                     torn ? "\n" : "", mark, lost, mark, text);
    else
        n = snprintf(line, sizeof(line), "%s%s\n", mark, text);
    /* One write of less than PIPE_BUF, and only if there is room for it: so it never waits. */
    if (poll(&log, 1, 0) == 1 && (log.revents & POLLOUT))
        written = write(STDERR_FILENO, line, (size_t)n);
    torn = written != n && (torn || written > 0); /* a full disk */
    lost = written == n ? 0 : lost + 1;
    log_dropped += written != n;
}
