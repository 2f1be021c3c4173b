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
/* A stream of this level comes; they have, or had, different ones. */
void level_note(uint32_t level);
bool levels_mixed(void);
/* Do streams of this level wait in queues? Real-time ones go straight to the driver, unless the
 * process gives deadlines: then an earlier deadline of another one may hold them. */
bool level_queues(uint32_t level);

#endif
