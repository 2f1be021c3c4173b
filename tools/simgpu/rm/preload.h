/*
 * preload.h - libsimgpu_rm.so: the kernel's part of the simulated resource manager.
 *
 * A descriptor that nobody but the simulated driver knows has no ioctls. Preloaded, and behind
 * whatever else is preloaded, this library stands where the kernel would: calls that were made by
 * `ioctl` and have passed everybody else's come here, those on that descriptor go to the driver's
 * rm_manage, and all others on to libc.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RM_PRELOAD_H
#define CUTIN_TOOLS_SIMGPU_RM_PRELOAD_H

#define RM_SERVE "simgpu_rm_serve"
/* Calls on `fd` go to `manage` from now on. Once. */
typedef void rm_serve_fn(int fd, int (*manage)(unsigned long request, void *arg));

#endif
