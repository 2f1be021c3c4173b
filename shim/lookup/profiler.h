/*
 * profiler.h - profilers that begin while the program runs. torch.profiler and those of JAX,
 * TensorFlow and Triton ask CUPTI for records when they begin, and end that when they are done.
 * Meanwhile nothing is buffered: a launch has to be made in the thread of the operator to which it
 * belongs. config.c finds a profiler that is there from the start (CUDA_INJECTION64_PATH).
 *
 * Some CUPTI functions tell of this. The library exports their names, for programs that are linked
 * with CUPTI; where dlsym finds them (lookup.c), it answers ours. Each framework may bring its own
 * copy of CUPTI, and several copies may record at a time.
 */
#ifndef CUTIN_SHIM_LOOKUP_PROFILER_H
#define CUTIN_SHIM_LOOKUP_PROFILER_H

/* X(function, what it does to records, the argument that is their kind; the argument in front of
 * that, if any, is the context or subscriber that they belong to). Up to CUPTI 13.5. */
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
enum { PROFILER_COPIES = 8 }; /* copies that are looked up */

/* In wrap/profiler.c. */
extern const struct profiler_function {
    const char *name;
    enum { BEGINS, ENDS, ENDS_ALL } effect;
    int kind;
    void *exported;                  /* our exported function */
    void *stand_in[PROFILER_COPIES]; /* what lookups answer, for each copy */
} profiler_functions[PROFILER_CALLS];

/* -1: not one of them. */
int profiler_find(const char *name);
/* The answer to a lookup that finds CUPTI's function at `found`. NULL: `found` itself, because
 * there are too many copies; then nothing is buffered any more. */
void *profiler_stand_in(enum profiler_call call, void *found);
/* CUPTI's functions, in the copies that were looked up. */
extern void *_Atomic profiler_found[PROFILER_COPIES][PROFILER_CALLS];
/* The base address of the copy that has the function. */
const void *profiler_base(const void *found);

/* In wrap/profiler.c. The copy at `base` is not loaded any more. */
void profiler_gone(const void *base);

#endif
