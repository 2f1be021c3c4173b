/*
 * trace_holds.h - who held whom, from the traces of all of them.
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_TRACE_HOLDS_H
#define CUTIN_TOOLS_CUTIN_TRACE_TRACE_HOLDS_H

#include "trace_json.h"

/* Draws a process of its own: a slice for each time that one of these processes was held while one
 * of a higher level was active. Returns how many. */
size_t trace_holds_draw(struct trace_json *j, const struct trace_view *views, size_t n);

#endif
