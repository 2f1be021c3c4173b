/*
 * profiler.h - a profiler that comes late. torch.profiler, JAX's, TensorFlow's and Triton's ask
 * CUPTI for records when they begin, and tell it when they need no more. Meanwhile nothing is
 * buffered: a launch has to be made in the thread of the operator that it belongs to. What is there
 * from the start (CUDA_INJECTION64_PATH) is in config.c.
 *
 * Some of CUPTI's functions say so. Their names are exported, for programs that are linked with
 * CUPTI, and where dlsym finds them (lookup.c), it answers ours. Each framework may bring a copy of
 * its own, and they record at a time.
 */
#ifndef CUTIN_SHIM_LOOKUP_PROFILER_H
#define CUTIN_SHIM_LOOKUP_PROFILER_H

/* X(function, what it does to records, the argument that is their kind: the one before it, if any,
 * is the context or subscriber that they are of). Up to CUPTI 13.5. */
#define PROFILER_FUNCTIONS(X)                                                                      \
    X(cuptiActivityEnable, BEGINS, 0)                                                              \
    X(cuptiActivityEnableAndDump, BEGINS, 0)                                                       \
    X(cuptiActivityEnableContext, BEGINS, 1)                                                       \
    X(cuptiActivityEnable_v2, BEGINS, 1)                                                           \
    X(cuptiActivityEnableAndDump_v2, BEGINS, 1)                                                    \
    X(cuptiActivityDisable, ENDS, 0)                                                               \
    X(cuptiActivityDisableContext, ENDS, 1)                                                        \
    X(cuptiActivityDisable_v2, ENDS, 1)                                                            \
    X(cuptiUnsubscribe, ENDS_ALL, 1)                                                               \
    X(cuptiFinalize, ENDS_ALL, 0)

enum profiler_call {
#define X(function, effect, kind) PROFILER_##function,
    PROFILER_FUNCTIONS(X)
#undef X
        PROFILER_CALLS
};
enum { PROFILER_COPIES = 8 }; /* that are looked up */

extern const char *const profiler_names[PROFILER_CALLS];

/* -1: none of them. */
int profiler_find(const char *name);
/* What to answer for CUPTI's function at `found`; NULL: that one, since there are too many copies.
 * Nothing is buffered any more then. */
void *profiler_stand_in(enum profiler_call call, void *found);
/* CUPTI's, of the copy that was looked up. */
void *profiler_found(int copy, enum profiler_call call);
/* CUPTI's, that a direct link of `caller` means; NULL: there is none. */
void *profiler_linked(enum profiler_call call, const void *caller);
/* Where the copy lies that has the function. */
const void *profiler_base(const void *found);

/* wrap/profiler.c: ours, that are exported, and those that lookups answer. */
extern void *const profiler_exports[PROFILER_CALLS];
extern void *const profiler_stand_ins[PROFILER_CALLS][PROFILER_COPIES];
/* The copy there is not loaded any more. */
void profiler_gone(const void *base);

#endif
