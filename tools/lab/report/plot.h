/*
 * plot.h - draws results: gnuplot runs a script of data/ as a child, with our figures.
 *
 * The keys of an object show what kind of result it is (kinds.c). Pictures have their own white
 * background, line styles and fills that differ without colour, and say which machine the result is
 * from.
 */
#ifndef CUTIN_TOOLS_LAB_REPORT_PLOT_H
#define CUTIN_TOOLS_LAB_REPORT_PLOT_H

#include <jansson.h>
#include <limits.h>
#include <stdio.h>

enum plot_format { PLOT_PNG, PLOT_SVG, PLOT_FORMATS };

/* A kind of result: groups (workloads, runs) of members (modes, variants) that have figures. */
struct result_kind {
    const char *name; /* name of its script in data/ */
    const char *title;
    const char *groups;  /* path of the groups; NULL: the result is the only group */
    const char *members; /* path of the members in a group */
    const char *label;   /* which member of it names the element of an array of groups or members */
    const char
        *unique_key; /* a key of the result, or of its first element, that no other kind has */
    const char *figures[5]; /* of a member; ends with NULL */
    const char *cdf;
};

/* The member at a dotted path, such as "config.machine.cpu". NULL: there is none. Borrowed. */
json_t *result_get(const json_t *root, const char *path);
/* Finds the kind of a result by its keys. NULL: it cannot be drawn. */
const struct result_kind *result_kind_of(const json_t *root);

/* Prints what the script of `kind` draws of `root`, a result of that kind. */
void plot_figures(FILE *script, const struct result_kind *kind, const json_t *root);

/* Finds a file of data/, which is installed beside the command: gnuplot scripts, and parts of the
 * page. Returns 0, or -errno with one line in `why`. */
int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes);
/* Draws `root` into FILE, whose name ends with .png or .svg. Returns 0, or -errno with one line in
 * `why`; then it leaves no half file. */
int plot_write(const struct result_kind *kind, const json_t *root, const char *file, char *why,
               size_t why_bytes);
/* The same, into an open file from its current position on. */
int plot_draw(const struct result_kind *kind, const json_t *root, enum plot_format format, int fd,
              char *why, size_t why_bytes);

#endif
