/*
 * per_thread.h - default streams of threads.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_PER_THREAD_H
#define CUTIN_TOOLS_SIMGPU_STREAM_PER_THREAD_H

#include "tools/simgpu/stream/stream.h"

/* The calling thread's stream in the context, made if need be; stream_create's errors. */
CUresult stream_per_thread(struct sim_context *ctx, struct sim_stream **out);
/* Between a thread that ends and a context that is destroyed: who retires its stream. */
extern pthread_mutex_t own_streams_lock;

#endif
