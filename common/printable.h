/*
 * printable.h - text from others, whose bytes may be any, as a terminal and JSON take it.
 */
#ifndef CUTIN_COMMON_PRINTABLE_H
#define CUTIN_COMMON_PRINTABLE_H

/* In place: a question mark for every byte that these do not take. Returns the text. */
static inline char *printable(char *text)
{
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return text;
}

#endif
