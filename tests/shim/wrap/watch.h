/*
 * watch.h - the simulated driver, watched: a libcuda.so.1 in front of it counts every call that
 * reaches the driver, from any caller. It lets a test stop a thread in a call, or answer in the
 * driver's place. Link rig_watched for it.
 */
#ifndef TESTS_SHIM_WATCH_H
#define TESTS_SHIM_WATCH_H

#include <stdint.h>

enum watch_call {
#define API_PASS(symbol, ...)  WATCH_##symbol,
#define API_DRAIN(symbol, ...) WATCH_##symbol,
#define API_WRAP(symbol, ...)  WATCH_##symbol,
#include "shim/lookup/api.def"
    WATCH_CALLS
};

/* Gets the arguments of the call. Returns 0 to let the call go on to the driver, or an error to
 * answer in its place, or WATCH_DONE to answer success. */
#define WATCH_DONE (-1)
typedef int (*watch_hook)(const intptr_t *argument);

/* How often the driver's function was called. */
unsigned watch_count(enum watch_call call);
/* `hook` runs in front of each such call, in the calling thread. NULL: none. */
void watch_before(enum watch_call call, watch_hook hook);

#endif
