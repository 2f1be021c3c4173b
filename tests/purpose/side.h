/*
 * side.h - a command that has much of the same to do starts itself for each piece of it, so many at
 * once, and reads what came of each in turn. Threads: one.
 */
#ifndef PURPOSE_SIDE_H
#define PURPOSE_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIDE_ARGUMENTS = 4 };

struct side {
    uint32_t many, at_once; /* pieces */
    int argc;
    char **argv;
    /* What the command is given for the i-th, up to a NULL, behind its own arguments and
     * --result FD: there it writes `size` bytes. */
    void (*work)(uint32_t i, char *args[SIDE_ARGUMENTS]);
    size_t size;
    struct piece *piece; /* side.c's, from here on */
    uint32_t started, running;
};

/* Waits for the i-th, from 0 on one after another; others begin meanwhile. What it printed is
 * printed. `result`: zero bytes if it wrote none. False: there is no such, or it cannot be
 * started. */
bool side_next(struct side *s, uint32_t i, void *result);
/* Those that have not begun will not. */
void side_stop(struct side *s);

#endif
