/*
 * hold.h - holds one stream for a while, as cutin lets a program do. Without cutin: does nothing.
 */
#ifndef ORACLE_HOLD_H
#define ORACLE_HOLD_H

#include <cuda.h>

#include "tests/oracle/program/program.h"

/* Holds `stream`, which is in this slot. The hold ends by itself after `us`. */
void hold_begin(int slot, CUstream stream, unsigned us);
/* Ends the hold now, because the stream's work is needed for good, or the stream goes. */
void hold_end(int slot);

#endif
