/*
 * world.h - a world in which everything is blocked that a call must not wait for: streams that are
 * behind a wait for a word, which the host writes when the call has returned.
 */
#ifndef HAZARDS_HAZARD_WORLD_H
#define HAZARDS_HAZARD_WORLD_H

#include <stdbool.h>

#include "tests/hazards/blocked/arguments.h"

/* What a call waits for natively, and the world in which it is made.
 *   NOTHING   all streams of its context and of another one are blocked
 *   STREAM    ... except `idle`, which the call names
 *   BLOCKING  ... except the legacy stream and the blocking ones
 *   CONTEXT   ... except those of `apart`, the context that is named or current
 *   DEVICE    nothing is blocked: the call may wait for all work */
enum waits { NOTHING, STREAM, BLOCKING, CONTEXT, DEVICE };

extern word busy, idle; /* streams of the primary context; no other waits for them */
extern word apart;      /* another context */

/* What another thread does meanwhile. */
enum company {
    NOBODY,
    TURN,   /* it is in a copy to pageable memory, in `busy` */
    CAPTURE /* it captures in global mode: no other thread may make unsafe calls */
};

void world_open(void);
/* Arguments are made between world_enter and world_block. */
void world_enter(enum waits waits);
/* With `all`, what the call waits for is blocked, too. */
void world_block(enum waits waits, enum company company, bool all);
/* world_block records the event, and launches the graph, behind the blocked work of `busy`. */
word behind_event(word e);
word behind_graph(word g);

/* world_block records the event in `idle`. */
word in_idle(word e);
/* The context that the call names instead of `apart`. */
word named_context(word c);

/* A watch opens the world if a call does not return. It ends the program if that does not help, or
 * if the world is not clear in time. */
void call_begin(const char *function);
bool call_end(void); /* true: the call would not have returned */
void world_clear(enum company company);

#endif
