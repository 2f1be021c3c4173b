/*
 * unknown.h - driver functions that the table does not have: of a newer driver, or in no header.
 *
 * Where dlsym or cuGetProcAddress finds one, the answer is a drain thunk of a fixed pool, so a call
 * of it may cost time, but never order. A direct link binds to the driver without asking us: in a
 * process that has one nothing is buffered, and so there is nothing to overtake.
 */
#ifndef CUTIN_SHIM_LOOKUP_UNKNOWN_H
#define CUTIN_SHIM_LOOKUP_UNKNOWN_H

/* The pool in thunk_<arch>.S. CUDA 13.5 has 50 functions more than 13.0. */
#define UNKNOWN_THUNKS      512
#define UNKNOWN_THUNK_BYTES 16

#ifndef __ASSEMBLER__
#include "shim/lookup/shim.h"

/* A name that may be a driver function, and that the table does not have. */
bool unknown_name(const char *symbol);
/* Ours for `address`, the same every time; NULL: not a function of the driver, or the pool is
 * empty. */
void *unknown_thunk(const char *name, void *address);
/* What a thunk of the pool stands in front of, and what it has to wait for. */
void *unknown_real(uint32_t thunk);
enum drain_scope unknown_scope(uint32_t thunk);

/* Looks for direct links in what was loaded since the last look: where there is one, or the pool is
 * empty, nothing may be buffered (INLINE_UNKNOWN). Takes the loader's lock for its list. */
void unknown_look_links(void);
#endif

#endif
