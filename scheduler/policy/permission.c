/* permission.c - see conf.h. */
#include "scheduler/policy/conf.h"

#include <limits.h>
#include <string.h>

#include "common/level.h"

/* `contained` says who is judged by its cgroup alone: its user ids count for nothing. A subject
 * whose cgroup is not known could be in any, and so counts as contained. */
const char *permission_cgroup(const struct conf *conf, const struct subject *who)
{
    if (!conf->contained.count || (who->cgroups && !rules_match(&conf->contained, who, true)))
        return NULL;
    return who->cgroups ? who->cgroups : "";
}

bool permission_same(const struct conf *conf, const struct subject *a, const struct subject *b)
{
    if (a->uid != b->uid || a->uid == ID_UNKNOWN)
        return false;
    if (!permission_cgroup(conf, a) && !permission_cgroup(conf, b))
        return true;
    return a->cgroups && b->cgroups && strcmp(a->cgroups, b->cgroups) == 0;
}

static bool trusted(const struct conf *conf, const struct subject *who)
{
    return (who->uid == conf->owner || who->uid == 0) && !permission_cgroup(conf, who);
}

bool permission_control(const struct conf *conf, const struct subject *who)
{
    return trusted(conf, who) || rules_match(&conf->control, who, permission_cgroup(conf, who));
}

uint32_t permission_level(const struct conf *conf, const struct subject *who, uint32_t asked)
{
    bool contained = permission_cgroup(conf, who);
    uint32_t highest = PAGE_LEVELS - 1;

    if (trusted(conf, who))
        return asked;
    /* A rule for a level allows those below it, too. */
    while (highest > 0 && !rules_match(&conf->allow[highest], who, contained))
        highest--;
    return asked < highest ? asked : highest;
}

void permission_explain(const struct conf *conf, const struct subject *who, uint32_t asked,
                        char *out, size_t size)
{
    const char *level = level_name(asked), *lines = who->cgroups, *path, *longest = "/PATH";
    char name[JOB_ACCOUNT + 64], rule[PATH_MAX + 8];
    size_t length, most = 1;

    if (permission_cgroup(conf, who) && !who->cgroups) {
        snprintf(out, size,
                 "no rule can give process %d level %s: %s has `contained`, and cutind cannot find "
                 "the cgroup of that process, which may be in another PID namespace",
                 (int)who->pid, level, conf->path);
        return;
    }
    if (permission_cgroup(conf, who)) {
        /* Of several hierarchies the one with the longest path. */
        while ((path = cgroups_next(&lines, &length)))
            if (length > most) {
                longest = path;
                most = length;
            }
        if (most == 1)
            most = strlen(longest);
        snprintf(name, sizeof(name), "the cgroup of process %d", (int)who->pid);
        snprintf(rule, sizeof(rule), "cgroup:%.*s", (int)most, longest);
    } else if (who->job.account[0]) {
        snprintf(name, sizeof(name), "account %s or user %u", who->job.account, (unsigned)who->uid);
        snprintf(rule, sizeof(rule), "account:%s", who->job.account);
    } else if (who->uid == ID_UNKNOWN) {
        snprintf(name, sizeof(name), "users outside cutind's user namespace");
        snprintf(rule, sizeof(rule), "everybody");
    } else {
        /* Not by name: the name may be known only to a server that does not answer, and the daemon
         * would wait. */
        snprintf(name, sizeof(name), "user %u", (unsigned)who->uid);
        snprintf(rule, sizeof(rule), "uid:%u", (unsigned)who->uid);
    }
    snprintf(out, size, "no rule gives %s level %s; allow it with `%s = %s` under [allow] in %s",
             name, level, level, rule, conf->path);
}
