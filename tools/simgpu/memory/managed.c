/*
 * managed.c - hints about managed memory. Host and device share every page here, so a hint moves
 * nothing. What is left of it is its place in the order of its stream, the argument checks, and the
 * remembered hint.
 */
#include "tools/simgpu/memory/copy.h"
#include "tools/simgpu/memory/memory.h"
#include "tools/simgpu/face/variants.h"
#include "tools/simgpu/stream/stream.h"
#include "tools/simgpu/stream/submit.h"

#include <utlist.h>

static bool managed_range(CUdeviceptr ptr, size_t bytes)
{
    struct memory m;
    return bytes != 0 && memory_find(ptr, &m) && m.kind == MEMORY_MANAGED &&
           ptr - m.base + bytes <= m.bytes;
}

/* ---- what is remembered of a range ----------------------------------------------------------- */

/* Places are devices, CU_DEVICE_CPU or CU_DEVICE_INVALID. `accessed` has a bit for each. */
struct advice {
    unsigned long long id; /* of the memory; an entry with another id is of memory that is gone */
    uintptr_t from, to;
    int read_mostly, preferred, prefetched;
    uint64_t accessed;
    struct advice *next;
};
static const struct advice UNADVISED = {.preferred = CU_DEVICE_INVALID,
                                        .prefetched = CU_DEVICE_INVALID};
