/*
 * copy.h - what stands in front of the driver's copies, and how that is made: a function that does
 * `before_`, for its `stream`, and then what the driver does.
 */
#ifndef CUTIN_SHIM_DISTANCE_COPY_H
#define CUTIN_SHIM_DISTANCE_COPY_H

#include "shim/lookup/each.h"
#include "shim/lookup/shim.h"

struct stand_in {
    enum api_index row;
    void *function; /* NULL: the end of a table */
};
extern const struct stand_in distance_copies[];

#define ASYNC(sym, before_, ...)                                                                   \
    static CUresult far_##sym(EACH(OP_PARAM, __VA_ARGS__) CUstream stream)                         \
    {                                                                                              \
        before_;                                                                                   \
        return DRIVER(sym)(EACH(OP_VALUE, __VA_ARGS__) stream);                                    \
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

#define ROW_ASYNC(sym, ...) {API_##sym, (void *)far_##sym},
#define ROW_SYNC(sym, ...)                                                                         \
    {API_##sym, (void *)far_##sym}, {API_##sym##_ptds, (void *)far_##sym##_ptds},

#endif
