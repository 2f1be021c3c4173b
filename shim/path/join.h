/*
 * join.h - what is known complete along with a stream: the records in other streams that it waited
 * for.
 *
 * A request that runs in two streams ends with a wait of one for the other, and the application
 * asks or waits for that one alone. Without this the other one would count as busy until the next
 * tick.
 */
#ifndef CUTIN_SHIM_PATH_JOIN_H
#define CUTIN_SHIM_PATH_JOIN_H

#include "shim/objects/stream.h"

/* `s` waits, with the call that has the epoch `at`, for what `source` had been given up to `epoch`.
 * Real-time path: no lock. Of many sources of one stream some may be forgotten. */
void join_note(struct shim_stream *s, uint64_t at, struct shim_stream *source, uint64_t epoch);
/* Everything up to `epoch` is complete in `s`: so is what it waited for by then. */
void join_carry(struct shim_stream *s, uint64_t epoch);
void join_forget(struct shim_stream *s);

#endif
