/*
 * capped.h - a world with a cap, and how much of it is in flight.
 */
#ifndef CUTIN_TESTS_VHQ_CAPPED_H
#define CUTIN_TESTS_VHQ_CAPPED_H

#include <criterion/criterion.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

static inline struct world *capped(uint32_t budget_us, uint32_t depth)
{
    clock_freeze();
    return world_new(&(struct vhq_config){.budget_us = budget_us, .depth = depth});
}

/* Waits until the dispatcher finds no room under the cap: time without progress starts there. */
static inline void dispatcher_is_blocked(struct world *w)
{
    bool blocked = false;
    for (int i = 0; !blocked; i++) {
        cr_assert(i < 200000, "never blocked");
        pthread_mutex_lock(&w->set->lock);
        blocked = w->set->blocked_since_ns != 0;
        pthread_mutex_unlock(&w->set->lock);
        nap_us(100);
    }
}

static inline uint32_t in_device(struct world *w, int stream)
{
    return atomic_load(&w->stream[stream].submitted) - atomic_load(&w->stream[stream].completed);
}

/* Completes everything, and lets the set learn of it. */
static inline void settle(struct world *w)
{
    device_start(w, 1);
    vhq_set_sync(w->set, false);
    device_stop(w);
}

/* The part of an estimate (of 256) after which something is complete, as it was last learned. */
static inline uint32_t pace(struct world *w)
{
    pthread_mutex_lock(&w->set->lock);
    uint32_t pace = w->set->pace;
    pthread_mutex_unlock(&w->set->lock);
    return pace;
}

#endif
