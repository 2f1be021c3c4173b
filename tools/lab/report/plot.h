/*
 * plot.h - pictures of results: a script of data/, run by gnuplot as a child on figures of ours.
 *
 * What kind of result an object is shows in its keys (kinds.c). Pictures have a white background of
 * their own, line styles and fills that differ without colour, and say which machine they come
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
    const char *name; /* of its script in data/ */
    const char *title;
    const char *groups;  /* where they are, NULL: the result itself is the only one */
    const char *members; /* where they are in a group */
    const char *label;   /* which member of it names the element of an array of groups or members */
    const char *sign;    /* of the result, or of its first element: tells it from others */
    const char *figures[5]; /* of a member; ends with NULL */
    const char *cdf;
};

/* The member at a dotted path, e.g. "config.machine.cpu"; NULL where there is none. Borrowed. */
json_t *result_get(const json_t *root, const char *path);
/* Which kind of result an object is, by its keys. NULL: none of ours that can be drawn. */
const struct result_kind *result_kind_of(const json_t *root);

/* What the script of `kind` draws of `root`, a result of that kind. */
void plot_figures(FILE *script, const struct result_kind *kind, const json_t *root);

/* Where a file of data/ lies, installed beside the command: scripts of gnuplot, and the parts of
 * the page. 0, or -errno with one line in `why`. */
int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes);
/* Draws `root` into FILE, whose name ends with .png or .svg. 0, or -errno with one line in `why`;
 * no half a file is left then. */
int plot_write(const struct result_kind *kind, const json_t *root, const char *file, char *why,
               size_t why_bytes);
/* The same into an open file, from its current position on. */
int plot_draw(const struct result_kind *kind, const json_t *root, enum plot_format format, int fd,
              char *why, size_t why_bytes);

#endif
