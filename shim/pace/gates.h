/*
 * gates.h - gates: how a hold reaches work that has already left for the driver.
 *
 * A gate makes a stream wait until the hold word of its level is 0. The word lies in the page that
 * the scheduler's other clients write to. The page is registered with the driver, context by
 * context, so the GPU looks at it by itself. If the driver refuses that, a thread keeps a mirror of
 * the word current, in memory that the driver has allocated.
 *
 * No gate stays closed for good. A registered page stays the same memory when other memory takes
 * its address (the daemon came or went). The client's thread opens words there that no process will
 * clear any more. The threads that open gates make no driver call while one is closed: a thread
 * that waits for the stream inside the driver may hold its locks.
 *
 * A process whose streams have different levels has no gates: streams share hardware queues, and a
 * closed gate could stop a stream of a higher level.
 */
#ifndef CUTIN_SHIM_PACE_GATES_H
#define CUTIN_SHIM_PACE_GATES_H

#include "shim/objects/context.h"

/* vhq_ops.gate of every context. */
int gates_write(void *user, struct vhq *q, void *stream, uint32_t value);

/* Makes the context's gates, and tells when they may be used and when no longer. The client's
 * thread calls it every 10 ms; it is also called once while the context is made known. */
void gates_update(struct shim_context *ctx);
/* Estimated work between two markers such that they take 2 % of it. 0: their cost is not known. */
uint32_t gates_marks_apart_ns(const struct gpu_device *gpu);
/* Estimated work between two gates of a graph; 0: graphs are to have none. */
uint64_t gates_graph_spacing_ns(const struct shim_context *ctx);
/* Where the GPU finds the hold word of the context's gates; while there is no scheduler yet, a word
 * that stays 0. 0: the driver refuses gates, or there will never be a scheduler. */
CUdeviceptr gates_word_initial(struct shim_context *ctx);
/* Where the hold word is, for gates in what is about to go into a stream of this level. 0: it must
 * have no gates. */
CUdeviceptr gates_word_if_usable(struct shim_context *ctx, uint32_t level);
/* True if streams of this context may stand at a gate now. */
bool gates_closed(const struct shim_context *ctx);
/* Lets out what has stood at a gate for 10 s. The client's thread calls it every 10 ms while gates
 * are closed. */
void gates_closed_tick(struct shim_context *ctx);
/* Opens gates that no other process will open. No driver calls, no locks; the client's thread. */
void gates_open_stale(void);
/* At exit, with the client closed: opens gates until what is in flight has run; 20 ms at most. */
void gates_open_all(void);
/* Mirrors stand open while the driver may be about to end the context, and with it their memory. */
void gates_pause_mirrors(struct shim_context *ctx, bool pause);
/* Why what this process has in the driver may not be stopped there. NULL: nothing speaks against
 * it. */
const char *gates_process_objection(void);
/* True if there may be an MPS server. */
bool gates_mps(void);
/* Notes that a stream writes to memory that another process or device may see, and wait for. What
 * is in the driver must not stand still for longer than a hold keeps such a write back. So from the
 * first one on there are no gates, and nothing is suspended. */
void gates_note_peer(void);
bool gates_peer_noted(void);

#endif
