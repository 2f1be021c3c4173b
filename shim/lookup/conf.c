/* conf.c - see conf.h. */
#include "shim/lookup/conf.h"

#include "common/text.h"

#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

const char *const setting_names[] = {
#define CONFIG_WORD(name, ...) #name,
#define CONFIG_NUMBER          CONFIG_WORD
#define CONFIG_MICROS          CONFIG_WORD
#define CONFIG_PATH            CONFIG_WORD
#include "shim/lookup/config.def"
    NULL};

static const char conf[] = "CUTIN_CONF";
enum { PREFIX = sizeof("CUTIN_") - 1, SAID = 64 };

bool conf_next(const char **text, struct conf_part *part)
{
    const char *at = *text, *end = at + strcspn(at, ",");

    if (!*at)
        return false;
    /* The part ends at a comma behind which a key and '=' follow. */
    for (size_t key; *end; end += 1 + strcspn(end + 1, ",")) {
        key = strcspn(end + 1, "=,");
        if (key && end[1 + key] == '=')
            break;
    }
    *part = (struct conf_part){.key = at, .key_length = strcspn(at, "=,")};
    if (at[part->key_length] == '=') {
        part->value = at + part->key_length + 1;
        part->value_length = (size_t)(end - part->value);
    }
    *text = *end ? end + 1 : end;
    return true;
}

static void key_of(const char *variable, char key[CONF_KEY])
{
    const char *name = variable + PREFIX;

    for (size_t i = 0; i <= strlen(name); i++)
        key[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
}

bool conf_key(const char *variable, char key[CONF_KEY])
{
    static const char own[] = "CUTIN_PRIORITY CUTIN_SOCKET CUTIN_LOG CUTIN_TRACE CUTIN_DISABLE";

    if (word_index(own, variable) >= 0)
        return false;
    key_of(variable, key);
    return true;
}

bool conf_sets(const struct conf_part *part, const char *variable)
{
    char key[CONF_KEY];

    return conf_key(variable, key) && strlen(key) == part->key_length &&
           memcmp(key, part->key, part->key_length) == 0;
}

/* The setting, or CUTIN_CONF, whose name without CUTIN_, or whose key, is nearest to a text. NULL:
 * none is near. `*is`: how many changes they are apart; 0: the text is the setting. */
static const char *nearest(const char *text, size_t length, bool is_key, size_t *is)
{
    const char *meant = NULL, *variable = conf;
    char key[CONF_KEY];

    *is = EDIT_TOO_FAR;
    for (size_t i = 0; variable; variable = setting_names[i++]) {
        key_of(variable, key);
        size_t changes = edit_distance(text, length, is_key ? key : variable + PREFIX);
        if (changes < *is) {
            *is = changes;
            meant = variable;
        }
    }
    return meant;
}

bool setting_misspelt(size_t *at, char *text, size_t size)
{
    while (!getauxval(AT_SECURE) && environ && environ[*at]) {
        const char *row = environ[(*at)++];
        size_t length = strcspn(row, "="), is = 0;
        const char *meant = NULL;

        if (length > PREFIX && memcmp(row, conf, PREFIX) == 0)
            meant = nearest(row + PREFIX, length - PREFIX, false, &is);
        if (!meant || is == 0)
            continue;
        snprintf(text, size, "%.*s is not a setting; did you mean %s?",
                 (int)(length < SAID ? length : SAID), row, meant);
        return true;
    }
    return false;
}

bool conf_misspelt(const char **at, char *text, size_t size)
{
    struct conf_part part;

    while (*at && conf_next(at, &part)) {
        size_t known = 0, is;
        char key[CONF_KEY] = "";

        while (setting_names[known] && !conf_sets(&part, setting_names[known]))
            known++;
        if (setting_names[known])
            continue;
        const char *name = nearest(part.key, part.key_length, true, &is);
        if (name)
            key_of(name, key);
        if (name && is == 0)
            snprintf(text, size, "%s: %s has a variable of its own, %s", conf, key, name);
        else
            snprintf(text, size, "%s: %.*s is not a setting%s%s%s", conf,
                     (int)(part.key_length < SAID ? part.key_length : SAID), part.key,
                     name ? "; did you mean " : "", key, name ? "?" : "");
        return true;
    }
    return false;
}
