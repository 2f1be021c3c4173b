/*
 * misspelt.c - see misspelt.h. Near is a third of the name's letters changed, left out, doubled or
 * swapped with the next one, or a beginning.
 */
#include "shim/lookup/misspelt.h"

#include "shim/lookup/conf.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char prefix[] = "CUTIN_";
enum { PREFIX = sizeof(prefix) - 1, LONGEST = 32, LEAST_BEGINNING = 4, SAID = 64 };

static const char conf[] = "CUTIN_CONF";

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

/* The setting, or CUTIN_CONF, that a text without the prefix is nearest to; NULL: it is near none.
 * 0 apart: it is one. */
static const char *nearest(const char *text, size_t length, size_t *is)
{
    const char *name = conf;

    *is = apart(text, length, conf + PREFIX);
    for (size_t i = 0; setting_names[i]; i++) {
        size_t changes = apart(text, length, setting_names[i] + PREFIX);
        if (changes < *is) {
            *is = changes;
            name = setting_names[i];
        }
    }
    return *is < LONGEST ? name : NULL;
}

bool setting_misspelt(size_t *at, char *text, size_t size)
{
    while (!getauxval(AT_SECURE) && environ && environ[*at]) {
        const char *row = environ[(*at)++];
        size_t length = strcspn(row, "="), is = 0;
        const char *meant = NULL;

        if (length > PREFIX && memcmp(row, prefix, PREFIX) == 0)
            meant = nearest(row + PREFIX, length - PREFIX, &is);
        if (!meant || is == 0)
            continue;
        snprintf(text, size, "%.*s is not a setting; did you mean %s?", (int)least(length, SAID),
                 row, meant);
        return true;
    }
    return false;
}

static char other_case(char c)
{
    return (char)((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? c ^ 0x20 : c);
}

static bool key_known(const struct conf_part *part)
{
    for (size_t i = 0; setting_names[i]; i++)
        if (conf_sets(part, setting_names[i]))
            return true;
    return false;
}

static void key_say(const struct conf_part *part, char *text, size_t size)
{
    char key[LONGEST] = "", meant[LONGEST] = "";
    size_t length = least(part->key_length, sizeof(key)), is;
    const char *name;

    for (size_t i = 0; i < length; i++)
        key[i] = other_case(part->key[i]);
    name = nearest(key, length, &is);
    for (size_t i = 0; name && name[PREFIX + i] && i < sizeof(meant) - 1; i++)
        meant[i] = other_case(name[PREFIX + i]);
    if (name && is == 0)
        snprintf(text, size, "%s: %s has a variable of its own, %s", conf, meant, name);
    else
        snprintf(text, size, "%s: %.*s is not a setting%s%s%s", conf,
                 (int)least(part->key_length, SAID), part->key, name ? "; did you mean " : "",
                 meant, name ? "?" : "");
}

bool conf_misspelt(const char **at, char *text, size_t size)
{
    struct conf_part part;

    while (*at && conf_next(at, &part))
        if (!key_known(&part)) {
            key_say(&part, text, size);
            return true;
        }
    return false;
}
