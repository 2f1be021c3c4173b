/*
 * thread.h - what the shim knows of the calling thread.
 */
#ifndef CUTIN_SHIM_OBJECTS_THREAD_H
#define CUTIN_SHIM_OBJECTS_THREAD_H

#include "shim/objects/object.h"

/* Not 0 while the thread runs a host function of the application. */
extern _Thread_local unsigned thread_in_callback __attribute__((tls_model("initial-exec")));
/* Level of the last stream it used. When it waits for a stream below that level, it boosts it. */
extern _Thread_local uint32_t thread_level __attribute__((tls_model("initial-exec")));
/* Level that the program wants for the thread's streams; -1: none. */
extern _Thread_local int thread_level_wanted __attribute__((tls_model("initial-exec")));

/* True: a wait of this thread boosts the stream. */
static inline bool thread_boosts(const struct shim_stream *s)
{
    return thread_level > s->level;
}

/* True where a wrapper must only call the driver: the shim is off, or the caller is a host function
 * (whose calls the driver judges), the dispatcher, or a profiler that the driver tells of a call of
 * the shim. */
static inline bool thread_bypasses(void)
{
    return unlikely(shim_bypassed() || thread_in_callback || vhq_inside());
}

#endif
