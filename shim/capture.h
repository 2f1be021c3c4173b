/*
 * capture.h - streams that record into a graph: nothing of ours may come between.
 */
#ifndef CUTIN_SHIM_CAPTURE_H
#define CUTIN_SHIM_CAPTURE_H

#include <pthread.h>

#include "shim/shim.h"

/* Number of captures under way in the process, by way of cuStreamBeginCapture*. */
extern _Atomic uint32_t capture_count;
/* Held while a capture begins. */
extern pthread_mutex_t capture_beginning;

static inline bool capture_any(void)
{
    return unlikely(atomic_load_explicit(&capture_count, memory_order_relaxed) != 0);
}
/* True when calls on the stream must go to the driver as they are: it captures, or the driver will
 * refuse them because another stream does. Asks the driver. */
bool capture_active(CUstream stream);

#endif
