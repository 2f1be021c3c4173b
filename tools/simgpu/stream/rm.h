/*
 * rm.h - channel groups as a process asks the resource manager for them, and the resource manager.
 *
 * With SIMGPU_RM the driver makes the calls that real ones make on /dev/nvidiactl, on a descriptor
 * of its own. It calls `ioctl` through its PLT, so a preloaded one sees them. The kernel does not
 * know these calls: libsimgpu_rm.so, preloaded last, passes them to rm_manage (preload.c).
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_RM_H
#define CUTIN_TOOLS_SIMGPU_STREAM_RM_H

#include <stdint.h>

/* A context has one group. Without SIMGPU_RM these do nothing. */
void rm_group_open(uint32_t context, int ordinal);
void rm_group_close(uint32_t context, int ordinal);

/* The resource manager. Returns what ioctl would, and sets errno. */
int rm_manage(unsigned long request, void *arg);

#endif
