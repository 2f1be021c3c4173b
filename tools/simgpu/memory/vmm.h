/*
 * vmm.h - what a mapping allows each device.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_VMM_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_VMM_H

#include <cuda.h>

/* The flags of a mapping are those of all devices, four bits each. */
enum { ACCESS_BITS = 4, ACCESS_MASK = 15 };

static inline CUmemAccess_flags mapping_access(unsigned int flags, int ordinal)
{
    return (CUmemAccess_flags)(flags >> (ordinal * ACCESS_BITS) & ACCESS_MASK);
}

static inline unsigned int mapping_allow(unsigned int flags, int ordinal, CUmemAccess_flags access)
{
    unsigned int at = (unsigned int)(ordinal * ACCESS_BITS);
    return (flags & ~((unsigned int)ACCESS_MASK << at)) | (unsigned int)access << at;
}

#endif
