/*
 * space.h - addresses of device memory: one reserved stretch of this process's address space, cut into
 * extents. Device pointers are real addresses, so a kernel's effect can be carried out on them.
 */
#ifndef SIMGPU_SPACE_H
#define SIMGPU_SPACE_H

#include <stddef.h>
#include <stdint.h>

/* An extent of `bytes` (a multiple of SPACE_GRAIN) at a multiple of `align`; 0 when there is none.
 * Its contents are whatever was there before, as on a GPU. Thread safe. */
enum { SPACE_GRAIN = 512 };
uintptr_t space_take(size_t bytes, size_t align);
/* Gives an extent back; whole pages of it return to the system. */
void space_give(uintptr_t base, size_t bytes);

#endif
