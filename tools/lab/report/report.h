/*
 * report.h - the parts of `cutin-lab report`, which makes one HTML page of a folder of results.
 *
 * report.c is the command and reads the folder, page.c fills the page of data/, cut_in.c chooses
 * what of a trace is shown. The page's own script makes tables and pictures of the figures.
 */
#ifndef CUTIN_TOOLS_LAB_REPORT_REPORT_H
#define CUTIN_TOOLS_LAB_REPORT_REPORT_H

#include "plot.h"

#include <jansson.h>
#include <stdbool.h>

bool trace_is(const json_t *root);
/*
 * Takes one cut-in of a trace (an object with "traceEvents"): its times, the slices around it, and
 * the names of their tracks. NULL: no cut-in of the trace held another process.
 */
json_t *cut_in_of(const json_t *trace);

struct page {
    json_t *results, *traces, *others; /* arrays */
    char why[512];                     /* of the first plot that could not be drawn, or "" */
};

/* Names of files that are not UTF-8 show as "?". */
void html_add_result(struct page *page, const char *file, const struct result_kind *kind,
                     json_t *root);
void html_add_trace(struct page *page, const char *file, const json_t *root);
void html_add_other(struct page *page, const char *file);
/* Returns the page, which is self-contained; the caller frees it. NULL, with one line in `why`. */
char *html_make(const struct page *page, char *why, size_t why_bytes);
void html_free(struct page *page);

#endif
