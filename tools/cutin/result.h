/*
 * result.h - what the JSON objects of the measuring commands have in common.
 *
 * Each has `config`: the version, the machine and the environment that may change the figures.
 */
#ifndef CUTIN_TOOLS_CUTIN_RESULT_H
#define CUTIN_TOOLS_CUTIN_RESULT_H

#include "tools/cutin/statistics/figures.h"
#include "tools/cutin/subcommand.h"

#include <jansson.h>
#include <stdbool.h>

/* Rounds to three decimals: nanoseconds where the unit is a microsecond, without binary noise. */
json_t *result_number(double value);
/* Writes nanoseconds since 1970 as 2026-11-23T02:33:11.123456Z. Returns `out`. */
enum { RESULT_TIME = 32 };
const char *result_time(uint64_t ns, char out[RESULT_TIME]);
/* Percentiles, the number of samples, and `cdf_us`: percentiles 0 to 100 for a plot. */
json_t *result_figures(const struct figures *figures);
/* Makes a percentile null if there are too few samples for it. */
void result_refuse(json_t *figures, size_t samples);
/* Like result_figures, without `cdf_us`. */
json_t *result_brief(const struct figures *figures);
json_t *result_machine(void);
/* The variables of cutin, the simulator and CUDA: they may change the figures from outside. */
json_t *result_environment(void);
/* The program's name and the words of its command line. */
json_t *result_command(int argc, char **argv);
/* Prints an object and a newline, arrays of plain numbers on one line. Returns 0 or -EIO. */
int result_print(const json_t *root, FILE *out);

/* The end of a measuring command: prints the object on stdout if `json`. Takes the reference.
 * Returns the exit status. */
int result_give(json_t *root, bool json);

#endif
