/*
 * unknown_linked.c - a program is linked with a driver function that is in no table. The function
 * does not overtake what was deferred, although nothing is interposed before it.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <stdatomic.h>

CUresult cuSimgpuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream s);

HAZARD(linked_unknown_function_keeps_its_order)
{
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3), y = buffer_new(0);
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuSimgpuMemcpyAsync(y, x, BYTES, s));
    SAY(launch_mix(x, 2, 1, s));
    release(s);
    SAY(cuStreamSynchronize(s));
    show("copy", y);
    show("source", x);
}

static _Atomic bool stop;

static void come_and_go(void *unused)
{
    while (!atomic_load(&stop)) {
        void *handle = dlopen(LIBRARY, RTLD_NOW);
        if (!handle || dlclose(handle) != 0)
            give_up(LIBRARY);
    }
}

/* A look at the loaded libraries takes locks of the loader. */
HAZARD(plug_ins_are_loaded_and_closed_while_streams_are_created)
{
    struct thread *t = thread_start(come_and_go, NULL);
    for (int i = 0; i < 500; i++)
        MUST(cuStreamDestroy(stream_new(CU_STREAM_NON_BLOCKING)));
    atomic_store(&stop, true);
    thread_join(t);
}
