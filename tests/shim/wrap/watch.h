/*
 * watch.h - the simulated driver, watched: a libcuda.so.1 in front of it that counts every call
 * that reaches the driver, whoever makes it, and lets a test stop a thread in one, or answer in the
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

/* The call as it came in. Answers 0, and it goes on to the driver, or an error in the driver's
 * place, or that the driver would have succeeded. */
#define WATCH_DONE (-1)
typedef int (*watch_hook)(const intptr_t *argument);

/* How often the driver's function was called. */
unsigned watch_count(enum watch_call call);
/* In front of each call of it, in the thread that calls; NULL: none. */
void watch_before(enum watch_call call, watch_hook hook);

#endif
