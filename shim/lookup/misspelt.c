/*
 * misspelt.c - see misspelt.h. Near is a third of the name's letters changed, left out, doubled or
 * swapped with the next one, or a beginning.
 */
#include "shim/lookup/misspelt.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char prefix[] = "CUTIN_";
enum { PREFIX = sizeof(prefix) - 1, LONGEST = 32, LEAST_BEGINNING = 4, SAID = 64 };

static const char *const names[] = {
#define CONFIG_WORD(name, ...) #name,
#define CONFIG_NUMBER          CONFIG_WORD
#define CONFIG_MICROS          CONFIG_WORD
#define CONFIG_PATH            CONFIG_WORD
#include "shim/lookup/config.def"
#undef CONFIG_WORD
#undef CONFIG_NUMBER
#undef CONFIG_MICROS
#undef CONFIG_PATH
};
enum { NAMES = sizeof(names) / sizeof(*names) };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to change, leave out, put in or swap with their neighbour until a is b. */
static size_t distance(const char *a, size_t m, const char *b, size_t n)
{
    size_t rows[3][LONGEST + 1], *before = rows[0], *last = rows[1], *row = rows[2], *gone;

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

/* Both without the prefix. */
static size_t apart(const char *text, size_t length, const char *name)
{
    size_t n = strlen(name), changes;

    if (length >= LEAST_BEGINNING && length < n && memcmp(text, name, length) == 0)
        return 1;
    if (n < length && text[n] == '_' && memcmp(text, name, n) == 0)
        return 1;
    if (length > LONGEST || n > LONGEST)
        return LONGEST;
    changes = distance(text, length, name, n);
    return changes * 3 <= length ? changes : LONGEST;
}

/* The setting that a name was probably meant to be; NULL where it is one, or is near none. */
static const char *setting_meant(const char *name, size_t length)
{
    size_t nearest = LONGEST;
    const char *meant = NULL;

    if (length <= PREFIX || memcmp(name, prefix, PREFIX) != 0)
        return NULL;
    for (size_t i = 0; i < NAMES; i++) {
        size_t is = apart(name + PREFIX, length - PREFIX, names[i] + PREFIX);
        if (is == 0)
            return NULL;
        if (is < nearest) {
            nearest = is;
            meant = names[i];
        }
    }
    return meant;
}

bool setting_misspelt(size_t *at, char *text, size_t size)
{
    while (!getauxval(AT_SECURE) && environ && environ[*at]) {
        const char *row = environ[(*at)++];
        size_t length = strcspn(row, "=");
        const char *meant = setting_meant(row, length);

        if (!meant)
            continue;
        snprintf(text, size, "%.*s is not a setting; did you mean %s?", (int)least(length, SAID),
                 row, meant);
        return true;
    }
    return false;
}
