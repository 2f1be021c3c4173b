/*
 * stage.h - what the processes of a play share, and what each of them has to report.
 */
#ifndef ORACLE_STAGE_H
#define ORACLE_STAGE_H

#include <stdint.h>

#include "play.h"

enum { STAGE_PAGE = 4096, WORD_STEP = 64 / sizeof(uint32_t), HANDLE_BYTES = 64 };

struct report {
    _Atomic uint32_t done, at; /* at: the step, or STEPS */
    int32_t code[STEPS + 1]; /* of each step the first answer of a call that was no success; of all
                                that is before and behind the steps */
    uint32_t read[STEPS];    /* each word of the cell; what differs is noted in `broken` */
    uint32_t last[CELLS];
    char broken[96];
};

/* What every process registers with the driver. */
struct board {
    _Atomic uint32_t word[LINKS * WORD_STEP]; /* one of each link */
    uint32_t cell[CELLS][WORDS];
};

struct stage {
    _Alignas(STAGE_PAGE) struct board board;
    _Alignas(STAGE_PAGE) _Atomic uint32_t progress; /* calls that returned */
    struct report report[ACTORS];
    unsigned char memory[ACTORS][HANDLE_BYTES], event[LINKS][HANDLE_BYTES];
};

#endif
