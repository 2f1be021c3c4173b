/*
 * number.h - a number as people write it: digits, without a sign or blanks.
 */
#ifndef CUTIN_COMMON_NUMBER_H
#define CUTIN_COMMON_NUMBER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* Reads all of the text. False: it is no number from `least` to `most`. */
static inline bool number_read(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    char *end;

    errno = 0;
    *number = strtoull(text, &end, 10);
    return !errno && *text >= '0' && *text <= '9' && !*end && *number >= least && *number <= most;
}

#endif
