/*
 * recorded.h - programs that once failed. They are kept for ever, as intents and not as seeds,
 * because the generator may change.
 */
#ifndef ORACLE_RECORDED_H
#define ORACLE_RECORDED_H

#include "program.h"

/* Seeds from this one on mean recorded programs. */
#define RECORDED_SEED (UINT64_C(1) << 63)

unsigned recorded_count(void);
/* What went wrong with it. */
const char *recorded_name(unsigned i);
enum setting recorded_setting(unsigned i);
void recorded_draw(struct program *p, unsigned i);
/* Prints the intents of `p` that `mask` leaves, in the form of recorded.c. */
void recorded_print(const struct program *p, uint64_t mask, int fd);

#endif
