/*
 * level.h - the levels that streams of this process may have.
 */
#ifndef CUTIN_SHIM_OBJECTS_LEVEL_H
#define CUTIN_SHIM_OBJECTS_LEVEL_H

#include "shim/objects/object.h"

/* Level of a stream of CUDA priority `priority` in `ctx`. */
uint32_t level_of_priority(const struct shim_context *ctx, int priority);
uint32_t level_lowest(void);
uint32_t level_highest(void);
/* Notes a stream of this level; levels_mixed: streams of several levels have existed. */
void level_note(uint32_t level);
bool levels_mixed(void);
/* Do streams of this level have queues? Real-time ones go straight to the driver, unless the
 * process has deadlines: then a process with an earlier deadline may hold them. */
bool level_has_queues(uint32_t level);

#endif
