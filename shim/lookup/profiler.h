/*
 * profiler.h - a profiler that comes late. torch.profiler, JAX's and TensorFlow's ask CUPTI for
 * records when they begin, and tell it when they need no more. Meanwhile nothing is buffered: a
 * launch has to be made in the thread of the operator that it belongs to. What is there from the
 * start (CUDA_INJECTION64_PATH) is in config.c.
 *
 * Three of CUPTI's functions say so. Their names are exported, for programs that are linked with
 * CUPTI, and where dlsym finds them (lookup.c), it answers ours.
 */
#ifndef CUTIN_SHIM_LOOKUP_PROFILER_H
#define CUTIN_SHIM_LOOKUP_PROFILER_H

enum profiler_call { PROFILER_ENABLE, PROFILER_DISABLE, PROFILER_FINALIZE, PROFILER_CALLS };

/* -1: none of them. */
int profiler_find(const char *name);
/* What to answer for CUPTI's function at `found`; NULL: that one, as there is another copy of CUPTI
 * that was looked up before. */
void *profiler_stand_in(enum profiler_call call, void *found);
/* CUPTI's, of the copy that was looked up; NULL: none was. */
void *profiler_found(enum profiler_call call);
/* CUPTI's, that a direct link of `caller` means. */
void *profiler_linked(enum profiler_call call, const void *caller);

/* wrap/profiler.c: ours, that are exported, and those that lookups answer. */
extern void *const profiler_exports[PROFILER_CALLS];
extern void *const profiler_stand_ins[PROFILER_CALLS];

#endif
