/*
 * rule.h - a rule of cutind.conf, and the subjects that it is about.
 *
 * A subject is what the kernel says about the other end of a socket, and what root says about its
 * job; never what a client says.
 */
#ifndef CUTIN_SCHEDULER_POLICY_RULE_H
#define CUTIN_SCHEDULER_POLICY_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/policy/job.h"

#define ID_UNKNOWN UINT32_MAX /* no rule names it */

struct subject {
    uid_t uid; /* ID_UNKNOWN: not of the daemon's user namespace; groups may be so, too */
    gid_t gid;
    pid_t pid;
    int process;   /* a pidfd: tells its end, even if its socket was inherited; -1: unknown */
    gid_t *groups; /* supplementary */
    uint32_t group_count;
    char *cgroups;  /* as in /proc/PID/cgroup; NULL: not known */
    struct job job; /* the job that it belongs to */
};

/* Reads the subject from a connected socket, as it is now and without a job. Returns 0 or
 * -errno. */
int subject_of_socket(struct subject *who, int socket);
/* Frees what it has; it is not to be used again. */
void subject_clear(struct subject *who);
/* What /proc/PID/cgroup says; NULL if it cannot be read or compared with rules. */
char *cgroups_read(const char *file);
/* The path in the next line "ID:CONTROLLERS:PATH", and its length: 0 if the line has none. NULL:
 * there are no more lines, or `*lines` is NULL. */
const char *cgroups_next(const char **lines, size_t *length);
/* Whether this process can tell the cgroups of others. Returns 0, or -ENOTSUP and why not. */
int cgroups_check(char *why, size_t why_size);
/* The id; ID_UNKNOWN if it stands for all ids that a user namespace of this map
 * (/proc/self/uid_map) lacks. */
uint32_t id_known(uint32_t id, const char *map);

/* One rule: everybody, a range of user ids, a group, the processes of a cgroup, or the account of a
 * batch job. */
struct rule {
    enum rule_kind { RULE_EVERYBODY, RULE_USERS, RULE_GROUP, RULE_CGROUP, RULE_ACCOUNT } kind;
    uint64_t first, last; /* ids; a group has one */
    char *path;           /* of a cgroup: a pattern, which also covers what is below */
    char account[JOB_ACCOUNT];
};

struct rules {
    struct rule *rule;
    uint32_t count;
};

#define RULE_WORD 256u /* most bytes of a rule's text, terminator included */

/* Adds "user:NAME", "uid:N", "uid:N-M", "group:NAME", "gid:N", "cgroup:/PATH", "account:NAME" or
 * "everybody". Returns 0, -EINVAL (not of that form), -ENOENT (no such user or group) or
 * -ENOMEM. */
int rules_add(struct rules *list, const char *text);
void rules_clear(struct rules *list);
/* With `cgroup_alone`, only the rules about cgroups count. */
bool rules_match(const struct rules *list, const struct subject *who, bool cgroup_alone);

#endif
