/*
 * site.h - what the site says about cutin, as arguments of the plugin in plugstack.conf.
 */
#ifndef CUTIN_SCHEDULER_SLURM_SITE_H
#define CUTIN_SCHEDULER_SLURM_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SITE_RULES = 64, SITE_PATH = 128, SITE_NAME = 64 };

/* Jobs of that partition or QOS have that level if they name none. */
struct site_rule {
    enum site_kind { SITE_PARTITION, SITE_QOS } kind;
    char name[SITE_NAME];
    int level;
};

struct site {
    char library[SITE_PATH], socket[SITE_PATH], jobs[SITE_PATH];
    bool comment;
    int level; /* if no rule gives another one */
    struct site_rule rule[SITE_RULES];
    uint32_t rules;
};

/* Reads the arguments; `why` explains the first mistake. Returns 0 or -EINVAL. */
int site_parse(struct site *site, int argc, char *const argv[], char *why, size_t size);
/* The level of a job that names none: by its QOS, else its partition, else the site's. NULL: not
 * known. */
int site_level(const struct site *site, const char *partition, const char *qos);

/* ---- requests ------------------------------------------------------------------------------
 *
 * What a step of a Slurm job asks of cutin: by srun's options or, if they name nothing, by what the
 * site says. This is only a request: the daemon decides which level is granted. */
/* 0 to 3 are levels. */
enum { REQUEST_NONE = -1, REQUEST_OFF = -2 };

/* "be", "1", "2", "rt" or "off". Returns REQUEST_OFF, a level, or -EINVAL. */
int request_level(const char *word);
/* The word for a level; "" for REQUEST_NONE. */
const char *request_level_name(int level);
/* A job's comment with the word `cutin=LEVEL` in it once and the rest as it was, or without such a
 * word if no level is requested. */
void request_comment(int level, const char *comment, char *out, size_t size);

#endif
