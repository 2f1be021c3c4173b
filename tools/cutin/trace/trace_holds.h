/*
 * trace_holds.h - who held whom, from the traces of all of them.
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_TRACE_HOLDS_H
#define CUTIN_TOOLS_CUTIN_TRACE_TRACE_HOLDS_H

#include "trace_json.h"

/* A process's stream from one record to another. */
struct trace_span {
    uint64_t from_ns, to_ns; /* UINT64_MAX: it had not ended */
};
/* The times in which streams were held (TRACE_HELD to TRACE_RELEASED) or above best effort and
 * active (TRACE_CUT_IN to TRACE_CUT_OUT). *spans is the caller's to free(). Returns how many. */
size_t trace_spans_read(const struct trace_view *v, enum trace_kind from, enum trace_kind to,
                        struct trace_span **spans);
/* Draws a process of its own: a slice for each time that one of these processes was held while one
 * of a higher level was active. Returns how many. */
size_t trace_holds_draw(struct trace_json *j, const struct trace_view *views, size_t n);

#endif
