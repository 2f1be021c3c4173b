/*
 * whatif_print.h - prints the predictions of `cutin-lab whatif` for people and as JSON.
 */
#ifndef CUTIN_TOOLS_LAB_PREDICT_WHATIF_PRINT_H
#define CUTIN_TOOLS_LAB_PREDICT_WHATIF_PRINT_H

#include "forecast.h"

struct whatif_row {
    const char *name;
    struct forecast forecast;
};
enum { WHATIF_ROWS = 8 };

struct whatif_print {
    struct workload w, rt;
    double modelled_ns; /* what the recording takes on its own machine, by the model */
    struct whatif_row row[WHATIF_ROWS]; /* the first one is that machine, with the given load */
    size_t rows;
    struct figures rt_alone; /* of the real-time program by itself */
    bool json;
};

/* Returns the exit status. */
int whatif_print(const struct whatif_print *p, const char *path, const struct machine *m);
int whatif_print_papers(bool json);

#endif
