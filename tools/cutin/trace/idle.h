/*
 * idle.h - where a GPU idled although a process had work for it, and why: the time that best effort
 * loses beside other work, by cause.
 */
#ifndef CUTIN_TOOLS_CUTIN_TRACE_IDLE_H
#define CUTIN_TOOLS_CUTIN_TRACE_IDLE_H

#include "trace_view.h"

/* What the work waited for while nothing ran. X(cause, text for people) */
#define IDLE_CAUSES(X)                                                                             \
    X(ABOVE_STARTS, "held, but work above has not started")                                        \
    X(ABOVE_ENDED, "held, end of work above not noticed yet")                                      \
    X(OTHERS, "held, by none of these processes")                                                  \
    X(RELEASE, "released, but not noticed yet")                                                    \
    X(START, "submitted, but not started")                                                         \
    X(END, "ended, but not noticed yet")                                                           \
    X(SUBMISSION, "buffered, but not submitted")

enum idle_cause {
#define IDLE_CAUSE(cause, says) IDLE_##cause,
    IDLE_CAUSES(IDLE_CAUSE)
#undef IDLE_CAUSE
        IDLE_CAUSE_COUNT,
    IDLE_NONE = IDLE_CAUSE_COUNT
};

/* Of one process. */
struct idle {
    uint64_t traced_ns; /* the length of its trace, without what another one lost */
    struct {
        uint64_t ns, times;
    } by[IDLE_CAUSE_COUNT];
};

/*
 * Writes what each of `n` processes lost to `idle`. `logs` are the simulator's event logs, at most
 * one per GPU; all of it counts as one GPU. Without a log, what ran is what the processes knew: the
 * GPU counts as idle when none of them had work in flight or was active. The time between an end
 * and a process's learning of it then has no row. Returns 0 or -ENOMEM.
 */
int idle_read(const struct trace_view *views, size_t n, FILE *const *logs, size_t logs_n,
              struct idle *idle);
/* Prints a table for each process that had work waiting, in milliseconds per second. */
void idle_print(FILE *out, const struct trace_view *views, size_t n, bool logged,
                const struct idle *idle);

#endif
