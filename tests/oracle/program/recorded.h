/*
 * recorded.h - programs that once failed, kept for ever. They are stored as intents, not as seeds:
 * the generator may change.
 */
#ifndef ORACLE_RECORDED_H
#define ORACLE_RECORDED_H

#include "program.h"

/* Seeds from here on name recorded programs. */
#define RECORDED_SEED (UINT64_C(1) << 63)

unsigned recorded_count(void);
/* What went wrong. */
const char *recorded_name(unsigned i);
enum setting recorded_setting(unsigned i);
void recorded_draw(struct program *p, unsigned i);
/* Prints the intents of `p` that `mask` leaves, as recorded.c wants them. */
void recorded_print(const struct program *p, uint64_t mask, int fd);

#endif
