/*
 * plot.h - pictures of results: a gnuplot script made from the JSON, run by gnuplot as a child.
 *
 * What kind of result an object is shows in its keys; plot_scripts.c has the table. Pictures have
 * a white background of their own, line styles and fills that differ without colour, and say which
 * machine they come from.
 */
#ifndef CUTIN_PLOT_H
#define CUTIN_PLOT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum plot_format { PLOT_PNG, PLOT_SVG, PLOT_FORMATS };

struct plot_size {
    int width, height; /* pixels of an SVG; a PNG has twice as many */
};

/* A kind of result. The functions get an object that `is` accepted. */
struct result_kind {
    const char *name, *title;
    bool (*is)(const json_t *root);
    struct plot_size (*size)(const json_t *root);
    void (*script)(const json_t *root, FILE *script); /* all but the terminal */
};
extern const struct result_kind result_kinds[]; /* ends with a row without a name */
/* NULL: none of ours that can be drawn. */
const struct result_kind *result_kind_of(const json_t *root);

/* The colour of a mode or variant, the same in all pictures: "#rrggbb". */
const char *plot_colour(const char *name);

/*
 * Can FILE be drawn at all: its name ends with .png or .svg, and gnuplot is there. To be called
 * before a long measurement. Returns 0, -EINVAL or -ENOENT with one line in `why`.
 */
int plot_check(const char *file, char *why, size_t why_bytes);
/* Draws `root` into FILE. 0, or -errno with one line in `why`; no half a file is left then. */
int plot_write(const json_t *root, const char *file, char *why, size_t why_bytes);
/* The same into an open file, from its current position on. */
int plot_draw(const json_t *root, enum plot_format format, int fd, char *why, size_t why_bytes);

#endif
