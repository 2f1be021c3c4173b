/*
 * procaddr.c - cuGetProcAddress: from a name, a CUDA version and a stream flag to an address. Both
 * versions use the API table from which the rest of the project is built.
 */
#include "tools/simgpu/face/sim.h"
#include "tools/simgpu/face/simconfig.h"
#include "tools/simgpu/face/variants.h"

_Atomic(sim_subscriber *) cuSimgpuSubscriber;

/* The addresses of all symbols, whatever their prototypes. They are declared by asm name, so that
 * they do not collide with cuda.h's declarations. */
#define DECLARE(symbol)        extern char address_of_##symbol[] __asm__(#symbol);
#define API_PASS(symbol, ...)  DECLARE(symbol)
#define API_DRAIN(symbol, ...) DECLARE(symbol)
#define API_WRAP(symbol, ...)  DECLARE(symbol)
#include "shim/lookup/api.def"
#undef API_PASS
#undef API_DRAIN
#undef API_WRAP
DECLARE(cuSimgpuMemcpyAsync) /* copy_api.c */
DECLARE(cuSimgpuMemcpyAsync_ptsz)

struct entry {
    const char *name; /* what callers ask for: without a suffix for the version */
    int version;      /* the least CUDA version in which the name means this symbol */
    bool ptds;        /* the variant with a default stream per thread */
    void *address;
};

static const struct entry entries[] = {
#define ENTRY(symbol, function, name, version, ptds) {#name, version, ptds, address_of_##symbol},
#define API_PASS(symbol, function, name, version, ptds, ...)                                       \
    ENTRY(symbol, function, name, version, ptds)
#define API_DRAIN(symbol, function, name, version, ptds, ...)                                      \
    ENTRY(symbol, function, name, version, ptds)
#define API_WRAP(symbol, function, name, version, ptds, ...)                                       \
    ENTRY(symbol, function, name, version, ptds)
#include "shim/lookup/api.def"
#undef API_PASS
#undef API_DRAIN
#undef API_WRAP
    ENTRY(cuSimgpuMemcpyAsync, , cuSimgpuMemcpyAsync, 12000, 0)
        ENTRY(cuSimgpuMemcpyAsync_ptsz, , cuSimgpuMemcpyAsync, 12000, 1)};
enum { ENTRIES = sizeof(entries) / sizeof(*entries) };

struct match {
    const struct entry *best[2]; /* the newest that the version allows: [0] plain, [1] per-thread */
    bool known;                  /* this driver has the name, in some version */
};

/* A driver does not know functions that are newer than itself. */
static struct match entry_find(const char *name, int version)
{
    struct match found = {{NULL, NULL}, false};
    int own = config_get()->driver_version;
    for (size_t i = 0; i < ENTRIES; i++) {
        const struct entry *e = &entries[i];
        if (e->version > own || strcmp(e->name, name) != 0)
            continue;
        found.known = true;
        if (e->version > version)
            continue;
        const struct entry **best = &found.best[e->ptds];
        if (!*best || e->version > (*best)->version)
            *best = e;
    }
    return found;
}

SIM_EXPORT CUresult cuGetProcAddress_v2(const char *symbol, void **address, int version,
                                        cuuint64_t flags, CUdriverProcAddressQueryResult *status)
{
    if (!symbol || *symbol == '\0' || !address ||
        flags > CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ||
        version > config_get()->driver_version)
        return CUDA_ERROR_INVALID_VALUE;
    struct match m = entry_find(symbol, version);
    /* The per-thread variant may have come later than the function. Callers that ask for an older
     * version get the plain form. */
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) && m.best[1];
    const struct entry *e = m.best[per_thread];
    *address = e ? e->address : NULL;
    if (status)
        *status = e         ? CU_GET_PROC_ADDRESS_SUCCESS
                  : m.known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                            : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return CUDA_SUCCESS; /* a missing name is no error: address and status say it */
}

/* CUDA 11.3 to 11.8: there is no status argument, so a missing symbol is an error. */
SIM_EXPORT CUresult cuGetProcAddress(const char *symbol, void **address, int version,
                                     cuuint64_t flags)
{
    TRY(cuGetProcAddress_v2(symbol, address, version, flags, NULL));
    return !*address ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS;
}
