/*
 * words.h - the words that a setting may have, as one text with spaces between them.
 */
#ifndef CUTIN_COMMON_WORDS_H
#define CUTIN_COMMON_WORDS_H

#include <string.h>

/* Position of a word in a list, or -1. */
static inline int word_index(const char *words, const char *text)
{
    size_t length = strlen(text);

    for (int i = 0; *words; i++) {
        size_t word = strcspn(words, " ");
        if (word == length && memcmp(words, text, word) == 0)
            return i;
        words += word;
        words += *words == ' ';
    }
    return -1;
}

#endif
