/*
 * misspelt.h - finds names in the environment that are nearly a setting's. Others may begin with
 * CUTIN_, too (an orchestrator announces a service called "cutin" by CUTIN_PORT), so only a name
 * that is near a setting counts. In CUTIN_CONF every key should be one.
 */
#ifndef CUTIN_SHIM_LOOKUP_MISSPELT_H
#define CUTIN_SHIM_LOOKUP_MISSPELT_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the message about the next such name in the environment from `*at` on (0 at first). False:
 * none is left; a setuid program, which takes no settings, has none. Safe as getenv is. */
bool setting_misspelt(size_t *at, char *text, size_t size);

/* The same for the keys of a text such as CUTIN_CONF from `*at` on; NULL: there is no text. */
bool conf_misspelt(const char **at, char *text, size_t size);

#endif
