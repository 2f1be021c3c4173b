/*
 * data.h - the files that draw, which lie installed beside the command: scripts of gnuplot, and the
 * parts of the page.
 */
#ifndef CUTIN_TOOLS_CUTIN_PLOT_DATA_H
#define CUTIN_TOOLS_CUTIN_PLOT_DATA_H

#include <limits.h>
#include <stddef.h>

/* Where file `name` lies ("": their folder). 0, or -errno with one line in `why`. */
int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes);
/* The whole file, freed by the caller. NULL, with one line in `why`: it cannot be read. */
char *data_read(const char *name, char *why, size_t why_bytes);

#endif
