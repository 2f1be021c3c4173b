/*
 * report.h - the parts of `cutin report`: one HTML page out of a folder of results.
 *
 * report.c the command and the page, report_tables.c figures as tables, report_timeline.c a trace as
 * a picture. What comes from the files is escaped, so no file can bring a script into the page.
 */
#ifndef CUTIN_REPORT_H
#define CUTIN_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/* With <, >, & and quotes as HTML has them. */
void html_text(FILE *out, const char *text);

/* All tables of a result whose kind is `kind` (plot.h). */
void report_tables(FILE *out, const char *kind, const json_t *root);

bool trace_is(const json_t *root);
/*
 * One cut-in of a trace (an object with "traceEvents") as SVG: who ran, waited and was held around
 * it. False, and nothing written, where the trace has none.
 */
bool report_timeline(FILE *out, const json_t *trace);

#endif
