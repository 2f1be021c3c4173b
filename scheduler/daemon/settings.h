/*
 * settings.h - what changes for all while the daemon runs: cutind.conf, read again, and the policy.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_SETTINGS_H
#define CUTIN_SCHEDULER_DAEMON_SETTINGS_H

#include "scheduler/policy/policy.h"

struct daemon;

void settings_set_policy(struct daemon *d, const struct policy *policy);
/* Levels follow the new rules at once; the socket keeps its mode. A file that is wrong changes
 * nothing. */
void settings_reload(struct daemon *d);

#endif
