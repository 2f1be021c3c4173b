/*
 * outcome.h - a program runs to its end, and what can be seen of it from outside then: how it
 * ended, what it printed, which files it left in its working folder, what it had open, which
 * children it left to others.
 */
#ifndef TESTS_HAZARDS_COMPARE_OUTCOME_H
#define TESTS_HAZARDS_COMPARE_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

enum { TEXT = 1 << 16, NAMES = 1 << 12 };

struct outcome {
    int status; /* of waitpid; -1: it took too long */
    uint64_t ms;
    char out[TEXT], err[TEXT];
    char files[NAMES];       /* a name and a size each line */
    char descriptors[NAMES]; /* a number and a kind each line; "": it was gone too soon */
    int children;            /* for which it did not wait */
    int running;             /* of these, which had to be ended */
};

/* `enter` becomes the program, in the empty folder `folder`. */
void outcome_of(struct outcome *r, const char *folder, void (*enter)(const void *arg),
                const void *arg);
/* Ends and forgets the children of others that the calling process has been given. */
void outcome_orphans_end(void);
/* What differs, in words; "" for nothing. */
void outcome_difference(const struct outcome *a, const struct outcome *b, char *text, int size);

#endif
