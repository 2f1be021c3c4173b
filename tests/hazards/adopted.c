/*
 * adopted.c - streams that a program makes by the driver's own function, past the library in front
 * of it. The library knows such a stream from its first use, which two threads may make at once.
 */
#include "shim/lookup/elf.h"
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <stdatomic.h>

enum { ROUNDS = 24, STREAMS = 8 };

static CUresult stream_new_past(CUstream *s)
{
    struct link_map *map;
    struct elf_object driver;
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    if (!handle || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0 || !elf_open_map(&driver, map))
        give_up("no driver");
    CUresult (*create)(CUstream *, unsigned int) = elf_find(&driver, "cuStreamCreate");
    return create(s, CU_STREAM_NON_BLOCKING);
}

static struct first_use {
    CUstream s;
    CUdeviceptr x;
    _Atomic int ready;
} use[STREAMS];
static CUevent before;

static void at_once(struct first_use *u)
{
    atomic_fetch_add(&u->ready, 1);
    while (atomic_load(&u->ready) < 2)
        ;
}

static void wait_and_launch(void *unused)
{
    for (int i = 0; i < STREAMS; i++) {
        at_once(&use[i]);
        MUST(cuStreamWaitEvent(use[i].s, before, 0));
        MUST(launch_mix(use[i].x, 3, 1, use[i].s));
    }
}

/* Both threads make the library look the stream up; the later one must not register it again. */
static void ask(uint32_t spins)
{
    for (int i = 0; i < STREAMS; i++) {
        at_once(&use[i]);
        for (_Atomic uint32_t n = 0; n < spins * (uint32_t)i; n++)
            ;
        cuStreamQuery(use[i].s);
    }
}

/* Work that one thread put behind an event that is not complete must stay ahead of later work. */
HAZARD(work_keeps_its_order_when_two_threads_first_use_a_stream)
{
    CUstream slow = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    before = event_new();
    warm(slow);
    for (int i = 0; i < STREAMS; i++)
        use[i].x = buffer_new(3);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < STREAMS; i++) {
            MUST(stream_new_past(&use[i].s));
            atomic_store(&use[i].ready, 0);
        }
        hold(slow);
        MUST(launch_mix(x, 5, round, slow));
        MUST(cuEventRecord(before, slow));
        struct thread *t = thread_start(wait_and_launch, NULL);
        ask(round * 4);
        thread_join(t);
        for (int i = 0; i < STREAMS; i++)
            MUST(launch_mix(use[i].x, 7, 2, use[i].s));
        release(slow);
        for (int i = 0; i < STREAMS; i++) {
            MUST(cuStreamSynchronize(use[i].s));
            MUST(cuStreamDestroy(use[i].s));
        }
    }
    for (int i = 0; i < STREAMS; i++)
        show("x", use[i].x);
}
