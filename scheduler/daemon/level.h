/*
 * level.h - the level that a client gets: what it asked for, or less where its user may not have
 * that, or what somebody who may has ordered.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_LEVEL_H
#define CUTIN_SCHEDULER_DAEMON_LEVEL_H

#include "scheduler/peers/peer.h"

/* Grants `asked` and `lowest`, or less. */
void level_grant(struct peer *p, uint32_t asked, uint32_t lowest);
/* The same, and tells the client and everybody concerned. */
void level_change(struct peer *p, uint32_t asked);

#endif
