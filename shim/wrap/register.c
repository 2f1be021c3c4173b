/*
 * register.c - memory of the program that the driver is told of. The driver answers. What a stream
 * writes there a peer may wait for (vhq/peer.c); and a program that has I/O memory among it may
 * have kernels that talk to devices (waiting.h), and ring by themselves, which stays noted when the
 * memory goes.
 */
#include "shim/lookup/shim.h"
#include "shim/objects/memory.h"
#include "shim/pace/gates.h"
#include "shim/learn/waiting.h"

static CUresult seen(CUresult r, void *p, size_t bytes, unsigned int flags)
{
    if (r == CUDA_SUCCESS)
        memory_registered_add(p, bytes);
    if (r == CUDA_SUCCESS && flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        waiting_registered();
        memory_note_rings();
        gates_note_peer();
    }
    return r;
}

EXPORT CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int flags)
{
    return seen(REAL(cuMemHostRegister)(p, bytesize, flags), p, bytesize, flags);
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int flags)
{
    return seen(REAL(cuMemHostRegister_v2)(p, bytesize, flags), p, bytesize, flags);
}
