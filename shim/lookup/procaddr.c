/*
 * procaddr.c - cuGetProcAddress in front of the driver's. The CUDA runtime finds everything by it.
 *
 * The driver answers first, and its status stays. Then the answer is swapped for our function of
 * the same name, version and default-stream variant, chosen by the table and checked against the
 * driver's exported addresses. Some functions changed their arguments (cuCtxGetDevice and
 * cuMemcpyBatchAsync in 13.0), so an answer that the table cannot name becomes a drain thunk.
 */
#include "shim/lookup/api.h"
#include "shim/lookup/each.h"
#include "shim/lookup/unknown.h"

#include <stdio.h>

/* The row whose function the driver answers for this request, by api.def alone; -1 = none. */
static int row_by_table(int first, int count, int version, bool per_thread)
{
    int best = -1;

    for (int row = first; row < first + count; row++) {
        const struct api_row *r = &api_rows[row];
        if (r->min_version > version || (r->per_thread && !per_thread))
            continue;
        if (best < 0 || r->per_thread > api_rows[best].per_thread ||
            (r->per_thread == api_rows[best].per_thread &&
             r->min_version > api_rows[best].min_version))
            best = row;
    }
    return best;
}

/* Is the address the driver's answer for the newest version in the table? */
static bool same_as_known(const char *name, cuuint64_t flags, const void *address)
{
    CUdriverProcAddressQueryResult status;
    void *known = NULL;

    return api_real[API_cuGetProcAddress_v2] &&
           REAL(cuGetProcAddress_v2)(name, &known, API_TABLE_VERSION, flags, &status) ==
               CUDA_SUCCESS &&
           known == address;
}

enum { ROW_PASS = -1, ROW_UNKNOWN = -2 };

/* An intercepted row, or one of the above. An address in api_driver proves nothing: API_PASS rows
 * are in it as well once the shim has called them. */
static int row_choose(const char *name, int version, cuuint64_t flags, void *address)
{
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    int count, first = api_find_name(name, &count), row;

    if (first < 0)
        return ROW_UNKNOWN;
    row = row_by_table(first, count, version, per_thread);
    if (row >= 0 && api_rows[row].ours && api_driver[row] == address)
        return row; /* several versions may share an address: the requested one */
    for (int i = first; i < first + count; i++)
        if (api_rows[i].ours && api_driver[i] == address)
            return i;
    if (row >= 0 && !api_rows[row].ours)
        return ROW_PASS;
    if (row < 0 || (version > API_TABLE_VERSION && !same_as_known(name, flags, address))) {
        /* If all known versions of a function pass, its next version is likely to pass, too. */
        for (int i = first; i < first + count; i++)
            if (api_rows[i].ours)
                return ROW_UNKNOWN;
        return ROW_PASS;
    }
    return row;
}

static void swap(const char *name, void **function, int version, cuuint64_t flags)
{
    char route[48];
    int row;

    if (!name || !function || !*function || atomic_load_explicit(&shim_off, memory_order_relaxed))
        return;
    row = row_choose(name, version, flags, *function);
    if (row == ROW_UNKNOWN) {
        void *ours = unknown_thunk(name, *function);
        *function = ours ? ours : *function;
    }
    if (row < 0)
        return;
    api_adopt(row, *function);
    *function = api_rows[row].ours;
    snprintf(route, sizeof(route), "cuGetProcAddress %d", version);
    api_say(row, route);
}

#define SWAPPED(sym, ...)                                                                          \
    WRAPPED(sym, , if (r == CUDA_SUCCESS) swap(symbol, pfn, cudaVersion, flags),                   \
            (const char *, symbol), (void **, pfn), (int, cudaVersion), __VA_ARGS__)
SWAPPED(cuGetProcAddress, (cuuint64_t, flags)) /* up to CUDA 11.8 */
SWAPPED(cuGetProcAddress_v2, (cuuint64_t, flags), (CUdriverProcAddressQueryResult *, status))
