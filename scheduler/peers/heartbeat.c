/*
 * heartbeat.c - clients that hold others and have stopped running, though they live.
 */
#include "scheduler/peers/heartbeat.h"

#include <utlist.h>

#include "scheduler/peers/log.h"
#include "scheduler/policy/proc.h"

/* A beat alone cannot tell a stopped process from one that waits for a processor. NULL: it runs. */
static const char *silence(const struct peer *p, uint64_t now)
{
    uint64_t beat = page_read(&p->page->page->heartbeat_ns), silent;
    enum proc proc;

    /* Since it connected, at the earliest: its thread may not have had its first turn yet. */
    if (beat < p->since_ns)
        beat = p->since_ns;
    silent = beat < now ? now - beat : 0;
    if (silent <= HEARTBEAT_STALE_NS)
        return NULL;
    proc = proc_look(p->who.pid);
    if (proc == PROC_ENDING)
        return "is ending";
    if (proc == PROC_RUNS &&
        (silent <= HEARTBEAT_SILENT_NS || (!p->stalled && proc_wants_processor(p->who.pid))))
        return NULL;
    return "has stopped";
}

bool heartbeat_look(struct peer *peers, uint64_t now_ns)
{
    bool any = false;
    struct peer *p;

    DL_FOREACH (peers, p) {
        const char *why;

        if (!p->client || p->dead || (p->below == 0 && !p->stalled))
            continue;
        any = true;
        why = silence(p, now_ns);
        if (why && !p->stalled)
            log_about(p->user, LOG_INFO, "process %d %s: it holds nobody any more", (int)p->who.pid,
                      why);
        /* Every time: it may have gone on for a moment in between, in the middle of a write. */
        if (why)
            topology_open_holds(peers, p);
        else if (p->stalled)
            topology_remind(p);
        p->stalled = !!why;
    }
    return any;
}
