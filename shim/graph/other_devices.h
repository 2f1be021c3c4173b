/*
 * other_devices.h - graphs that reach other devices than that of the stream in which they are
 * launched.
 *
 * The driver runs such a launch as one work of its stream, and nothing of it shows in a stream of
 * the other devices. So the shim has a stream of its own there, for each level, in which the launch
 * is a command as well: it counts, makes its level active, and waits for that device's holds.
 * Behind the launch that stream waits for it, so its part is complete when the launch is.
 *
 * The calling thread makes such launches.
 */
#ifndef CUTIN_SHIM_GRAPH_OTHER_DEVICES_H
#define CUTIN_SHIM_GRAPH_OTHER_DEVICES_H

#include "shim/graph/graph_nodes.h"

struct other_devices;

/* Some graph of this process has or had them. Reading it costs one relaxed load. */
extern _Atomic bool other_devices_seen;

/* For a graph that was read. NULL: it reaches no other device, or there is no memory. */
struct other_devices *other_devices_new(const struct graph_nodes *n);
void other_devices_free(struct other_devices *a); /* NULL is allowed */

/* Waits for the holds of the other devices at this level. */
void other_devices_wait(struct other_devices *a, uint32_t level);
/* True: one of the other devices is held. */
bool other_devices_held(const struct other_devices *a, uint32_t level);
/* Makes the launch in `s` as a command of the other devices, too, whose streams then wait for it.
 * Returns the answer of `launch`, or the error of another device's context. */
CUresult other_devices_launch(struct other_devices *a, struct shim_stream *s,
                              int (*launch)(void *args), void *args);
/* The launch was that call of `s`: the other parts are complete along with it. 0 says nothing. */
void other_devices_join(struct other_devices *a, struct shim_stream *s, uint64_t epoch);

/* Only one such launch of a level at a time: two that reach the devices in different orders would
 * wait for each other. Streams without queues do not wait, and do not need the lock. */
void other_devices_lock(uint32_t level);
void other_devices_unlock(uint32_t level);

#endif
