/*
 * papers.h - what the papers of the models report, and what the models give here.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_PAPERS_H
#define CUTIN_TOOLS_LAB_PREDICT_PAPERS_H

#include <stddef.h>

struct papers_row {
    const char *model, *what, *unit;
    double theirs, ours;
    double tolerance; /* how far apart the two may be; a test checks this */
};
enum { PAPERS_MOST = 40 };

/* Returns 0 or -ENOMEM. Takes a few seconds. */
int papers_compare(struct papers_row rows[PAPERS_MOST], size_t *n);

#endif
