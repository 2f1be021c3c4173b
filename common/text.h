/*
 * text.h - words and numbers as people write them, names that they mean, and text of others. Also
 * runs before anything in the process is set up (shim/CMakeLists.txt). Thread safe.
 */
#ifndef CUTIN_COMMON_TEXT_H
#define CUTIN_COMMON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of messages, the worst first. A setting names the last one that is still said. */
enum { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
#define LOG_WORDS "error warn info debug" /* for word_index */

/* Position of a word in a list, whose words have spaces between them; or -1. */
int word_index(const char *words, const char *text);

/* The number that the text begins with: digits, without a sign or blanks. Returns what follows.
 * NULL: there is none, or it exceeds `most`; then `number` is 0, or not defined. */
const char *number_begin(const char *text, uint64_t most, uint64_t *number);
/* Reads all of the text. False: it is no number from `least` to `most`. */
bool number_read(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/* Replaces bytes that a terminal or JSON does not take by question marks. Returns the text. */
char *printable(char *text);

/* FNV-1a. */
uint64_t text_hash(const char *text);

/* How far a text of `length` characters is from a name: letters changed, left out, put in or
 * swapped with the next one, a third of the text's at most. 0: it is the name. 1 also: it begins
 * the name, or the name and '_' begin it. EDIT_TOO_FAR: farther. */
enum { EDIT_TOO_FAR = 32 };
size_t edit_distance(const char *text, size_t length, const char *name);

#endif
