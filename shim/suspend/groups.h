/*
 * groups.h - the channel groups of this process: how to stop what its kernels run in.
 *
 * The driver asks NVIDIA's resource manager for them by `ioctl`, through its PLT; ours, in front of
 * libc's, sees these calls and passes every one on unchanged. A process may take its own groups off
 * the device: no privilege is needed, nor anybody else's help. Layouts depend on the version that
 * the driver says to the manager; of an unknown one nothing is learned.
 *
 * Not seen: calls of a driver that has its own ioctl, or was linked statically.
 *
 * While groups are stopped, a call of the driver that changes them, or waits for one to be idle,
 * finds them going: they go on before it is made, in the thread that makes it.
 *
 * Thread safety: everything may be called from any thread. What passes ioctl takes no lock and
 * allocates nothing unless groups are stopped or are being given slices, and keeps errno.
 */
#ifndef CUTIN_SHIM_SUSPEND_GROUPS_H
#define CUTIN_SHIM_SUSPEND_GROUPS_H

#include <stdint.h>

enum groups_way {
    GROUPS_SCHEDULE,  /* off the run list, and on it again */
    GROUPS_TIMESLICE, /* the shortest time slice and a preemption, and the slice that was */
    GROUPS_WAYS
};
extern const char *const groups_way_names[GROUPS_WAYS];

/* What the driver told the manager; "" before it did. */
const char *groups_version(void);
/* Why no group can be stopped; NULL: nothing is known to be in the way. */
const char *groups_objection(void);
/* How many groups on the device are on the run list. Asks the manager for identities of devices
 * once each. */
uint32_t groups_count(const uint8_t uuid[16]);

/* Stops all that are on the run list of the device. 0; -ENOENT: there are none; -EBUSY: the driver
 * is just changing some; another negative: the call was not made; positive: the manager's answer.
 * All of them go on if one does not stop. */
int groups_stop(const uint8_t uuid[16], enum groups_way way);
/* They go on as they were. What groups_stop says; nothing where none is stopped. */
int groups_go(const uint8_t uuid[16]);
/* From now on the groups on the run list take turns of so many microseconds with other processes;
 * 0: all of as many as before. The manager rounds. What groups_stop says, and -EBUSY of one that is
 * stopped; nothing where it is so. The first failure, after which the others are tried. */
int groups_slice(const uint8_t uuid[16], uint64_t us);
/* How often groups went on because a call of the driver needed that. */
uint32_t groups_gave_way(void);
/* All go on, with the slices they had, and none is stopped any more. */
void groups_end(void);

#endif
