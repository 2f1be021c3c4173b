/*
 * result.h - what the JSON objects of the measuring commands have in common, and their pictures.
 *
 * Every one has `config`, with the version, the machine and what the environment may have changed.
 */
#ifndef CUTIN_TOOLS_CUTIN_PLOT_RESULT_H
#define CUTIN_TOOLS_CUTIN_PLOT_RESULT_H

#include "tools/cutin/statistics/figures.h"
#include "tools/cutin/subcommand.h"

#include <jansson.h>
#include <limits.h>

/* Three digits behind the point: nanoseconds of a microsecond, and no noise of binary fractions. */
json_t *result_number(double value);
/* Nanoseconds since 1970 as 2026-11-23T02:33:11.123456Z. Returns `out`. */
enum { RESULT_TIME = 32 };
const char *result_time(uint64_t ns, char out[RESULT_TIME]);
/* Percentiles, the number of samples, and `cdf_us`: percentiles 0 to 100 for a plot. */
json_t *result_figures(const struct figures *figures);
/* A percentile of too few samples becomes null. */
void result_refuse(json_t *figures, size_t samples);
/* The same of them, without `cdf_us`. */
json_t *result_brief(const struct figures *figures);
json_t *result_machine(void);
/* The variables of cutin, the simulator and CUDA: what may have changed figures from outside. */
json_t *result_environment(void);
/* The program's name and the words of a command line. */
json_t *result_command(int argc, char **argv);
/* The member at a dotted path, e.g. "config.machine.cpu"; NULL where there is none. Borrowed. */
json_t *result_get(const json_t *root, const char *path);
/* One object, arrays of plain numbers on one line each, and a newline. Returns 0 or -EIO. */
int result_print(const json_t *root, FILE *out);

/* ---- pictures of results: a script of data/, run by gnuplot as a child on figures of ours ------
 *
 * What kind of result an object is shows in its keys; tools/lab/kinds.c has the others. Pictures
 * have a white background of their own, line styles and fills that differ without colour, and say
 * which machine they come from. */

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
extern const struct result_kind result_latency;

/* What the script of `kind` draws of `root`, a result of that kind. */
void plot_figures(FILE *script, const struct result_kind *kind, const json_t *root);

/* Where a file of data/ lies, installed beside the command: scripts of gnuplot, and the parts of
 * the page ("": their folder). 0, or -errno with one line in `why`. */
int data_path(const char *name, char path[PATH_MAX], char *why, size_t why_bytes);
/*
 * Can FILE be drawn at all: its name ends with .png or .svg, and gnuplot is there. To be called
 * before a long measurement. Returns 0, -EINVAL or -ENOENT with one line in `why`.
 */
int plot_check(const char *file, char *why, size_t why_bytes);
/* Draws `root` into FILE. 0, or -errno with one line in `why`; no half a file is left then. */
int plot_write(const struct result_kind *kind, const json_t *root, const char *file, char *why,
               size_t why_bytes);
/* The same into an open file, from its current position on. */
int plot_draw(const struct result_kind *kind, const json_t *root, enum plot_format format, int fd,
              char *why, size_t why_bytes);
/* What a measuring command ends with: the object on stdout where `json`, its picture in the file
 * `plot` (NULL: none). Takes the reference; returns the exit status, and has said what failed. */
int result_give(const struct subcommand *cmd, const struct result_kind *kind, json_t *root,
                bool json, const char *plot);

#endif
