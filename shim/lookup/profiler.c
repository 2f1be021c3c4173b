/* profiler.c - see profiler.h. */
#include "shim/lookup/profiler.h"

#include <dlfcn.h>

#include "shim/lookup/elf.h"
#include "shim/lookup/shim.h"

static const void *_Atomic bases[PROFILER_COPIES]; /* of the copies; NULL: free */
void *_Atomic profiler_found[PROFILER_COPIES][PROFILER_CALLS];

int profiler_find(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u' || name[2] != 'p')
        return -1;
    for (int i = 0; i < PROFILER_CALLS; i++)
        if (elf_strcmp(name, profiler_functions[i].name) == 0)
            return i;
    return -1;
}

const void *profiler_base(const void *found)
{
    Dl_info info;

    return dladdr(found, &info) ? info.dli_fbase : NULL;
}

void *profiler_stand_in(enum profiler_call call, void *found)
{
    const void *base = profiler_base(found);
    int copy = 0;

    if (!base || found == profiler_functions[call].exported ||
        atomic_load_explicit(&shim_off, memory_order_relaxed))
        return NULL;
    /* Frees the places of copies that were closed: their functions cannot be called any more. */
    for (int i = 0; i < PROFILER_COPIES; i++) {
        const void *there = atomic_load(&bases[i]);

        if (!there || profiler_base(there) == there)
            continue;
        profiler_gone(there);
        atomic_compare_exchange_strong(&bases[i], &there, NULL);
    }
    for (; copy < PROFILER_COPIES; copy++) {
        const void *there = NULL;

        if (atomic_compare_exchange_strong(&bases[copy], &there, base) || there == base)
            break;
    }
    if (copy == PROFILER_COPIES) {
        if (!(atomic_fetch_or(&inline_reasons, (uint32_t)INLINE_UNKNOWN) & INLINE_UNKNOWN))
            log_line(LOG_WARN,
                     "buffering off, calls wait in their thread: more than %d copies of CUPTI are "
                     "loaded",
                     PROFILER_COPIES);
        return NULL;
    }
    atomic_store(&profiler_found[copy][call], found);
    return profiler_functions[call].stand_in[copy];
}
