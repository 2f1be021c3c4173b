/*
 * misspelt.h - names in the environment that are nearly a setting's. Many names may begin as ours
 * do (an orchestrator announces a service called "cutin" by CUTIN_PORT), so only what is near one
 * counts. In CUTIN_CONF every key is meant to be one.
 */
#ifndef CUTIN_SHIM_LOOKUP_MISSPELT_H
#define CUTIN_SHIM_LOOKUP_MISSPELT_H

#include <stdbool.h>
#include <stddef.h>

/* What is to be said of the next such name of the environment from `*at` on (0 at first). False:
 * none is left. A setuid program, which takes no setting, has none. Like getenv beside setenv. */
bool setting_misspelt(size_t *at, char *text, size_t size);

/* The same of the keys of a text such as CUTIN_CONF from `*at` on; NULL: there is no such text. */
bool conf_misspelt(const char **at, char *text, size_t size);

#endif
