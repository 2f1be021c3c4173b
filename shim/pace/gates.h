/*
 * gates.h - gates: how a hold reaches work that has already left for the driver.
 *
 * A gate is a stream's wait for the hold word of its level to be 0. The word lies in the page that
 * the scheduler's other clients write to; the page is registered with the driver, context by
 * context, so that the GPU looks at it by itself. Where that is refused a mirror of the word, in
 * memory that the driver has allocated, is kept current by a thread.
 *
 * Nothing waits for good. A registered page stays what it was when other memory takes its place at
 * the page's address (the daemon came or went): words that nobody will clear any more are opened by
 * the client's thread. The threads that open gates make no driver call while one is closed: who
 * waits for the stream inside the driver may hold its locks.
 *
 * A process whose streams have different levels has no gates: streams share hardware queues, and a
 * closed gate could stop one above it.
 */
#ifndef CUTIN_SHIM_PACE_GATES_H
#define CUTIN_SHIM_PACE_GATES_H

#include "shim/objects/context.h"

/* vhq_ops.gate of every context. */
int gates_write(void *user, struct vhq *q, void *stream, uint32_t value);

/* Makes the context's gates, tells when they may be used, and when no longer. In the client's
 * thread, every 10 ms, and once while the context is being made known. */
void gates_look(struct shim_context *ctx);
/* Estimated work between two markers so that they take 2 % of it; 0: their cost is not known. */
uint32_t gates_marks_apart_ns(const struct gpu_device *gpu);
/* Estimated work between two gates of a graph; 0: graphs are to have none. */
uint64_t gates_graph_spacing_ns(const struct shim_context *ctx);
/* Where the GPU finds the hold word of the context's gates, or, as long as there is no scheduler, a
 * word that stays 0; 0: the driver refuses gates, or there will never be one. */
CUdeviceptr gates_word_to_be(struct shim_context *ctx);
/* Where the hold word is for a gate in what is about to go into a stream of this level; 0: it must
 * have none. */
CUdeviceptr gates_word_now(struct shim_context *ctx, uint32_t level);
/* Streams of this context may stand at a gate, now. */
bool gates_closed(const struct shim_context *ctx);
/* While they do, every 10 ms, in the client's thread: what has stood at a gate for 10 s is let out.
 */
void gates_closed_look(struct shim_context *ctx);
/* Opens what nobody else will: no driver calls, no locks. The client's thread. */
void gates_open_stale(void);
/* At exit, with the client closed: what is in flight runs to its end. At most 20 ms. */
void gates_open_all(void);
/* The driver may be about to end the context, with the memory of mirrors: they stand open
 * meanwhile. */
void gates_pause(struct shim_context *ctx, bool pause);
/* Why nothing that this process has in the driver may be stopped there; NULL: nothing speaks
 * against it. */
const char *gates_process_objection(void);
/* There is an MPS server. */
bool gates_mps(void);
/* A write by a stream of this process goes to memory that somebody outside may see, and wait for.
 * What is in the driver must not stand still for longer than a hold keeps such a write back, so
 * there are no gates any more from the first one on, and nothing is suspended. */
void gates_note_peer(void);
bool gates_peers(void);

#endif
