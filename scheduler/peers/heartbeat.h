/*
 * heartbeat.h - clients that hold others and have stopped running, though they live.
 *
 * A process that was stopped (SIGSTOP, a debugger, a frozen container) keeps its socket, so nothing
 * tells the daemon, and what it holds would stay held. Every client's thread writes the time into
 * its page at least every 10 ms. While it waits in the driver, which keeps it for as long as a full
 * ring takes to drain, the thread of the link does, after 50 ms at most. A client whose beat is
 * older than HEARTBEAT_STALE_NS and whom the kernel calls stopped is stalled: the daemon takes its
 * bits out of the pages below, as if it had died, and looks every HEARTBEAT_LOOK_MS, so a hold of a
 * stopped process opens within 100 ms. When it beats again it is told its bits once more, and
 * writes them anew if it is still active: nobody sets a bit on another's behalf. Its own next
 * activity does so at once, without waiting for that.
 *
 * So is one that ends. A killed process gives its memory back before it closes its socket, 100 ms
 * for each gigabyte on a small machine, and the driver takes its time for the GPU's; a process that
 * crashes writes its core first.
 *
 * A late beat of a process that the kernel calls running means a busy machine, and its holds stay.
 * A frozen container looks the same, but that none of its threads wants a processor: it is stalled
 * after HEARTBEAT_SILENT_NS. Where the state cannot be seen (the client lives in another PID
 * namespace) the stale beat alone decides.
 */
#ifndef CUTIN_SCHEDULER_PEERS_HEARTBEAT_H
#define CUTIN_SCHEDULER_PEERS_HEARTBEAT_H

#include "common/clock.h"
#include "scheduler/peers/topology.h"

#define HEARTBEAT_STALE_NS  (60ull * NS_PER_MS)
#define HEARTBEAT_SILENT_NS (1000ull * NS_PER_MS)
#define HEARTBEAT_LOOK_MS   20

/* One look at all clients. True while there is one that may hold others: then look again. */
bool heartbeat_look(struct peer *peers, uint64_t now_ns);

#endif
