/*
 * stages.h - the parts of a cut-in: what a request's time was spent on, from its arrival until best
 * effort goes again.
 *
 * When things happened on the device is said by the device: the simulator's log, or timing events.
 * When the library did something is in its traces, when the program did is what it noted itself.
 */
#ifndef CUTIN_TOOLS_CUTIN_LATENCY_STAGES_H
#define CUTIN_TOOLS_CUTIN_LATENCY_STAGES_H

#include "tools/cutin/trace/trace_view.h"
#include "tools/cutin/worker/worker.h"

#include <stdbool.h>
#include <stdint.h>

/* X(name, what it is) */
#define STAGES(X)                                                                                  \
    X(call, "arrival -> call entered")                                                             \
    X(hold, "call entered -> hold bits set")                                                       \
    X(submit, "hold bits set -> last best-effort command submitted")                               \
    X(residue, "hold bits set -> last best-effort kernel ended")                                   \
    X(begin, "call entered -> first real-time kernel began")                                       \
    X(run, "first real-time kernel began -> last one ended")                                       \
    X(release, "last one ended -> hold bits cleared")                                              \
    X(known, "last one ended -> known to the program")                                             \
    X(again, "hold bits cleared -> next best-effort kernel began")

enum stage {
#define STAGE_ENUM(name, is) STAGE_##name,
    STAGES(STAGE_ENUM)
#undef STAGE_ENUM
        STAGE_COUNT
};
extern const struct stage_row {
    const char *name, *is;
} stage_rows[STAGE_COUNT];

/* What happened while samples were taken. */
enum stage_source {
    SOURCE_RT, /* kernels on the device */
    SOURCE_BE,
    SOURCE_CUT_IN, /* moments of real time */
    SOURCE_CUT_OUT,
    SOURCE_SUBMIT, /* and of best effort */
    SOURCES
};
struct stage_sources {
    struct trace_spans of[SOURCES];
};

/* Into the order of time, of begins. To be called before stages_of. */
void stage_sources_sort(struct stage_sources *s);
/* Empties them; they may be filled again. */
void stage_sources_clear(struct stage_sources *s);
void stage_sources_free(struct stage_sources *s);

/* The stages of one request; one that is not known is STAGE_NONE. */
#define STAGE_NONE UINT64_MAX
struct stage_sample {
    uint64_t ns[STAGE_COUNT];
    bool paused; /* a best-effort kernel stood still while real time ran: nothing waited for it */
};
void stages_of(const struct stage_sources *s, const struct worker_sample *sample,
               struct stage_sample *out);

#endif
