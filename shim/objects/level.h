/*
 * level.h - the levels that streams of this process may have.
 */
#ifndef CUTIN_SHIM_OBJECTS_LEVEL_H
#define CUTIN_SHIM_OBJECTS_LEVEL_H

#include "scheduler/client/client.h"
#include "shim/lookup/shim.h"

/* The highest is client_level(). */
static inline uint32_t level_lowest(void)
{
    return config_get()->stream_priority == STREAM_PRIORITY_FLAT ? client_level() : CUTIN_LEVEL_BE;
}
/* Do streams of this level have queues? Real-time ones go straight to the driver, unless the
 * process has deadlines: then a process with an earlier deadline may hold them. */
static inline bool level_has_queues(uint32_t level)
{
    return level < CUTIN_LEVEL_RT || config_get()->deadline_ms;
}

extern _Atomic uint32_t levels_seen; /* bit mask of the levels that streams have had */
static inline bool levels_mixed(void)
{
    uint32_t mask = atomic_load_explicit(&levels_seen, memory_order_relaxed);
    return (mask & (mask - 1)) != 0;
}

#endif
