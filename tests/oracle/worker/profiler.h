/*
 * profiler.h - a profiler that comes and goes while programs run.
 */
#ifndef ORACLE_PROFILER_H
#define ORACLE_PROFILER_H

#include <stdint.h>

/* From now on asks for records, and then for no more, at random moments. 0: it does. */
int profiler_start(uint64_t seed);

#endif
