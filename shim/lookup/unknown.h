/*
 * unknown.h - driver functions that the table does not have: a newer driver's, or in no header.
 *
 * If dlsym or cuGetProcAddress finds one, the answer is a drain thunk of a fixed pool, so a call of
 * it may cost time but keeps the order. A direct link binds to the driver without asking the shim.
 * In a process with such a link nothing is buffered, so there is nothing to overtake.
 */
#ifndef CUTIN_SHIM_LOOKUP_UNKNOWN_H
#define CUTIN_SHIM_LOOKUP_UNKNOWN_H

/* The pool in thunk_<arch>.S. CUDA 13.5 has 50 more functions than 13.0. */
#define UNKNOWN_THUNKS      512
#define UNKNOWN_THUNK_BYTES 16

#ifndef __ASSEMBLER__
#include "shim/lookup/shim.h"

/* May this be a driver function that the table does not have? */
bool unknown_name(const char *symbol);
/* The thunk for `address`, the same every time. NULL: not a function of the driver, or the pool is
 * empty; from then on nothing is buffered (INLINE_UNKNOWN). */
void *unknown_thunk(const char *name, void *address);

/* Looks for direct links in objects loaded since the last look. If there is one, nothing may be
 * buffered (INLINE_UNKNOWN). Takes the loader's lock for its list. */
void unknown_look_links(void);
#endif

#endif
