/*
 * space.h - addresses of device memory. This process reserves one stretch of its address space,
 * which is a file without a name, and cuts it into extents. Device pointers are real addresses, so
 * effects of kernels can be carried out on them.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_SPACE_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_SPACE_H

#include "tools/simgpu/device/ipc.h"

#include <stddef.h>
#include <stdint.h>

/* Takes an extent of `bytes` (a multiple of SPACE_GRAIN) at a multiple of `align`; 0: there is
 * none. It contains what was there before, as on a GPU. Thread safe. */
enum { SPACE_GRAIN = 512 };
uintptr_t space_take(size_t bytes, size_t align);
/* The file of the stretch, and where in it an extent begins, for other processes to map. False: the
 * system gave no file of that size, so the stretch is this process's alone. */
bool space_file(uintptr_t base, struct ipc_file *file, uint64_t *offset);
/* Whether it is an address of this stretch, allocated or not. */
bool space_has(uintptr_t at);
/* Sets memory to zero. A large part costs no more than a small one, because its pages go back to
 * the system: a device also sets it within microseconds. */
void space_zero(uintptr_t base, size_t bytes);
/* Gives an extent back. Its whole pages return to the system. */
void space_give(uintptr_t base, size_t bytes);

#endif
