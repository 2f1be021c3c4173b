/*
 * launches.h - the graphs that launches are drawn for.
 */
#ifndef TESTS_HAZARDS_LAUNCHES_H
#define TESTS_HAZARDS_LAUNCHES_H

#include "draw.h"

/* Makes the graphs, with drawn arguments; one of them has events if `events` says so. */
void graphs_new(bool events);

#endif
