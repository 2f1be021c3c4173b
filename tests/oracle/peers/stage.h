/*
 * stage.h - what the processes of a play share, and what each of them reports.
 */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include <stdint.h>

#include "play.h"

enum { STAGE_PAGE = 4096, WORD_STEP = 64 / sizeof(uint32_t), HANDLE_BYTES = 64 };

struct report {
    _Atomic uint32_t done, at; /* at: the step, or STEPS */
    int32_t code[STEPS + 1]; /* of each step the first answer of a call that was not success; last,
                                of all that is before and behind the steps */
    uint32_t read[STEPS];    /* each word of the cell; if they differ, `broken` says so */
    uint32_t last[CELLS];
    char broken[96];
};

/* What every process registers with the driver. */
struct board {
    _Atomic uint32_t word[LINKS * WORD_STEP]; /* one for each link */
    uint32_t cell[CELLS][WORDS];
};

struct stage {
    _Alignas(STAGE_PAGE) struct board board;
    _Alignas(STAGE_PAGE) _Atomic uint32_t progress; /* counts calls that returned */
    struct report report[ACTORS];
    unsigned char memory[ACTORS][HANDLE_BYTES], event[LINKS][HANDLE_BYTES];
};

#endif
