/*
 * remote.h - orders from outside (`cutin set`, `cutin reset`) to this process while it runs.
 */
#ifndef CUTIN_SHIM_PACE_REMOTE_H
#define CUTIN_SHIM_PACE_REMOTE_H

#include "scheduler/client/client.h"

/* For client_config.remote: the client's thread calls it. */
void remote_take(void *user, enum control_kind kind, uint32_t value);
/* What is in force now, for new contexts. */
uint32_t remote_budget_us(void);
uint32_t remote_depth(void);

#endif
