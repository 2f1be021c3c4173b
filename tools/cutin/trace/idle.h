/*
 * idle.h - where a GPU idled although a process had work for it, and why: what best effort loses
 * beside other work, by cause.
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_IDLE_H
#define CUTIN_TOOLS_CUTIN_TRACE_IDLE_H

#include "trace_view.h"

/* What the work waited for while nothing ran. X(cause, what people read) */
#define IDLE_CAUSES(X)                                                                             \
    X(ABOVE_STARTS, "held, and work above has not started")                                        \
    X(ABOVE_ENDED, "held, and work above has ended unnoticed")                                     \
    X(OTHERS, "held, by none of these processes")                                                  \
    X(RELEASE, "released, and not noticed")                                                        \
    X(START, "submitted, and not started")                                                         \
    X(END, "ended, and not noticed")                                                               \
    X(SUBMISSION, "buffered, and not submitted")

enum idle_cause {
#define IDLE_CAUSE(cause, says) IDLE_##cause,
    IDLE_CAUSES(IDLE_CAUSE)
#undef IDLE_CAUSE
        IDLE_CAUSE_COUNT,
    IDLE_NONE = IDLE_CAUSE_COUNT
};

/* Of one process. */
struct idle {
    uint64_t traced_ns; /* its trace's length, where no other's was overwritten */
    struct {
        uint64_t ns, times;
    } by[IDLE_CAUSE_COUNT];
};

/*
 * What each of these processes lost, `idle` for `n` of them, by the event logs of the simulator, of
 * which there is one per GPU at most: all of it is of one GPU. Without a log, what ran is known as
 * the processes knew it: the GPU counts as idle when none of them had work in flight or was
 * active, and what there is before they know of an end has no row. 0 or -ENOMEM.
 */
int idle_read(const struct trace_view *views, size_t n, FILE *const *logs, size_t logs_n,
              struct idle *idle);
/* One table for each process that had work waiting, in milliseconds per second. */
void idle_print(FILE *out, const struct trace_view *views, size_t n, bool logged,
                const struct idle *idle);

#endif
