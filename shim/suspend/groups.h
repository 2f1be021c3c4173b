/*
 * groups.h - the channel groups of this process, in which its kernels run, and how to stop them.
 *
 * The driver asks NVIDIA's resource manager for them by `ioctl`, through its PLT. Our `ioctl`, in
 * front of libc's, sees these calls and passes every one on unchanged. A process may take its own
 * groups off the device, without privilege and without help. Layouts depend on the version that the
 * driver gets from the manager; of an unknown version nothing is learned.
 *
 * Not seen: calls of a driver that has its own ioctl, or is linked statically.
 *
 * While groups are stopped, a call of the driver that changes them, or waits for one to be idle,
 * lets them go on first, in the thread that makes the call.
 *
 * Any thread may call any function. Passing ioctl on takes no lock and allocates nothing, unless
 * groups are stopped or get other slices; it keeps errno.
 */
#ifndef CUTIN_SHIM_SUSPEND_GROUPS_H
#define CUTIN_SHIM_SUSPEND_GROUPS_H

#include <stdatomic.h>
#include <stdint.h>

enum groups_way {
    GROUPS_SCHEDULE,  /* takes them off the run list, and puts them back */
    GROUPS_TIMESLICE, /* sets the shortest time slice and preempts; then the old slice */
    GROUPS_WAYS
};
extern const char *const groups_way_names[GROUPS_WAYS];

/* The module's version, for which the driver asked the manager; "" before that. */
extern char groups_version[64];
/* Why no group can be stopped; NULL: no reason is known. */
const char *groups_objection(void);
/* Number of groups on the device's run list. Asks the manager for each device's identity once. */
uint32_t groups_count(const uint8_t uuid[16]);

/* Stops all groups that are on the run list of the device. Returns 0; -ENOENT: there are none;
 * -EBUSY: the driver is changing some now; other negative: the call was not made; positive: the
 * manager's answer. If one does not stop, all of them go on. */
int groups_stop(const uint8_t uuid[16], enum groups_way way);
/* Lets them go on as they were. Returns as groups_stop; does nothing where none is stopped. */
int groups_resume(const uint8_t uuid[16]);
/* Gives the groups on the run list time slices of so many microseconds; 0: gives all groups the
 * slices of before. The manager rounds. No call for a group that has that slice. If one fails, the
 * others are tried; returns the first failure as groups_stop does, -EBUSY for a stopped group. */
int groups_set_slice(const uint8_t uuid[16], uint64_t us);
/* How often groups went on because a driver call needed it. */
extern _Atomic uint32_t groups_yields;
/* All go on with the slices that they had, and none is stopped from then on. */
void groups_end(void);

#endif
