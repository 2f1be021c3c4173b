/* text.c - see text.h. Lives in libcutin.so: libc alone, and of it neither strtoull nor sscanf,
 * which have new names (of C23) in glibc 2.38: a library that is built there and uses them would
 * need that version. */
#include "common/text.h"

#include <string.h>

int word_index(const char *words, const char *text)
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

const char *number_begin(const char *text, uint64_t most, uint64_t *number)
{
    const char *at = text;

    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (*number > most / 10 || digit > most - *number * 10)
            return NULL;
        *number = *number * 10 + digit;
    }
    return at > text ? at : NULL;
}

bool number_read(const char *text, uint64_t least, uint64_t most, uint64_t *number)
{
    const char *end = number_begin(text, most, number);

    return end && !*end && *number >= least;
}

char *printable(char *text)
{
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return text;
}

uint64_t text_hash(const char *text)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

enum { LEAST_BEGINNING = 4 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t edit_distance(const char *text, size_t length, const char *name)
{
    size_t rows[3][EDIT_TOO_FAR + 1], *before = rows[0], *last = rows[1], *row = rows[2], *gone;
    size_t n = strlen(name);

    if (length >= LEAST_BEGINNING && length < n && memcmp(text, name, length) == 0)
        return 1;
    if (n < length && text[n] == '_' && memcmp(text, name, n) == 0)
        return 1;
    if (length > EDIT_TOO_FAR || n > EDIT_TOO_FAR)
        return EDIT_TOO_FAR;
    for (size_t j = 0; j <= n; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= length; i++) {
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] =
                least(least(last[j], row[j - 1]) + 1, last[j - 1] + (text[i - 1] != name[j - 1]));
            if (i > 1 && j > 1 && text[i - 1] == name[j - 2] && text[i - 2] == name[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        gone = before;
        before = last;
        last = row;
        row = gone;
    }
    return last[n] * 3 <= length ? last[n] : EDIT_TOO_FAR;
}
