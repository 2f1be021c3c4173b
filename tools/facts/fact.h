/*
 * fact.h - one thing that cutin's design assumes about a GPU and its driver, and how it is looked
 * at.
 *
 * A fact is a row of a table (main.c; `cutin doctor` has another) and a function that runs in a
 * process of its own, because what a driver does behind a closed gate may well be to hang: the
 * parent watches, and kills what takes longer than the row's limit. Values are sent as they are
 * found, so a fact that hangs keeps those it had.
 */
#ifndef CUTIN_TOOLS_FACTS_FACT_H
#define CUTIN_TOOLS_FACTS_FACT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/cutin/nap.h"

/* What a bound on the time of a fact is multiplied by. */
#ifdef __SANITIZE_THREAD__
#define FACT_SLOWER 10
#else
#define FACT_SLOWER 1
#endif

struct fact {
    const char *name;
    const char *question;
    const char *assumed;  /* what docs/design.md builds on; NULL: nothing, figures are wanted */
    unsigned int limit_s; /* then it counts as hung */
    const char *env;      /* "NAME=value" for the process, or NULL */
    void (*run)(void);
};

/* Fewer samples. */
extern bool fact_quick;

/* A value of the running fact. Keys end in their unit: _ns, _us, _ms. `fact_value` takes the
 * reference. Not thread safe. */
void fact_value(const char *key, json_t *value);
void fact_number(const char *key, double value);
void fact_flag(const char *key, bool value);
void fact_text(const char *key, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Sorts `ns`; the value is {"min", "p50", "p90", "p99", "max", "n"} in microseconds. */
void fact_samples(const char *key, uint64_t *ns, size_t n);

/* Where a worker's values go, and how it ends. */
enum { FACT_FD = 3, FACT_FAILED = 1, FACT_SKIPPED = 77 };

/* End the process: this GPU cannot be asked, or something went wrong. */
_Noreturn void fact_end(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define fact_skip(...) fact_end(FACT_SKIPPED, __VA_ARGS__)
#define fact_fail(...) fact_end(FACT_FAILED, __VA_ARGS__)

/* A second process, to be started before the first driver call of this one; it dies with this one
 * and is ended by `peer_end`. Returns its pid. */
int peer_start(void (*run)(void));
void peer_end(int pid);
/* Zeroed memory that a peer started later shares. */
void *peer_memory(size_t bytes);

/* ---- run.c: the process of a fact, as its parent sees it ------------------------------------- */

struct fact_run {
    const struct fact *fact;
    /* In the process: sets what else it needs and executes a program that calls fact_main. */
    void (*become)(const struct fact_run *run);
    bool (*go_on)(void); /* asked often; false ends the process. NULL: go on */
    const void *user;
    /* What came of it. */
    json_t *values;     /* with "why" where it was not measured */
    const char *status; /* "measured", "skipped", "failed", "hung" or "interrupted" */
    double seconds;
};

/* Until the process has ended, or been killed after `limit_s`. The values are the caller's. */
void fact_run(struct fact_run *run, unsigned int limit_s);
/* The fact of that name, of `n`; NULL: none is called so. */
const struct fact *fact_find(const struct fact *facts, size_t n, const char *name);
/* The process: runs the fact and ends. */
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
void fact_yield(void); /* turn.c */
void fact_slice(void);
void fact_short_slice(void);
void fact_across(void);
void fact_suspend(void); /* suspend.c */

#endif
