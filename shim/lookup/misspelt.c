/*
 * misspelt.c - see misspelt.h.
 */
#include "shim/lookup/misspelt.h"

#include "common/edit_distance.h"
#include "shim/lookup/conf.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static const char prefix[] = "CUTIN_";
enum { PREFIX = sizeof(prefix) - 1, LONGEST = 32, SAID = 64 };

static const char conf[] = "CUTIN_CONF";

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The setting, or CUTIN_CONF, that is nearest to a text without the prefix. NULL: none is near.
 * `*is`: how many changes they are apart; 0: the text is the setting. */
static const char *nearest(const char *text, size_t length, size_t *is)
{
    const char *name = conf;

    *is = edit_distance(text, length, conf + PREFIX);
    for (size_t i = 0; setting_names[i]; i++) {
        size_t changes = edit_distance(text, length, setting_names[i] + PREFIX);
        if (changes < *is) {
            *is = changes;
            name = setting_names[i];
        }
    }
    return *is < EDIT_TOO_FAR ? name : NULL;
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
