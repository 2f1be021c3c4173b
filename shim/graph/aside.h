/*
 * aside.h - graphs that reach other devices than that of the stream they are launched in.
 *
 * The driver runs such a launch as one work of its stream, and nothing of it shows in a stream of
 * the other devices. So the shim has a stream of its own there, for each level, in which the launch
 * is a command too: it counts, it makes its level active, and it waits for that device's holds.
 * Afterwards that stream waits for the launch, so that it is complete when the launch is.
 *
 * Such launches are made by the calling thread.
 */
#ifndef CUTIN_SHIM_GRAPH_ASIDE_H
#define CUTIN_SHIM_GRAPH_ASIDE_H

#include "shim/graph/graph_nodes.h"

struct asides;

/* Some graph of this process has them, or had: one relaxed load. */
extern _Atomic bool asides_seen;

/* Of a graph that was read; NULL: it reaches no other device (or no memory). */
struct asides *asides_new(const struct graph_nodes *n);
void asides_free(struct asides *a); /* NULL is allowed */

/* Wait for the holds of the other devices at this level. */
void asides_wait(struct asides *a, uint32_t level);
/* One of them is held. */
bool asides_held(const struct asides *a, uint32_t level);
/* Make the launch in `s`, as a command of the other devices too, and say to the completion of `s`
 * that it is theirs. Returns what `launch` does, or the error of another device's context. */
CUresult asides_launch(struct asides *a, struct shim_stream *s, int (*launch)(void *args),
                       void *args);
/* That was the call of `s` with this epoch; 0 says nothing. */
void asides_joined(struct asides *a, struct shim_stream *s, uint64_t epoch);

/* One such launch of a level at a time: two that reach the devices in another order would wait for
 * each other. Streams without queues wait for nobody, and need none. */
void asides_lock(uint32_t level);
void asides_unlock(uint32_t level);

#endif
