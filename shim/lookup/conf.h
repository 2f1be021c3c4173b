/*
 * conf.h - the settings in CUTIN_CONF: "budget_us=100,depth=64,cpus=0-3,8". A setting's key is its
 * variable's name in config.def, small and without the CUTIN_. What has no = goes on with the
 * value in front of it. Thread safe.
 */
#ifndef CUTIN_SHIM_LOOKUP_CONF_H
#define CUTIN_SHIM_LOOKUP_CONF_H

#include <stdbool.h>
#include <stddef.h>

struct conf_part {
    const char *key, *value; /* in the text; value: NULL, it has none */
    size_t key_length, value_length;
};

/* The next part of a text from `*text` on, which moves behind it. False: there is none. */
bool conf_next(const char **text, struct conf_part *part);

/* The variables of config.def; NULL behind the last one. */
extern const char *const setting_names[];

/* The key of this variable. False: it has none in CUTIN_CONF. */
enum { CONF_KEY = 32 };
bool conf_key(const char *variable, char key[CONF_KEY]);

/* Is it the setting of this variable? Those with a variable of their own are none in CUTIN_CONF:
 * the ones that somebody sets by hand, or that are read before all others. */
bool conf_sets(const struct conf_part *part, const char *variable);

#endif
