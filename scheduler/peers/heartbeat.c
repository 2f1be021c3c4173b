/*
 * heartbeat.c - clients that hold others and have stopped running, though they live.
 */
#include "scheduler/peers/heartbeat.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <utlist.h>

#include "scheduler/peers/log.h"

/* Since it connected, at the earliest: its thread may not have had its first turn yet. */
static uint64_t age(const struct peer *p, uint64_t now)
{
    uint64_t beat = atomic_load_explicit(&p->page->page->heartbeat_ns, memory_order_relaxed);

    if (beat < p->since_ns)
        beat = p->since_ns;
    return beat < now ? now - beat : 0;
}

/* proc(5): the state is the letter behind the last parenthesis. '?' where it cannot be seen: a
 * process of another PID namespace. */
static char state(pid_t pid)
{
    char path[32], text[512];
    char *letter;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return '?';
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    letter = strrchr(text, ')');
    return letter && letter[1] == ' ' && letter[2] ? letter[2] : '?';
}

/* A beat alone cannot tell a stopped process from one that waits for a processor. */
static bool stopped(const struct peer *p, uint64_t now)
{
    uint64_t silent = age(p, now);
    char letter;

    if (silent <= HEARTBEAT_STALE_NS)
        return false;
    if (silent > HEARTBEAT_SILENT_NS)
        return true;
    letter = state(p->who.pid);
    return letter == 'T' || letter == 't' || letter == '?';
}

static void look(struct peer *peers, struct peer *p, uint64_t now)
{
    bool stalled = stopped(p, now);

    if (stalled && !p->stalled)
        log_line(LOG_INFO, "process %d has stopped: nothing is held by it", (int)p->who.pid);
    /* Every time: it may have gone on for a moment in between, in the middle of a write. */
    if (stalled)
        topology_open_holds(peers, p);
    else if (p->stalled)
        topology_remind(p);
    p->stalled = stalled;
}

bool heartbeat_look(struct peer *peers, uint64_t now_ns)
{
    bool any = false;
    struct peer *p;

    DL_FOREACH (peers, p) {
        if (!p->client || p->dead || (p->below == 0 && !p->stalled))
            continue;
        look(peers, p, now_ns);
        any = true;
    }
    return any;
}
