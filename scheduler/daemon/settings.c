/*
 * settings.c - what changes for all while the daemon runs.
 */
#include "scheduler/daemon/settings.h"

#include <utlist.h>

#include "scheduler/daemon/level.h"
#include "scheduler/daemon/state.h"
#include "scheduler/peers/log.h"
#include "scheduler/peers/round.h"
#include "scheduler/policy/permission.h"

void settings_set_policy(struct daemon *d, const struct policy *policy)
{
    if (policy == d->policy)
        return;
    d->policy = policy;
    round_reset(d->peers);
    log_line(LOG_INFO, "policy %s: %s", policy->name, policy->help);
}

void settings_reload(struct daemon *d)
{
    struct peer *p;
    char why[512];

    if (conf_load(d->conf, d->conf_path, why, sizeof(why)) != 0) {
        log_line(LOG_ERROR, "%s; keeping the previous configuration", why);
        return;
    }
    log_set_level(d->conf->log);
    settings_set_policy(d, policy_at(d->conf->policy));
    log_line(LOG_INFO, "configuration: %s", d->conf->loaded ? d->conf->path : "defaults");
    DL_FOREACH (d->peers, p)
        if (p->client && !p->dead && !p->remote &&
            permission_level(d->conf, &p->who, p->asked) != p->level)
            level_change(p, p->asked);
}
