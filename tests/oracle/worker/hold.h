/*
 * hold.h - holding one stream for a while, as cutin lets a program do. Without cutin: nothing.
 */
#ifndef ORACLE_HOLD_H
#define ORACLE_HOLD_H

#include <cuda.h>

#include "tests/oracle/program/program.h"

/* Holds `stream`, which lies in this slot; released by itself after `us`. */
void hold_begin(int slot, CUstream stream, unsigned us);
/* Releases it now: its work is wanted for good, or the stream goes. */
void hold_end(int slot);

#endif
