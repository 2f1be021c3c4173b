/*
 * settings.h - what clients get of cutind.conf, and changes for all while the daemon runs.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_SETTINGS_H
#define CUTIN_SCHEDULER_DAEMON_SETTINGS_H

#include "scheduler/peers/peer.h"
#include "scheduler/policy/policy.h"

/* Grants `asked` and `lowest`, or less where the client's user may not have that, unless somebody
 * who may has ordered it. */
void level_grant(struct peer *p, uint32_t asked, uint32_t lowest);
/* The same, and tells the client and everybody concerned. */
void level_change(struct peer *p, uint32_t asked);

void settings_set_policy(struct daemon *d, const struct policy *policy);
/* Reads cutind.conf again. Levels follow the new rules at once; the socket keeps its mode. A file
 * that is wrong changes nothing. */
void settings_reload(struct daemon *d);

#endif
