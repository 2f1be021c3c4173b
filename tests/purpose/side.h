/*
 * side.h - a command with many similar pieces of work starts itself for each of them, several at a
 * time, and reads their results in order. Threads: one.
 */
#ifndef PURPOSE_SIDE_H
#define PURPOSE_SIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIDE_ARGUMENTS = 4 };

struct side {
    uint32_t many, at_once; /* pieces in all; how many run at a time */
    int argc;
    char **argv;
    /* Fills in the arguments for the i-th piece, with a NULL behind the last. They follow the
     * command's own ones and --result FD; to FD the piece writes `size` bytes. */
    void (*work)(uint32_t i, char *args[SIDE_ARGUMENTS]);
    size_t size;
    struct piece *piece; /* side.c uses these */
    uint32_t started, running;
};

/* Waits for the i-th piece; call it for 0, 1, 2 and so on. Others run meanwhile. Prints what the
 * piece has printed. `result` is all zero if the piece wrote none. False: there is no such piece,
 * or it cannot be started. */
bool side_next(struct side *s, uint32_t i, void *result);
/* Pieces that have not begun will not begin. */
void side_stop(struct side *s);

#endif
