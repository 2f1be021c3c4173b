/*
 * thunk.c - what thunks do: drain, then jump to the driver's function.
 */
#include "shim/lookup/api.h"
#include "shim/lookup/unknown.h"

#include <errno.h>

void *thunk_enter(uint32_t index);

/* Called by the thunks with the argument registers saved; returns where to jump. */
void *thunk_enter(uint32_t index)
{
    const bool known = index < API_COUNT;
    int saved = errno;
    void *real = known ? __atomic_load_n(&api_real[index], __ATOMIC_ACQUIRE)
                       : unknown_real(index - API_COUNT);

    if (unlikely(!real))
        real = api_get((enum api_index)index);
    if (!atomic_load_explicit(&shim_off, memory_order_relaxed))
        shim_drain(known ? (enum drain_scope)api_rows[index].scope
                         : unknown_scope(index - API_COUNT));
    errno = saved;
    return real;
}

/* Replaced by path/drain.c. Without that (a build of the lookup alone) nothing is buffered. */
__attribute__((weak)) void shim_drain(enum drain_scope scope)
{
    (void)scope;
}
