/*
 * list.h - the answer to LIST: a row for each client.
 *
 * A row has some kilobytes, and anybody may ask: rows are made as the socket takes them, and who
 * does not take them is not read any more.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_LIST_H
#define CUTIN_SCHEDULER_DAEMON_LIST_H

#include "scheduler/peers/peer.h"

void list_begin(struct peer *p, struct peer *peers);
/* There is room in the socket. */
void list_go_on(struct peer *p);
/* A peer is about to leave the list of peers: whoever would have its row next has the one behind
 * it. */
void list_skip(struct peer *peers, const struct peer *gone);

#endif
