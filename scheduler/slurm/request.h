/*
 * request.h - what a step of a Slurm job asks of cutin: by srun's options, or by what the site says
 * where they say nothing. It is no more than that: the daemon decides which level is granted.
 */
#ifndef CUTIN_SCHEDULER_SLURM_REQUEST_H
#define CUTIN_SCHEDULER_SLURM_REQUEST_H

#include <stddef.h>
#include <stdint.h>

/* 0 to 3 are levels. */
enum { REQUEST_NONE = -1, REQUEST_OFF = -2 };

struct request {
    int level;
    uint32_t weight, budget_us; /* 0: not said */
};

/* "be", "1", "2", "rt" or "off". Returns REQUEST_OFF, a level, or -EINVAL. */
int request_level(const char *word);
/* The same word again; "" for REQUEST_NONE. */
const char *request_level_name(int level);
/* A number from 1 to `most`. Returns 0 or -EINVAL. */
int request_number(const char *text, uint32_t most, uint32_t *number);
/* A job's comment with the word `cutin=LEVEL` in it, once, and the rest as it was; without such a
 * word where no level is requested. */
void request_comment(int level, const char *comment, char *out, size_t size);

#endif
