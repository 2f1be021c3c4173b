/*
 * late.h - what memory operations have written to pinned memory and the processor has not seen yet
 * (SIMGPU_WORD_LATE_US). A thread that learns that something is complete, or frees memory, then
 * sees all of it. Thread safe.
 */
#ifndef CUTIN_TOOLS_SIMGPU_STREAM_LATE_H
#define CUTIN_TOOLS_SIMGPU_STREAM_LATE_H

#include <stddef.h>
#include <stdint.h>

/* The value, of 4 or 8 bytes, will be visible at `due_ns`; 0: now. */
void late_store(void *at, size_t bytes, uint64_t value, uint64_t due_ns);
/* Makes visible what is due at `now_ns`; UINT64_MAX: all. Returns when the next one is due. */
uint64_t late_flush(uint64_t now_ns);
/* The device reads that address, and sees its own writes. */
void late_flush_for(const void *at);

#endif
