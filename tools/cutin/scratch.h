/*
 * scratch.h - a private folder for the files of one command.
 */
#ifndef CUTIN_TOOLS_CUTIN_SCRATCH_H
#define CUTIN_TOOLS_CUTIN_SCRATCH_H

#include <stddef.h>

struct scratch {
    char folder[256];
};

/* Below $TMPDIR, or /tmp where that is not set or its path would have more than `most` bytes. 0 or
 * -errno. */
int scratch_make(struct scratch *s, const char *name, size_t most);
/* "FOLDER/NAME". */
void scratch_path(const struct scratch *s, const char *name, char *out, size_t bytes);
/* Paths of the folder's files, sorted, NULL-terminated; NULL: no memory. */
char **scratch_list(const struct scratch *s, size_t *count);
void scratch_list_free(char **list);
/* The folder and its files are gone afterwards. */
void scratch_remove(struct scratch *s);

#endif
