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

/* How many letters to change, leave out, put in or swap with their neighbour until a is b. */
static size_t distance(const char *a, size_t m, const char *b, size_t n)
{
    size_t rows[3][EDIT_TOO_FAR + 1], *before = rows[0], *last = rows[1], *row = rows[2], *gone;

    for (size_t j = 0; j <= n; j++)
        last[j] = before[j] = j;
    for (size_t i = 1; i <= m; i++) {
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        gone = before;
        before = last;
        last = row;
        row = gone;
    }
    return last[n];
}

size_t edit_distance(const char *text, size_t length, const char *name)
{
    size_t n = strlen(name), changes;

    if (length >= LEAST_BEGINNING && length < n && memcmp(text, name, length) == 0)
        return 1;
    if (n < length && text[n] == '_' && memcmp(text, name, n) == 0)
        return 1;
    if (length > EDIT_TOO_FAR || n > EDIT_TOO_FAR)
        return EDIT_TOO_FAR;
    changes = distance(text, length, name, n);
    return changes * 3 <= length ? changes : EDIT_TOO_FAR;
}
