/*
 * printable.h - text of others, whose bytes may be any: what a terminal and JSON take.
 */
#ifndef CUTIN_COMMON_PRINTABLE_H
#define CUTIN_COMMON_PRINTABLE_H

/* In place, a question mark for every other byte. Returns the text. */
static inline char *printable(char *text)
{
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return text;
}

#endif
