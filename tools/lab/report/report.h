/*
 * report.h - the parts of `cutin-lab report`: one HTML page out of a folder of results.
 *
 * report.c the command and the folder, page.c the page's figures in the page of data/, cut_in.c
 * what of a trace is shown. The page's own script makes tables and pictures of the figures.
 */
#ifndef CUTIN_TOOLS_LAB_REPORT_REPORT_H
#define CUTIN_TOOLS_LAB_REPORT_REPORT_H

#include "plot.h"

#include <jansson.h>
#include <stdbool.h>

bool trace_is(const json_t *root);
/*
 * One cut-in of a trace (an object with "traceEvents"): its times, the slices around it and what
 * names their tracks. NULL where the trace has none that held somebody.
 */
json_t *cut_in_of(const json_t *trace);

struct page {
    json_t *results, *traces, *others; /* arrays */
    char why[512];                     /* of the first plot that could not be drawn, or "" */
};

/* Names of files that are not UTF-8 show as "?". */
void page_add_result(struct page *page, const char *file, const struct result_kind *kind,
                     json_t *root);
void page_add_trace(struct page *page, const char *file, const json_t *root);
void page_add_other(struct page *page, const char *file);
/* The page, which needs nothing else; freed by the caller. NULL, with one line in `why`. */
char *page_make(const struct page *page, char *why, size_t why_bytes);
void page_free(struct page *page);

#endif
