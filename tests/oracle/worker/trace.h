/*
 * trace.h - checks the simulated device's event log: each stream has the works in the order of the
 * program, and no work began before one that it follows had ended. Without the log nothing is
 * checked.
 */
#ifndef ORACLE_TRACE_H
#define ORACLE_TRACE_H

#include "run.h"

/* Finds the log. Call it once. */
void trace_open(void);
/* From here on the log is this program's. All work before is complete. */
void trace_begin(void);
/* Whether the log should have something of this op. */
bool trace_wants(const struct op *o);
/* Notes the device stream that op `index` uses, by cuStreamGetId. 0: not known. */
void trace_stream(uint32_t index, uint64_t id);
/* Call `index` has returned. Notes the time if this means that what it waited for has ended. */
void trace_said(const struct op *o, uint32_t index);
/* A query answered "done"; or one of a race did, after its thread had been told of `told` steps. */
void trace_said_query(uint32_t index);
void trace_said_race(int race, uint32_t told);
/* All work is complete: reads the log. Returns 0, or 1 with a line about the first thing that is
 * wrong in `why`. */
int trace_end(const struct program *p, char *why, size_t size);

#endif
