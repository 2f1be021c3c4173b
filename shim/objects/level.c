/*
 * level.c - the levels that streams of this process may have (see level.h).
 */
#include "shim/objects/level.h"

#include "scheduler/client/client.h"

uint32_t level_lowest(void)
{
    return config_get()->stream_priority == STREAM_PRIORITY_FLAT ? client_level() : CUTIN_LEVEL_BE;
}

uint32_t level_highest(void)
{
    return client_level();
}

static _Atomic uint32_t levels; /* bit mask of the levels that streams have had */

void level_note(uint32_t level)
{
    atomic_fetch_or(&levels, 1u << level);
}

bool levels_mixed(void)
{
    uint32_t mask = atomic_load_explicit(&levels, memory_order_relaxed);
    return (mask & (mask - 1)) != 0;
}

bool level_has_queues(uint32_t level)
{
    return level < CUTIN_LEVEL_RT || config_get()->deadline_ms;
}

uint32_t level_of_priority(const struct shim_context *ctx, int priority)
{
    uint32_t top = client_level();
    int least = ctx->priority_least, greatest = ctx->priority_greatest;
    if (config_get()->stream_priority != STREAM_PRIORITY_INHERIT || least == greatest)
        return top;
    /* CUDA: numerically lower is higher, 0 is the least; out-of-range values are clamped. */
    int steps = least - greatest;
    int above = least - priority;
    above = above < 0 ? 0 : above > steps ? steps : above;
    return (top * (uint32_t)above * 2 + (uint32_t)steps) / ((uint32_t)steps * 2);
}
