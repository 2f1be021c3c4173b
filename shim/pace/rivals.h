/*
 * rivals.h - may others than clients above hold the queues of this process?
 *
 * Its own streams of another level may, by their work; clients of its own level, through a policy
 * of the daemon; and an administrator. While none of these may, and no client above is connected,
 * its queues have no cap.
 */
#ifndef CUTIN_SHIM_PACE_RIVALS_H
#define CUTIN_SHIM_PACE_RIVALS_H

#include "shim/lookup/shim.h"

/* vhq_config.rivals of every context. */
const _Atomic uint32_t *rivals_word(void);
/* The client's thread calls it every 10 ms. */
void rivals_update(void);

#endif
