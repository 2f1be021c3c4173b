/*
 * misspelt.h - names in the environment that are nearly a setting's. Many names may begin as ours
 * do (an orchestrator announces a service called "cutin" by CUTIN_PORT), so only what is near one
 * counts.
 */
#ifndef CUTIN_SHIM_MISSPELT_H
#define CUTIN_SHIM_MISSPELT_H

#include <stdbool.h>
#include <stddef.h>

/* The setting that `row`, NAME=VALUE, was probably meant to set; NULL where it sets one, or is near
 * none. `length` becomes its name's. Pure. */
const char *setting_meant(const char *row, size_t *length);

/* The next such row of the environment from `*at` on (0 at first), and what it was meant to be;
 * NULL: none is left. */
const char *setting_misspelt(size_t *at, size_t *length, const char **meant);

#endif
