/*
 * conf.h - the names of settings: of their variables, and of their keys in CUTIN_CONF, as in
 * "budget_us=100,depth=64,cpus=0-3,8". A setting's key is its variable's name in config.def, in
 * small letters and without CUTIN_. A part without = continues the value in front of it.
 *
 * It also finds what is nearly such a name. Other variables may begin with CUTIN_, too (an
 * orchestrator announces a service called "cutin" by CUTIN_PORT), so only a name that is near a
 * setting counts. In CUTIN_CONF every key should be one. Thread safe, unless it says otherwise.
 */
#ifndef CUTIN_SHIM_LOOKUP_CONF_H
#define CUTIN_SHIM_LOOKUP_CONF_H

#include <stdbool.h>
#include <stddef.h>

struct conf_part {
    const char *key, *value; /* point into the text; value: NULL, there is none */
    size_t key_length, value_length;
};

/* The next part of a text from `*text` on; moves `*text` behind it. False: there is none. */
bool conf_next(const char **text, struct conf_part *part);

/* The variables of config.def, with NULL behind the last one. */
extern const char *const setting_names[];

/* The key of this variable, one of config.def. False: the variable has no key in CUTIN_CONF. */
enum { CONF_KEY = 32 };
bool conf_key(const char *variable, char key[CONF_KEY]);

/* Does the part set this variable? Variables that users set by hand, or that are read before all
 * others, cannot be set in CUTIN_CONF. */
bool conf_sets(const struct conf_part *part, const char *variable);

/* Writes the message about the next such name in the environment from `*at` on (0 at first). False:
 * none is left; a setuid program, which takes no settings, has none. Safe as getenv is. */
bool setting_misspelt(size_t *at, char *text, size_t size);

/* The same for the keys of a text such as CUTIN_CONF from `*at` on; NULL: there is no text. */
bool conf_misspelt(const char **at, char *text, size_t size);

#endif
