/*
 * edit_distance.c - see edit_distance.h.
 */
#include "common/edit_distance.h"

#include <string.h>

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
