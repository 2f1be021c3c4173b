/*
 * permission.c - who may do what at the daemon.
 */
#include "scheduler/policy/permission.h"

#include <stdio.h>

static bool trusted(const struct conf *conf, const struct subject *who)
{
    return who->uid == conf->owner || who->uid == 0;
}

bool permission_control(const struct conf *conf, const struct subject *who)
{
    return trusted(conf, who) || rules_match(&conf->control, who);
}

uint32_t permission_level(const struct conf *conf, const struct subject *who, uint32_t asked)
{
    uint32_t highest = PAGE_LEVELS - 1;

    if (trusted(conf, who))
        return asked;
    /* A rule for a level allows those below it, too. */
    while (highest > 0 && !rules_match(&conf->allow[highest], who))
        highest--;
    return asked < highest ? asked : highest;
}

bool permission_named(const struct conf *conf, const struct subject *who)
{
    return permission_control(conf, who) || permission_level(conf, who, PAGE_LEVELS - 1) > 0;
}

void permission_explain(const struct conf *conf, const struct subject *who, uint32_t asked,
                        char *out, size_t size)
{
    if (who->job.account[0]) {
        snprintf(out, size,
                 "no rule gives account %s or user %u level %s; allow it with `%s = account:%s` "
                 "under [allow] in %s",
                 who->job.account, (unsigned)who->uid, conf_level_name(asked),
                 conf_level_name(asked), who->job.account, conf->path);
        return;
    }
    /* Not by name: who knows it may be a server that does not answer, and the daemon would wait. */
    snprintf(out, size,
             "no rule gives user %u level %s; allow it with `%s = uid:%u` under [allow] in %s",
             (unsigned)who->uid, conf_level_name(asked), conf_level_name(asked), (unsigned)who->uid,
             conf->path);
}
