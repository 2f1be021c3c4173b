/*
 * heartbeat.c - clients that hold others and live, but have stopped running.
 *
 * A process that was stopped (SIGSTOP, a debugger, a frozen container) keeps its socket, so nothing
 * tells the daemon, and what it holds would stay held. Every client writes the time into its page
 * at least every 50 ms or, if nothing is under way, a time in the future. A client whose beat is
 * older than HEARTBEAT_ASK_NS is asked for one, which wakes the link's thread if it still sleeps. A
 * client whose beat is older than HEARTBEAT_STALE_NS and which the kernel calls stopped counts as
 * stopped: the daemon clears its bits in the pages below, as if it had died. It scans every
 * HEARTBEAT_SCAN_MS, so such a hold opens within 100 ms. When the client beats again it is told its
 * bits once more, and writes them anew if it is still active: no process sets a bit for another.
 *
 * A process that is ending counts as stopped, too. A killed process gives its memory back before it
 * closes its socket, which takes 100 ms for each gigabyte on a small machine, and the driver takes
 * its time for the GPU's memory. A process that crashes writes its core first.
 *
 * A late beat of a process that the kernel calls running means a busy machine, and its holds stay.
 * A frozen container looks the same, except that none of its threads wants a processor: it counts
 * as stopped after HEARTBEAT_SILENT_NS. If the state cannot be seen (the client lives in another
 * PID namespace) the stale beat alone decides.
 */
#include "scheduler/peers/scan.h"

#include "scheduler/policy/proc.h"
#include "common/mutant.h"

/* Why the client is silent; NULL: it runs. A beat alone cannot tell a stopped process from one that
 * waits for a processor. */
static const char *silence(const struct peer *p, uint64_t silent)
{
    enum proc proc;

    if (silent <= HEARTBEAT_STALE_NS)
        return NULL;
    proc = proc_run_state(p->who.pid);
    if (proc == PROC_ENDING)
        return "is ending";
    if (proc == PROC_RUNS &&
        (silent <= HEARTBEAT_SILENT_NS || (!p->stopped && proc_any_thread(p->who.pid, true))))
        return NULL;
    return "has stopped";
}

/* Whether the policy may hold others for its sake. */
static bool under_policy(const struct peer *p)
{
    for (uint32_t i = 0; i < PAGE_DEVICES; i++) {
        const struct page_device *device = &p->page->page->device[i];

        if (device_has_work(device) || figure_read(&device->deadline_ns))
            return !MUTANT(stopped_has_quantum);
    }
    return false;
}

bool heartbeat_scan(struct peer *peers, bool policed, uint64_t now_ns)
{
    bool any = false;

    PEER_CLIENTS (peers, p) {
        uint64_t beat, silent;
        const char *why;
        union message m;

        if (p->dead || (p->below == 0 && !p->stopped && !(policed && under_policy(p))))
            continue;
        any = true;
        /* Silent since it connected, at most: its thread may not have run yet. The beat of a calm
         * client (scheduler/client/client.c) lies in the future; the clock of one in a time
         * namespace may be ahead. */
        beat = figure_read(&p->page->page->heartbeat_ns);
        beat = beat < p->since_ns ? p->since_ns : beat;
        silent = beat < now_ns ? now_ns - beat : 0;
        if (silent > HEARTBEAT_ASK_NS && !p->asked_for_beat) { /* once for each silence */
            message_init(&m, MESSAGE_BEAT);
            peer_send(p, &m, NULL);
        }
        p->asked_for_beat = silent > HEARTBEAT_ASK_NS;
        why = silence(p, silent);
        if (why && !p->stopped)
            log_about(p->user, LOG_INFO, "process %d %s: it no longer holds other processes",
                      (int)p->who.pid, why);
        /* At every scan: it may have run for a moment in between, in the middle of a write. */
        if (why)
            topology_open_holds(peers, p);
        else if (p->stopped)
            topology_resend_bits(p);
        p->stopped = !!why;
    }
    return any;
}
