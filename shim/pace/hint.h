/*
 * hint.h - what the program told about its threads (see cutin.h).
 */
#ifndef CUTIN_SHIM_PACE_HINT_H
#define CUTIN_SHIM_PACE_HINT_H

/* The level of streams that this thread makes; -1: as they come. */
extern _Thread_local int hint_thread_level;

#endif
