/*
 * witness.h - has the memory of a page been taken away?
 *
 * A client has to be able to write to its page. So it can also give the page's memory back
 * (fallocate(2) with FALLOC_FL_PUNCH_HOLE, madvise(2) with MADV_REMOVE): no seal forbids that
 * without forbidding to map the page. Whoever holds it takes a page fault then, at every cut-in,
 * which is some hundred times what a cut-in costs.
 *
 * It cannot be hidden. The kernel takes the memory out of all mappings, also out of one that the
 * daemon has of each page, locks and never touches, and so nothing but that can empty it.
 */
#ifndef CUTIN_SCHEDULER_PEERS_WITNESS_H
#define CUTIN_SCHEDULER_PEERS_WITNESS_H

#include <stdbool.h>

#define WITNESS_LOOK_MS 100

/* A witness for the page behind `fd`, before anybody else has it. NULL: none can be had (no more
 * memory may be locked). */
void *witness_new(int fd);
void witness_free(void *witness);
/* True for NULL, and where the kernel does not tell. */
bool witness_intact(const void *witness);

#endif
