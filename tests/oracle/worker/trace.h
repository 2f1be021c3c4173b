/*
 * trace.h - what the simulated device did, from its event log: each stream's works in the order of
 * the program, and no work before one that it follows had ended. Without the log nothing is
 * checked.
 */
#ifndef ORACLE_TRACE_H
#define ORACLE_TRACE_H

#include "run.h"

/* Finds the log; once. */
void trace_open(void);
/* From here on the log is this program's: everything before is complete. */
void trace_begin(void);
/* Is there something of this op to be found? */
bool trace_wants(const struct op *o);
/* Notes which stream of the device op `index` uses, by cuStreamGetId. 0: not known. */
void trace_stream(uint32_t index, uint64_t id);
/* Call `index` returned: does that mean that what it waited for has ended? */
void trace_said(const struct op *o, uint32_t index);
/* A query said "done"; one of a race did, when its thread had been told of `told` steps. */
void trace_said_query(uint32_t index);
void trace_said_race(int race, uint32_t told);
/* All work is complete: reads the log. Writes one line about the first thing that is wrong into
 * `why` and returns 1, or returns 0. */
int trace_end(const struct program *p, char *why, size_t size);

#endif
