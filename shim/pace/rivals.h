/*
 * rivals.h - may others than clients above hold the queues of this process?
 *
 * Streams of another level in it, by their work; clients of its own level, through a policy of the
 * daemon; an administrator. While nobody may, and nobody above is connected, its queues have no
 * cap.
 */
#ifndef CUTIN_SHIM_PACE_RIVALS_H
#define CUTIN_SHIM_PACE_RIVALS_H

#include "shim/lookup/shim.h"

/* vhq_config.rivals of every context. */
const _Atomic uint32_t *rivals_word(void);
/* In the client's thread, every 10 ms. */
void rivals_look(void);

#endif
