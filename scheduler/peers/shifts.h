/*
 * shifts.h - which clients below keep the device busy, and in which order they take shifts.
 *
 * Each process bounds what it has in flight, and several together have several times as much. Those
 * that always have something for it to do go one after another, by the clock (page.h,
 * vhq/shift.c). Here is found who that is: nothing but figures of their pages is needed, and nobody
 * is told but by a word in his page. Whoever makes figures up gets shifts that he does not use, or
 * goes without, as he would natively.
 */
#ifndef CUTIN_SCHEDULER_PEERS_SHIFTS_H
#define CUTIN_SCHEDULER_PEERS_SHIFTS_H

#include "scheduler/peers/topology.h"

#define SHIFTS_LOOK_MS 20
#define SHIFTS_BACKLOG 3 /* so many looks in a row that found work */

/* One look at all clients. */
void shifts_look(struct peer *peers);
/* One that is not among them any more: until the next look its shifts would be nobody's. */
void shifts_leave(struct peer *peers, const struct peer *gone);

#endif
