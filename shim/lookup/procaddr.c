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
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, any = false;
    const uint16_t *rows = api_find_name(name);
    int row = -1; /* whose function the driver answers for this request, by api.def alone */
    int same = -1;

    if (!rows)
        return ROW_UNKNOWN;
    for (int i = rows[0]; i < rows[0] + rows[1]; i++) {
        const struct api_row *r = &api_rows[i], *best = row < 0 ? NULL : &api_rows[row];
        any |= !!r->ours;
        if (same < 0 && r->ours && api_driver[i] == address)
            same = i;
        if (r->min_version > version || (r->per_thread && !per_thread))
            continue;
        if (!best || r->per_thread > best->per_thread ||
            (r->per_thread == best->per_thread && r->min_version > best->min_version))
            row = i;
    }
    if (row >= 0 && api_rows[row].ours && api_driver[row] == address)
        return row; /* several versions may share an address: the requested one */
    if (same >= 0)
        return same;
    if (row >= 0 && !api_rows[row].ours)
        return ROW_PASS;
    if (row < 0 || (version > API_TABLE_VERSION && !same_as_known(name, flags, address)))
        /* If all known versions of a function pass, its next version is likely to pass, too. */
        return any ? ROW_UNKNOWN : ROW_PASS;
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
