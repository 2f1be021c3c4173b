/*
 * outcome.h - runs a program to its end and records what can be seen of it from outside: how it
 * ended, what it printed, which files it left in its working folder, what it had open, which
 * children it left behind.
 */
#ifndef TESTS_HAZARDS_COMPARE_OUTCOME_H
#define TESTS_HAZARDS_COMPARE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

enum { TEXT = 1 << 16, NAMES = 1 << 12 };

struct outcome {
    int status; /* of waitpid; -1: the program took too long */
    uint64_t ms;
    char out[TEXT], err[TEXT];
    char files[NAMES];       /* lines of a name and a size */
    char descriptors[NAMES]; /* lines of a number and a kind; "": the program was gone too soon */
    int children;            /* that it did not wait for */
    int running;             /* of those, the ones that had to be killed */
};

/* Runs `enter`, which executes the program, in the empty folder `folder`. */
void outcome_of(struct outcome *r, const char *folder, void (*enter)(const void *arg),
                const void *arg);
/* Kills and reaps the orphans that have become children of the calling process. */
void outcome_orphans_end(void);
/* Writes what differs in words; "" if nothing does. */
void outcome_difference(const struct outcome *a, const struct outcome *b, char *text, int size);

#endif
