/*
 * result.h - what the JSON objects of the measuring commands have in common.
 *
 * Every one has `config`, with the version, the machine and what the environment may have changed.
 */
#ifndef CUTIN_TOOLS_CUTIN_RESULT_H
#define CUTIN_TOOLS_CUTIN_RESULT_H

#include "tools/cutin/statistics/figures.h"
#include "tools/cutin/subcommand.h"

#include <jansson.h>
#include <stdbool.h>

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
/* One object, arrays of plain numbers on one line each, and a newline. Returns 0 or -EIO. */
int result_print(const json_t *root, FILE *out);

/* What a measuring command ends with: the object on stdout where `json`. Takes the reference;
 * returns the exit status. */
int result_give(json_t *root, bool json);

#endif
