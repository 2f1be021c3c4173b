/*
 * external.c - semaphores and resources that other APIs share. Calls with them take their turn in a
 * stream and are never deferred: only the other API knows what they mean, and the arrays that they
 * are given are the caller's. They come behind what their own stream has buffered, whichever
 * context is current.
 */
#include "shim/wrap/op.h"
#include "shim/path/external_wait.h"

enum { IN_TURN = VHQ_UNCOUNTED | VHQ_MUST_INLINE };

OP_LAST(cuSignalExternalSemaphoresAsync, IN_TURN, 0, (const CUexternalSemaphore *, semaphores),
        (const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *, params), (unsigned int, count))
OP_LAST(cuGraphicsMapResources, IN_TURN, 0, (unsigned int, count),
        (CUgraphicsResource *, resources))
OP_LAST(cuGraphicsUnmapResources, IN_TURN, 0, (unsigned int, count),
        (CUgraphicsResource *, resources))

/* ---- waits: the signaller may wait for any stream of the context, as with values in memory --- */

OP_RUN_WATCHED(cuWaitExternalSemaphoresAsync, true,
               REAL(cuWaitExternalSemaphoresAsync)(a->semaphores, a->params, a->count, a->stream),
               (const CUexternalSemaphore *, semaphores),
               (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, params), (unsigned int, count))
BOTH(cuWaitExternalSemaphoresAsync, (const CUexternalSemaphore *, semaphores),
     (const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *, params), (unsigned int, count),
     (CUstream, stream))
{
    struct cuWaitExternalSemaphoresAsync_args a = {stream, semaphores, params, count};
    return op_turn(cuWaitExternalSemaphoresAsync_run, &a, VHQ_AFTER_ALL, ptds);
}
