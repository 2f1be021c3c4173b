/*
 * variants.c - who is told of stream-ordered calls (see variants.h).
 */
#include "tools/simgpu/face/sim.h"
#include "tools/simgpu/face/variants.h"

_Atomic(sim_subscriber *) cuSimgpuSubscriber;
