/*
 * look.h - looks of the client's thread at work that nobody tells of.
 *
 * Most programs say when they find their work complete, by a synchronisation, a query or a host
 * function. One that learns it from memory that the device writes says nothing, nor does one whose
 * work another process waits for. There the driver is asked: every 10 ms, and where two ends in a
 * row were found so, 150 us apart and then ever farther, until a second has brought no such end.
 */
#ifndef CUTIN_SHIM_PACE_LOOK_H
#define CUTIN_SHIM_PACE_LOOK_H

#include <stdint.h>

/* For so many ticks work may get nowhere and hold others all the same (CUTIN_STUCK_MS). */
uint32_t look_stuck_ticks(void);
/* For client_config. */
void look_tick(void *user);
uint64_t look_dense(void *user);

#endif
