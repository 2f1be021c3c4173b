/*
 * atomic_file.h - files that others find whole or not at all: written beside their place, and
 * renamed when all of it is there. What was there before stays until then.
 */
#ifndef CUTIN_COMMON_ATOMIC_FILE_H
#define CUTIN_COMMON_ATOMIC_FILE_H

#include <stdio.h>

struct atomic_file {
    FILE *out;
    const char *path;
    char beside[4096]; /* "": written in place, as a link, a device or a pipe is */
};
/* The file to write into; NULL: errno says why. `path` must stay until the end. */
FILE *atomic_file_open(struct atomic_file *w, const char *path);
/* It is written, or `rc` says why not: then nothing of it stays. Returns 0 or -errno. */
int atomic_file_close(struct atomic_file *w, int rc);

#endif
