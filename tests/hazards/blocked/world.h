/*
 * world.h - a world in which everything is blocked that a call may not wait for: streams that stand
 * behind a wait for a word, which the host writes when the call has returned.
 */
#ifndef HAZARDS_HAZARD_WORLD_H
#define HAZARDS_HAZARD_WORLD_H

#include <stdbool.h>

#include "tests/hazards/blocked/arguments.h"

/* What a call waits for natively, and the world that it is made in.
 *   NOTHING   all streams of its context and of another one are blocked
 *   STREAM    ... but for `idle`, which it names
 *   BLOCKING  ... but for the legacy stream and the blocking ones
 *   CONTEXT   ... but for the context that it names or that is current, `apart`
 *   DEVICE    nothing is blocked: it may wait for all work */
enum waits { NOTHING, STREAM, BLOCKING, CONTEXT, DEVICE };

extern word busy, idle; /* streams of the primary context that no other waits for */
extern word apart;      /* a context */

/* Who else is in it. */
enum company {
    NOBODY,
    TURN,   /* a thread stands in a copy to pageable memory, in `busy` */
    CAPTURE /* a thread captures, and no other one may do what is unsafe meanwhile */
};

void world_open(void);
/* Arguments are made between these two. */
void world_enter(enum waits waits);
/* With `all` what the call waits for is blocked too. */
void world_block(enum waits waits, enum company company, bool all);
/* The event is recorded, and the graph launched, behind the blocked work of `busy` next time. */
word behind_event(word e);
word behind_graph(word g);

/* ... recorded in `idle`. */
word in_idle(word e);
/* What the call names in place of `apart`. */
word named_context(word c);

/* A watch opens the world for a call that does not return; and ends the program where that does not
 * help, or the world is not clear in time. */
void call_begin(const char *function);
bool call_end(void); /* true: it would not have returned */
void world_clear(enum company company);

#endif
