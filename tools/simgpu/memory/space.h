/*
 * space.h - addresses of device memory: one reserved stretch of this process's address space, a
 * file without a name, cut into extents. Device pointers are real addresses, so a kernel's effect
 * can be carried out on them.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_SPACE_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_SPACE_H

#include "tools/simgpu/device/ipc.h"

#include <stddef.h>
#include <stdint.h>

/* An extent of `bytes` (a multiple of SPACE_GRAIN) at a multiple of `align`; 0 when there is none.
 * Its contents are whatever was there before, as on a GPU. Thread safe. */
enum { SPACE_GRAIN = 512 };
uintptr_t space_take(size_t bytes, size_t align);
/* The file that the stretch is, and where in it an extent begins, for other processes to map. False
 * where the system gave no file of that size: the stretch is this process's alone then. */
bool space_file(uintptr_t base, struct ipc_file *file, uint64_t *offset);
/* Is it an address of this stretch, whether something is there or not? */
bool space_has(uintptr_t at);
/* Sets memory to zero. Much of an extent costs no more than little: its pages go back to the
 * system. A device sets them within microseconds. */
void space_zero(uintptr_t base, size_t bytes);
/* Gives an extent back; whole pages of it return to the system. */
void space_give(uintptr_t base, size_t bytes);

#endif
