/* conf.c - see conf.h. */
#include "shim/lookup/conf.h"

#include <string.h>

const char *const setting_names[] = {
#define CONFIG_WORD(name, ...) #name,
#define CONFIG_NUMBER          CONFIG_WORD
#define CONFIG_MICROS          CONFIG_WORD
#define CONFIG_PATH            CONFIG_WORD
#include "shim/lookup/config.def"
    NULL};

static bool has_key(const char *text)
{
    size_t length = strcspn(text, "=,");

    return length != 0 && text[length] == '=';
}

bool conf_next(const char **text, struct conf_part *part)
{
    const char *at = *text, *end = at + strcspn(at, ",");

    if (!*at)
        return false;
    while (*end && !has_key(end + 1))
        end += 1 + strcspn(end + 1, ",");
    *part = (struct conf_part){.key = at, .key_length = strcspn(at, "=,")};
    if (at[part->key_length] == '=') {
        part->value = at + part->key_length + 1;
        part->value_length = (size_t)(end - part->value);
    }
    *text = *end ? end + 1 : end;
    return true;
}

bool conf_key(const char *variable, char key[CONF_KEY])
{
    static const char *const own[] = {"CUTIN_PRIORITY", "CUTIN_SOCKET", "CUTIN_LOG", "CUTIN_TRACE",
                                      "CUTIN_DISABLE"};
    const char *name = variable + sizeof("CUTIN_") - 1;
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
        if (strcmp(variable, own[i]) == 0)
            return false;
    if (length >= CONF_KEY)
        return false;
    for (size_t i = 0; i <= length; i++)
        key[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] - 'A' + 'a' : name[i]);
    return true;
}

bool conf_sets(const struct conf_part *part, const char *variable)
{
    char key[CONF_KEY];

    return conf_key(variable, key) && strlen(key) == part->key_length &&
           memcmp(key, part->key, part->key_length) == 0;
}
