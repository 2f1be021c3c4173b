/*
 * conf.h - cutind.conf: what the daemon's administrator decides.
 *
 * An INI file; one setting is one row of a table in conf.c. A file that is wrong in any line is not
 * used at all: the first mistake is explained with its place, and nothing of it takes effect.
 */
#ifndef CUTIN_SCHEDULER_POLICY_CONF_H
#define CUTIN_SCHEDULER_POLICY_CONF_H

#include <stdio.h>

#include "scheduler/policy/policy.h"
#include "scheduler/policy/rule.h"
#include "scheduler/wire/page.h"

#define CONF_PATH_MAX 256u

struct conf {
    char path[CONF_PATH_MAX]; /* the file that was read, or, if none was, where one would be */
    bool loaded;
    uid_t owner; /* whose daemon this is */
    struct rules allow[PAGE_LEVELS], control;
    struct rules contained; /* cgroups whose processes are judged by their cgroup alone */
    uint32_t socket_mode;
    bool socket_group_given;
    gid_t socket_group;
    /* Users who control others have no limit. */
    uint32_t connections_per_user, clients_per_user, clients_per_device;
    uint32_t min_share_percent; /* of the GPU's time, for best effort */
    const struct policy *policy;
    uint32_t hold_warning_s; /* 0 = none */
    char metrics[128];       /* "" = not served */
    char jobs[128];          /* the folder of job.h */
    uint32_t log;            /* severity, as CUTIN_LOG */
};

/* As without any file. `root` decides the mode of the socket and where a file is looked for. */
void conf_default(struct conf *conf, uid_t owner);
/* Reads `path`, or with NULL the first file found at the default places (none is fine). On an error
 * *conf is as it was, and `why` is one line "FILE:LINE: ...". Returns 0 or -errno. */
int conf_load(struct conf *conf, const char *path, char *why, size_t why_size);
/* The same from an open stream called `name`; for conf_load and the fuzzer. */
int conf_parse(struct conf *conf, FILE *in, const char *name, char *why, size_t why_size);
void conf_clear(struct conf *conf);

#endif
