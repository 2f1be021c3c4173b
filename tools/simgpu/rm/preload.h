/*
 * preload.h - libsimgpu_rm.so: the kernel's part of the simulated resource manager.
 *
 * The descriptor of the simulated driver has no ioctls in the kernel. So this library, preloaded
 * behind all other preloaded ones, takes the kernel's place. Calls of `ioctl` come here after they
 * have passed all others. Those on that descriptor go to the driver's rm_manage, the rest go on to
 * libc.
 */
#ifndef CUTIN_TOOLS_SIMGPU_RM_PRELOAD_H
#define CUTIN_TOOLS_SIMGPU_RM_PRELOAD_H

#define RM_SERVE "simgpu_rm_serve"
/* From now on calls on `fd` go to `manage`. Call it once. */
typedef void rm_serve_fn(int fd, int (*manage)(unsigned long request, void *arg));

#endif
