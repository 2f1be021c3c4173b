/*
 * edit_distance.h - which name was meant. Thread safe.
 */
#ifndef CUTIN_COMMON_EDIT_DISTANCE_H
#define CUTIN_COMMON_EDIT_DISTANCE_H

#include <stddef.h>

/* How far a text of `length` characters is from a name: letters changed, left out, put in or
 * swapped with the next one, a third of the text's at most. 0: it is the name. 1 also: it begins
 * the name, or the name and '_' begin it. EDIT_TOO_FAR: farther. */
enum { EDIT_TOO_FAR = 32 };
size_t edit_distance(const char *text, size_t length, const char *name);

#endif
