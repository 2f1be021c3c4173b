/*
 * copy.h - makes the functions that are called instead of the driver's copies: each runs `before_`,
 * which may use `stream`, and then calls the driver.
 */
#ifndef CUTIN_TOOLS_LAB_DISTANCE_COPY_H
#define CUTIN_TOOLS_LAB_DISTANCE_COPY_H

#include "shim/lookup/each.h"
#include "tools/lab/distance/distance.h"

struct stand_in {
    const char *symbol;
    void *function; /* NULL: the end of the table */
};
extern const struct stand_in distance_copies[];

#define ASYNC(sym, before_, ...)                                                                   \
    static CUresult far_##sym(EACH_PARAM(__VA_ARGS__, (CUstream, stream)))                         \
    {                                                                                              \
        before_;                                                                                   \
        return DRIVER(sym)(EACH_VALUE(__VA_ARGS__, (CUstream, stream)));                           \
    }
#define SYNC_ON(sym, suffix, handle, before_, ...)                                                 \
    static CUresult far_##sym##suffix(EACH_PARAM(__VA_ARGS__))                                     \
    {                                                                                              \
        const CUstream stream = handle;                                                            \
        before_;                                                                                   \
        return DRIVER(sym##suffix)(EACH_VALUE(__VA_ARGS__));                                       \
    }
#define SYNC(sym, before_, ...)                                                                    \
    SYNC_ON(sym, , CU_STREAM_LEGACY, before_, __VA_ARGS__)                                         \
    SYNC_ON(sym, _ptds, CU_STREAM_PER_THREAD, before_, __VA_ARGS__)

#define ROW_ASYNC(sym, ...) {#sym, (void *)far_##sym},
#define ROW_SYNC(sym, ...)  {#sym, (void *)far_##sym}, {#sym "_ptds", (void *)far_##sym##_ptds},

#endif
