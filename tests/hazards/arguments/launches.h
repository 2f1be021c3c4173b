/*
 * launches.h - the graphs that launches are drawn for.
 */
#ifndef TESTS_HAZARDS_LAUNCHES_H
#define TESTS_HAZARDS_LAUNCHES_H

#include "draw.h"

/* One of them with events, or none. Its arguments are drawn. */
void graphs_new(bool events);

#endif
