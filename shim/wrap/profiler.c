/*
 * profiler.c - CUPTI is asked for records, and for no more of them (see lookup/profiler.h).
 */
#include "shim/lookup/profiler.h"

#include <stdatomic.h>

#include "shim/lookup/shim.h"
#include "shim/path/drain.h"

/* CUptiResult */
enum { CUPTI_SUCCESS = 0, CUPTI_ERROR_UNKNOWN = 999 };
enum { KINDS = 64 }; /* of records; CUDA 13 has less */

typedef int kind_fn(int kind);
typedef int finalize_fn(void);

static _Atomic uint64_t wanted;

/* Behind each change of it. */
static void follow_wanted(void)
{
    if (!atomic_load(&wanted))
        atomic_fetch_and(&calls_inline, ~(uint32_t)INLINE_PROFILER);
    if (atomic_load(&wanted))
        atomic_fetch_or(&calls_inline, (uint32_t)INLINE_PROFILER);
}

static void unwant(uint64_t kinds)
{
    atomic_fetch_and(&wanted, ~kinds);
    follow_wanted();
}

static uint64_t bit(int kind)
{
    return UINT64_C(1) << ((unsigned)kind < KINDS ? kind : KINDS - 1);
}

/* What the program has launched before is launched before. */
static int enable(kind_fn *cupti, int kind)
{
    if (!cupti)
        return CUPTI_ERROR_UNKNOWN;
    uint64_t before = atomic_fetch_or(&wanted, bit(kind));
    follow_wanted();
    if (!before && !shim_bypassed())
        drain_all(false);
    int result = cupti(kind);
    if (result != CUPTI_SUCCESS)
        unwant(bit(kind) & ~before);
    return result;
}

static int disable(kind_fn *cupti, int kind)
{
    int result = cupti ? cupti(kind) : CUPTI_ERROR_UNKNOWN;
    if (result == CUPTI_SUCCESS)
        unwant(bit(kind));
    return result;
}

static int finalize(finalize_fn *cupti)
{
    int result = cupti ? cupti() : CUPTI_ERROR_UNKNOWN;
    if (result == CUPTI_SUCCESS)
        unwant(UINT64_MAX);
    return result;
}

EXPORT int cuptiActivityEnable(int kind)
{
    return enable(profiler_linked(PROFILER_ENABLE, __builtin_return_address(0)), kind);
}

EXPORT int cuptiActivityDisable(int kind)
{
    return disable(profiler_linked(PROFILER_DISABLE, __builtin_return_address(0)), kind);
}

EXPORT int cuptiFinalize(void)
{
    return finalize(profiler_linked(PROFILER_FINALIZE, __builtin_return_address(0)));
}

static int enable_found(int kind)
{
    return enable(profiler_found(PROFILER_ENABLE), kind);
}

static int disable_found(int kind)
{
    return disable(profiler_found(PROFILER_DISABLE), kind);
}

static int finalize_found(void)
{
    return finalize(profiler_found(PROFILER_FINALIZE));
}

void *const profiler_exports[] = {cuptiActivityEnable, cuptiActivityDisable, cuptiFinalize};
void *const profiler_stand_ins[] = {enable_found, disable_found, finalize_found};
