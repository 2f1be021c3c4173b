/*
 * names.h - names that live as long as the process: those of kernels, which works in flight, graph
 * nodes and the event log go on naming when the image they are from is gone.
 */
#ifndef CUTIN_TOOLS_SIMGPU_PROGRAM_NAMES_H
#define CUTIN_TOOLS_SIMGPU_PROGRAM_NAMES_H

#include <stddef.h>

/* The one copy of these `length` bytes, as a string; NULL without memory. Thread-safe. */
const char *name_keep(const char *text, size_t length);

#endif