enum { ACCESSED_CPU = 63 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct advice *advices; /* no two overlap; under lock */

/* Under lock. */
static struct advice *advice_new(const struct advice *like, unsigned long long id, uintptr_t from,
                                 uintptr_t to)
{
    struct advice *a = malloc(sizeof(*a));
    if (!a)
        return NULL;
    *a = *like;
    a->id = id;
    a->from = from;
    a->to = to;
    LL_PREPEND(advices, a);
    return a;
}

/* Under lock. Drops an entry of memory that is gone, and cuts in two an entry across `at`. */
static void advice_cut(unsigned long long id, uintptr_t at)
{
    struct advice *a, *next;
    LL_FOREACH_SAFE(advices, a, next)
    {
        if (at < a->from || at >= a->to)
            continue;
        if (a->id != id) {
            LL_DELETE(advices, a);
            free(a);
        } else if (at > a->from && advice_new(a, id, at, a->to)) {
            a->to = at;
        }
    }
}

/* Under lock. The entry at `at`; NULL: none. Lowers `end` to where the answer changes. */
static struct advice *advice_at(unsigned long long id, uintptr_t at, uintptr_t *end)
{
    struct advice *a, *found = NULL;
    LL_FOREACH (advices, a) {
        if (a->id == id && at >= a->from && at < a->to)
            found = a;
        else if (a->from > at && a->from < *end)
            *end = a->from;
    }
    if (found && found->to < *end)
        *end = found->to;
    return found;
}

enum { PREFETCHED = CU_MEM_ADVISE_UNSET_ACCESSED_BY + 1 }; /* remembered as if it were advice */

static void advice_change(struct advice *a, int what, int place)
{
    uint64_t bit = UINT64_C(1) << (place == CU_DEVICE_CPU ? ACCESSED_CPU : place & ACCESSED_CPU);
    if (what == CU_MEM_ADVISE_SET_READ_MOSTLY || what == CU_MEM_ADVISE_UNSET_READ_MOSTLY)
        a->read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
    else if (what == CU_MEM_ADVISE_SET_ACCESSED_BY)
        a->accessed |= bit;
    else if (what == CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        a->accessed &= ~bit;
    else if (what == PREFETCHED)
        a->prefetched = place;
    else
        a->preferred =
            what == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ? place : (int)CU_DEVICE_INVALID;
}

static void advise(CUdeviceptr ptr, size_t bytes, int what, int place)
{
    struct memory m;
    if (!memory_find(ptr, &m))
        return;
    SCOPED_LOCK(&lock);
    advice_cut(m.id, ptr);
    advice_cut(m.id, ptr + bytes);
    for (uintptr_t at = ptr, end; at < ptr + bytes; at = end) {
        end = ptr + bytes;
        struct advice *a = advice_at(m.id, at, &end);
        a = a ? a : advice_new(&UNADVISED, m.id, at, end);
        if (a)
            advice_change(a, what, place);
    }
}

/* What is true of the whole range. */
static struct advice advised(CUdeviceptr ptr, size_t bytes)
{
    struct memory m;
    struct advice all = UNADVISED;
    if (!memory_find(ptr, &m))
        return all;
    SCOPED_LOCK(&lock);
    for (uintptr_t at = ptr, end; at < ptr + bytes; at = end) {
        end = ptr + bytes;
        const struct advice *a = advice_at(m.id, at, &end);
        a = a ? a : &UNADVISED;
        if (at == ptr)
            all = *a;
        all.read_mostly &= a->read_mostly;
        all.accessed &= a->accessed;
        all.preferred = all.preferred == a->preferred ? a->preferred : CU_DEVICE_INVALID;
        all.prefetched = all.prefetched == a->prefetched ? a->prefetched : CU_DEVICE_INVALID;
    }
    return all;
}

/* Submits a work without effect, so the hint has its place in the order. */
static CUresult hint_submit(const char *name, CUstream s, bool ptds)
{
    struct work w = {.kind = WORK_MARK, .node_type = CU_GRAPH_NODE_TYPE_EMPTY};
    w.name = name;
    return work_submit(s, ptds, &w, false);
}

static CUresult ranges_hint(const char *name, const CUdeviceptr *ptrs, const size_t *sizes,
                            size_t n, CUstream s, bool ptds)
{
    TRY(context_current_ok(NULL));
    if (!ptrs || !sizes || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        if (!managed_range(ptrs[i], sizes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    return hint_submit(name, s, ptds);
}

static CUresult prefetch(CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream s, bool ptds)
{
    if (dev != CU_DEVICE_CPU)
        TRY(device_check(dev));
    TRY(ranges_hint("prefetch", &ptr, &bytes, 1, s, ptds));
    advise(ptr, bytes, PREFETCHED, dev);
    return CUDA_SUCCESS;
}

STREAM_API(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t bytes, CUdevice dev, CUstream s),
           prefetch(ptr, bytes, dev, s, ptds))

/* Whether the advice has a place. For others "the location argument is ignored" (cuda.h). */
static bool advice_placed(CUmem_advise advice)
{
    return advice >= CU_MEM_ADVISE_SET_PREFERRED_LOCATION &&
           advice != CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION;
}

SIM_EXPORT CUresult cuMemAdvise(CUdeviceptr ptr, size_t bytes, CUmem_advise advice, CUdevice dev)
{
    TRY(context_current_ok(NULL));
    if ((int)advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
        !managed_range(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (advice_placed(advice) && dev != CU_DEVICE_CPU)
        TRY(device_check(dev));
    advise(ptr, bytes, (int)advice, dev);
    return CUDA_SUCCESS;
}

#if CUDA_VERSION >= 12020
static CUresult place_device(CUmemLocation where, CUdevice *dev)
{
    switch ((int)where.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        *dev = where.id;
        return device_check(where.id);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        *dev = CU_DEVICE_CPU;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult prefetch_to(CUdeviceptr ptr, size_t bytes, CUmemLocation where, unsigned int flags,
                            CUstream s, bool ptds)
{
    CUdevice dev = 0;
    TRY(flags == 0 ? place_device(where, &dev) : CUDA_ERROR_INVALID_VALUE);
    return prefetch(ptr, bytes, dev, s, ptds);
}

STREAM_API(cuMemPrefetchAsync_v2,
           (CUdeviceptr ptr, size_t bytes, CUmemLocation where, unsigned int flags, CUstream s),
           prefetch_to(ptr, bytes, where, flags, s, ptds))

SIM_EXPORT CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t bytes, CUmem_advise advice,
                                   CUmemLocation where)
{
    CUdevice dev = 0;
    if (advice_placed(advice))
        TRY(place_device(where, &dev));
    return cuMemAdvise(ptr, bytes, advice, dev);
}
#endif

#if CUDA_VERSION >= 13000
static CUresult batch_hint(const char *name, const CUdeviceptr *ptrs, const size_t *sizes,
                           size_t count, unsigned long long flags, CUstream s, bool ptds)
{
    TRY(batch_check(s, ptds, count));
    return flags == 0 ? ranges_hint(name, ptrs, sizes, count, s, ptds) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult batch_to(const char *name, const CUdeviceptr *ptrs, const size_t *sizes,
                         size_t count, const CUmemLocation *places, const size_t *first, size_t n,
                         unsigned long long flags, CUstream s, bool ptds)
{
    CUdevice to = 0;
    if (!places || !batch_runs(first, n, count))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++)
        TRY(place_device(places[i], &to));
    TRY(batch_hint(name, ptrs, sizes, count, flags, s, ptds));
    for (size_t i = 0, at = 0; i < count; i++) {
        at += at + 1 < n && first[at + 1] == i;
        place_device(places[at], &to);
        advise(ptrs[i], sizes[i], PREFETCHED, to);
    }
    return CUDA_SUCCESS;
}

STREAM_API(cuMemPrefetchBatchAsync,
           (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *first,
            size_t n, unsigned long long flags, CUstream s),
           batch_to("prefetch", ptrs, sizes, count, places, first, n, flags, s, ptds))
STREAM_API(cuMemDiscardBatchAsync,
           (CUdeviceptr * ptrs, size_t *sizes, size_t count, unsigned long long flags, CUstream s),
           batch_hint("discard", ptrs, sizes, count, flags, s, ptds))
STREAM_API(cuMemDiscardAndPrefetchBatchAsync,
           (CUdeviceptr * ptrs, size_t *sizes, size_t count, CUmemLocation *places, size_t *first,
            size_t n, unsigned long long flags, CUstream s),
           batch_to("discard", ptrs, sizes, count, places, first, n, flags, s, ptds))
#endif

static CUresult attach(CUdeviceptr ptr, size_t bytes, unsigned int flags, CUstream s, bool ptds)
{
    struct memory m;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
        flags != CU_MEM_ATTACH_SINGLE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!memory_find_base(ptr, &m) || m.kind != MEMORY_MANAGED || (bytes != 0 && bytes != m.bytes))
        return CUDA_ERROR_INVALID_VALUE;
    return hint_submit("attach", s, ptds);
}

STREAM_API(cuStreamAttachMemAsync, (CUstream s, CUdeviceptr ptr, size_t bytes, unsigned int flags),
           attach(ptr, bytes, flags, s, ptds))

/* The devices by ordinal, then the CPU. What is left of `values` is CU_DEVICE_INVALID. */
static void accessors(uint64_t accessed, int *values, size_t n)
{
    size_t at = 0;
    for (int place = 0; place <= ACCESSED_CPU && at < n; place++)
        if (accessed >> place & 1)
            values[at++] = place == ACCESSED_CPU ? CU_DEVICE_CPU : place;
    while (at < n)
        values[at++] = CU_DEVICE_INVALID;
}

enum { LOCATION_INVALID, LOCATION_DEVICE, LOCATION_HOST }; /* the values of CUmemLocationType */

static int location_type(int place)
{
    return place == CU_DEVICE_INVALID ? LOCATION_INVALID
           : place == CU_DEVICE_CPU   ? LOCATION_HOST
                                      : LOCATION_DEVICE;
}

SIM_EXPORT CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute which,
                                           CUdeviceptr ptr, size_t bytes)
{
    enum { MOSTLY = 1, PREFERRED, ACCESSED, PREFETCH, TYPE, ID, PREFETCH_TYPE, PREFETCH_ID };
    TRY(context_current_ok(NULL));
    if (!data || size < sizeof(int) || size % sizeof(int) != 0 || (int)which < MOSTLY ||
        (int)which > PREFETCH_ID || (size != sizeof(int) && (int)which != ACCESSED) ||
        !managed_range(ptr, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    struct advice a = advised(ptr, bytes);
    const int values[] = {
        [MOSTLY] = a.read_mostly,    [PREFERRED] = a.preferred,
        [PREFETCH] = a.prefetched,   [TYPE] = location_type(a.preferred),
        [ID] = a.preferred,          [PREFETCH_TYPE] = location_type(a.prefetched),
        [PREFETCH_ID] = a.prefetched};
    if ((int)which == ACCESSED)
        accessors(a.accessed, data, size / sizeof(int));
    else
        *(int *)data = values[which];
    return CUDA_SUCCESS;
}

SIM_EXPORT CUresult cuMemRangeGetAttributes(void **data, size_t *sizes,
                                            CUmem_range_attribute *which, size_t n, CUdeviceptr ptr,
                                            size_t bytes)
{
    if (!data || !sizes || !which || n == 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult rc = CUDA_SUCCESS;
    for (size_t i = 0; i < n && rc == CUDA_SUCCESS; i++)
        rc = cuMemRangeGetAttribute(data[i], sizes[i], which[i], ptr, bytes);
    return rc;
}
