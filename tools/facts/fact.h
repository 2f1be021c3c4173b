/*
 * fact.h - a fact is one thing that cutin's design assumes about a GPU and its driver, and how it
 * is tested.
 *
 * It is a row of a table (main.c; `cutin doctor` has another) and a function that runs in a process
 * of its own, because a driver may hang behind a closed gate. The parent kills a process that takes
 * longer than its row's limit. Values are sent when they are found, so a fact that hangs keeps
 * those that it sent before.
 */
#ifndef CUTIN_TOOLS_FACTS_FACT_H
#define CUTIN_TOOLS_FACTS_FACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"

/* Factor of all bounds on the time of a fact. */
#ifdef __SANITIZE_THREAD__
#define FACT_SLOWER 10
#else
#define FACT_SLOWER 1
#endif

struct fact {
    const char *name;
    const char *question;
    const char *assumed;  /* what docs/design.md assumes; NULL: nothing, only figures are wanted */
    unsigned int limit_s; /* after this time it counts as hung */
    const char *env;      /* "NAME=value", set in the process; NULL: nothing */
    void (*run)(void);
};

/* Take fewer samples. */
extern bool fact_quick;

/* Sends a value of the running fact. Keys end in their unit: _ns, _us, _ms. `fact_value` takes the
 * reference. Not thread safe. */
void fact_value(const char *key, json_t *value);
void fact_number(const char *key, double value);
void fact_flag(const char *key, bool value);
void fact_text(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sorts `ns`. The value is {"min", "p50", "p90", "p99", "max", "n"} in microseconds. */
void fact_samples(const char *key, uint64_t *ns, size_t n);

/* The descriptor for a worker's values, and its exit statuses. */
enum { FACT_FD = 3, FACT_FAILED = 1, FACT_SKIPPED = 77 };

/* End the process, because this GPU cannot be tested or something went wrong. */
_Noreturn void fact_end(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define fact_skip(...) fact_end(FACT_SKIPPED, __VA_ARGS__)
#define fact_fail(...) fact_end(FACT_FAILED, __VA_ARGS__)

/* Starts a second process. Call this before the first driver call of this one. The second process
 * dies with this one, and `peer_end` ends it. Returns its pid. */
int peer_start(void (*run)(void));
void peer_end(int pid);
/* Makes zeroed memory that is shared with a peer started later. */
void *peer_memory(size_t bytes);

/* ---- run.c: the process of a fact, as its parent sees it ------------------------------------- */

struct fact_run {
    const struct fact *fact;
    /* In the process: sets up what else it needs and executes a program that calls fact_main. */
    void (*child_exec)(const struct fact_run *run);
    bool (*may_continue)(void); /* called often; false ends the process. NULL: go on */
    const void *user;
    /* The result. */
    json_t *values;     /* with "why" if it was not measured */
    const char *status; /* "measured", "skipped", "failed", "hung" or "interrupted" */
    double seconds;
};

/* Runs until the process has ended, or kills it after `limit_s`. The caller owns the values. */
void fact_run(struct fact_run *run, unsigned int limit_s);
/* Finds the fact with this name among `n`. NULL: there is none. */
const struct fact *fact_find(const struct fact *facts, size_t n, const char *name);
/* Called in the process. Runs the fact and exits. */
_Noreturn void fact_main(const struct fact *fact);

/* The facts, one file per noun. */
void fact_device(void); /* device.c */
void fact_lookup(void); /* lookup.c */
void fact_cost(void);   /* cost.c */
void fact_page(void);   /* page.c */
void fact_page_read_only(void);
void fact_page_replaced(void);
void fact_gate(void);   /* gate.c */
void fact_behind(void); /* behind.c */
void fact_depth(void);
void fact_queue(void); /* queue.c */
void fact_gates(void); /* probe.c */
void fact_yield(void); /* slice.c */
void fact_slice(void);
void fact_short_slice(void);
void fact_across(void);
void fact_suspend(void); /* suspend.c */

#endif
