/*
 * register.c - memory of the program that the driver is told of. The driver answers; a program that
 * has I/O memory among it may have kernels that talk to devices (waiting.h), and ring
 * what a peer waits for (vhq/peer.c). It stays noted when the memory goes.
 */
#include "shim/lookup/shim.h"
#include "shim/objects/memory.h"
#include "shim/pace/gates.h"
#include "shim/pace/waiting.h"

static CUresult seen(CUresult r, unsigned int flags)
{
    if (r == CUDA_SUCCESS && flags & CU_MEMHOSTREGISTER_IOMEMORY) {
        waiting_registered();
        memory_note_io();
        gates_note_peer();
    }
    return r;
}

EXPORT CUresult cuMemHostRegister(void *p, size_t bytesize, unsigned int flags)
{
    return seen(REAL(cuMemHostRegister)(p, bytesize, flags), flags);
}

EXPORT CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int flags)
{
    return seen(REAL(cuMemHostRegister_v2)(p, bytesize, flags), flags);
}
