/*
 * rm.h - channel groups as a process asks the resource manager for them, and the resource manager.
 *
 * Where SIMGPU_RM asks for it, the driver makes the calls on a descriptor of its own that real ones
 * make on /dev/nvidiactl: by `ioctl` through its PLT, so that a preloaded one sees them. The kernel
 * knows nothing of them: libsimgpu_rm.so, preloaded last, hands them to rm_manage (preload.c).
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_RM_H
#define CUTIN_TOOLS_SIMGPU_STREAM_RM_H

#include <stdint.h>

/* A context has one group. Nothing without SIMGPU_RM. */
void rm_group_open(uint32_t context, int ordinal);
void rm_group_close(uint32_t context, int ordinal);

/* The resource manager: what ioctl answers, errno included. */
int rm_manage(unsigned long request, void *arg);

#endif
