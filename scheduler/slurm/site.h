/*
 * site.h - what the site says about cutin, as arguments of the plugin in plugstack.conf.
 */
#ifndef CUTIN_SCHEDULER_SLURM_SITE_H
#define CUTIN_SCHEDULER_SLURM_SITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SITE_RULES = 64, SITE_PATH = 128, SITE_NAME = 64 };

/* Jobs of that partition or QOS have that level where they do not say. */
struct site_rule {
    enum site_kind { SITE_PARTITION, SITE_QOS } kind;
    char name[SITE_NAME];
    int level;
};

struct site {
    char library[SITE_PATH], socket[SITE_PATH], jobs[SITE_PATH];
    bool comment;
    int level; /* where no rule says another one */
    struct site_rule rule[SITE_RULES];
    uint32_t rules;
};

/* Reads the arguments; `why` explains the first mistake. Returns 0 or -EINVAL. */
int site_parse(struct site *site, int argc, char *const argv[], char *why, size_t size);
/* The level of a job that says none: by its QOS, else its partition, else the site's. NULL: not
 * known. */
int site_level(const struct site *site, const char *partition, const char *qos);

#endif
