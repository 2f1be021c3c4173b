/*
 * level.h - the levels of work: the higher one goes first.
 */
#ifndef CUTIN_COMMON_LEVEL_H
#define CUTIN_COMMON_LEVEL_H

#include <stdint.h>

enum { CUTIN_LEVEL_BE = 0, CUTIN_LEVEL_RT = 3, CUTIN_LEVELS = 4 };

/* As users write and read them. */
#define LEVEL_NAMES "be", "1", "2", "rt"
#define LEVEL_WORDS "be 1 2 rt" /* for word_index */

static inline const char *level_name(uint32_t level)
{
    static const char *const names[CUTIN_LEVELS] = {LEVEL_NAMES};

    return level < CUTIN_LEVELS ? names[level] : "?";
}

#endif
