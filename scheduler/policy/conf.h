/*
 * conf.h - cutind.conf: what the daemon's administrator decides.
 *
 * An INI file; one setting is one row of a table in conf.c. A file with a mistake in any line is
 * not used at all: the first mistake is reported with its place, and nothing takes effect.
 */
#ifndef CUTIN_SCHEDULER_POLICY_CONF_H
#define CUTIN_SCHEDULER_POLICY_CONF_H

#include <stdio.h>

#include "scheduler/policy/policy.h"
#include "scheduler/policy/rule.h"
#include "scheduler/wire/page.h"

struct conf {
    char path[256]; /* the file that was read or, without one, where it would be */
    bool loaded;
    uid_t owner; /* the user that this daemon runs as */
    struct rules allow[PAGE_LEVELS], control;
    struct rules contained; /* cgroups whose processes are judged only by their cgroup */
    uint32_t socket_mode;
    bool socket_group_given;
    gid_t socket_group;
    /* Users who may control others have no limits. */
    uint32_t connections_per_user, clients_per_user, clients_per_device;
    uint32_t min_share_percent; /* of the GPU's time, for best effort */
    const struct policy *policy;
    uint32_t hold_warning_s; /* 0 = none */
    char metrics[128];       /* "" = not served */
    char jobs[128];          /* the folder of job.h */
    uint32_t log;            /* severity, as CUTIN_LOG */
};

/* The values without a file. `owner` decides the socket's mode and where a file is looked for. */
void conf_default(struct conf *conf, uid_t owner);
/* Reads `path`, or with NULL the first file found at the default places (none is fine). On an error
 * *conf is as it was, and `why` is one line "FILE:LINE: ...". Returns 0 or -errno. */
int conf_load(struct conf *conf, const char *path, char *why, size_t why_size);
/* The same from an open stream called `name`. With `check_cgroups` rules about cgroups, above all
 * `contained`, are refused if this process cannot tell the cgroups of others. */
int conf_parse(struct conf *conf, FILE *in, const char *name, bool check_cgroups, char *why,
               size_t why_size);
void conf_clear(struct conf *conf);

/* ---- permission.c -----------------------------------------------------------------------------
 *
 * What a subject may do at the daemon: its owner and root everything, others what a rule of
 * cutind.conf allows. */
/* The cgroup of a contained subject, whose user id counts for nothing, as /proc/PID/cgroup has it;
 * "": not known; NULL: it is not contained. It lives as long as `who`. */
const char *permission_cgroup(const struct conf *conf, const struct subject *who);
/* Whether it may change what concerns others: the owner, root, and what `control` allows. */
bool permission_control(const struct conf *conf, const struct subject *who);
/* Whether both belong to one user and, if contained, to one cgroup: what one may do to the other
 * needs no `control`. */
bool permission_same(const struct conf *conf, const struct subject *a, const struct subject *b);
/* The highest level up to `asked` that this subject may have. */
uint32_t permission_level(const struct conf *conf, const struct subject *who, uint32_t asked);
/* Says why `asked` was not granted, and which line of which file would grant it. */
void permission_explain(const struct conf *conf, const struct subject *who, uint32_t asked,
                        char *out, size_t size);

/* ---- metrics_address.c: where metrics may be: nowhere that another machine can reach ------- */

/* Checks for "127.0.0.1:PORT", "[::1]:PORT" or "unix:/PATH". Returns 0, or -EINVAL and why not. */
int metrics_check(const char *address, char *why, size_t why_size);
/* A listening, non-blocking socket there, or -errno and why. */
int metrics_listen(const char *address, char *why, size_t why_size);
/* The inode of the file to which a UNIX socket's path leads now; 0: none, or it is a port. */
ino_t metrics_inode(const char *address);
/* Removes that file. */
void metrics_unlisten(const char *address);

#endif
