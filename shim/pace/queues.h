/*
 * queues.h - may others than clients above hold the queues of this process?
 *
 * Its own streams of another level may, by their work; clients of its own level, through a policy
 * of the daemon; and an administrator. While none of these may, and no client above is connected,
 * its queues have no cap.
 */
#ifndef CUTIN_SHIM_PACE_QUEUES_H
#define CUTIN_SHIM_PACE_QUEUES_H

/* Looks again. The client's thread calls it every 10 ms. */
void rivals_update(void);

#endif
