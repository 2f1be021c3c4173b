/*
 * peer.h - which device reaches which other one's memory.
 */
#ifndef CUTIN_TOOLS_SIMGPU_MEMORY_PEER_H
#define CUTIN_TOOLS_SIMGPU_MEMORY_PEER_H

#include "tools/simgpu/memory/memory.h"

/* May contexts on device a be given access to memory of device b? SIMGPU_PEERS=0: none. */
bool devices_are_peers(int a, int b);
/* May kernels of `ctx` touch that range? */
bool peer_reaches(const struct sim_context *ctx, const struct memory *m);

#endif
