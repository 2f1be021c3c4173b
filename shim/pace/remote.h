/*
 * remote.h - what somebody outside (`cutin set`, `cutin reset`) wants of this process while it
 * runs.
 */
#ifndef CUTIN_SHIM_PACE_REMOTE_H
#define CUTIN_SHIM_PACE_REMOTE_H

#include "scheduler/client/client.h"

/* For client_config.order: in the client's thread. */
void remote_take(void *user, enum control_kind kind, uint32_t value);
/* Now in force for new contexts. */
uint32_t remote_budget_us(void);
uint32_t remote_depth(void);

#endif
