/*
 * gates.h - does this machine's GPU honour gates? Asked once for a driver, its devices and what the
 * environment says of them, in processes of their own; libcutin.so goes by the records.
 */
#ifndef CUTIN_TOOLS_CUTIN_RUN_GATES_H
#define CUTIN_TOOLS_CUTIN_RUN_GATES_H

#include <stdbool.h>

#include "common/record.h"
#include "tools/cutin/paths.h"

/* Asks where nothing is recorded yet, or `again`: ten seconds at most for each device, and no more
 * devices after one that is not done then. While it asks, others that want to know wait. Says
 * nothing, whatever comes of it. */
void gates_learn(const struct paths *paths, bool sim, bool again);
/* Is there a record of this kind of GPU with this very driver (common/record.h)? */
bool gates_recorded(const uint8_t key[16], const char *version, struct record *r);

#endif
