/*
 * profiler.c - whose functions of CUPTI are meant (see profiler.h). Two copies of CUPTI may be in
 * one process, those of two frameworks.
 */
#include "shim/lookup/profiler.h"

#include <stdatomic.h>
#include <stddef.h>

#include "shim/lookup/elf.h"
#include "shim/lookup/shim.h"

static const char *const names[PROFILER_CALLS] = {
    [PROFILER_ENABLE] = "cuptiActivityEnable",
    [PROFILER_DISABLE] = "cuptiActivityDisable",
    [PROFILER_FINALIZE] = "cuptiFinalize",
};
static void *_Atomic looked_up[PROFILER_CALLS];

int profiler_find(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u' || name[2] != 'p')
        return -1;
    for (int i = 0; i < PROFILER_CALLS; i++)
        if (elf_streq(name, names[i]))
            return i;
    return -1;
}

void *profiler_stand_in(enum profiler_call call, void *found)
{
    void *there = NULL;

    if (atomic_load_explicit(&shim_off, memory_order_relaxed))
        return NULL;
    if (atomic_compare_exchange_strong(&looked_up[call], &there, found) || there == found)
        return profiler_stand_ins[call];
    return NULL;
}

void *profiler_found(enum profiler_call call)
{
    return atomic_load(&looked_up[call]);
}

void *profiler_linked(enum profiler_call call, const void *caller)
{
    return lookup_without(profiler_exports[call], names[call], caller);
}
