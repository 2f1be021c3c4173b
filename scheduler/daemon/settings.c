/*
 * settings.c - what clients get of cutind.conf, and changes for all while the daemon runs.
 */
#include "scheduler/daemon/daemon.h"

#include <utlist.h>

#include "common/level.h"
#include "common/printable.h"
#include "scheduler/peers/log.h"
#include "scheduler/peers/look.h"
#include "scheduler/policy/permission.h"

void level_grant(struct peer *p, uint32_t asked, uint32_t lowest)
{
    p->asked = asked;
    p->asked_lowest = p->flat || lowest > asked ? asked : lowest;
    p->level = p->remote ? asked : permission_level(p->daemon->conf, &p->who, asked);
    p->lowest = p->asked_lowest < p->level ? p->asked_lowest : p->level;
    atomic_store(&p->page->page->level, p->level);
    atomic_store(&p->page->page->lowest, p->lowest);
    /* So that it can be told later who was above best effort, and who wanted to be. Names are left
     * out: they are the clients' own. */
    struct user *user = p->unlimited ? NULL : p->user;
    char reason[PROTOCOL_TEXT];

    if (p->level < p->asked) {
        p->daemon->refused[REFUSED_LEVEL]++;
        permission_explain(p->daemon->conf, &p->who, p->asked, reason, sizeof(reason));
        log_about(user, LOG_INFO, "process %d of user %u runs at level %s: %s", (int)p->who.pid,
                  (unsigned)p->who.uid, level_name(p->level), printable(reason));
    } else if (p->level > 0) {
        log_about(user, LOG_INFO, "process %d of user %u runs at level %s%s%s", (int)p->who.pid,
                  (unsigned)p->who.uid, level_name(p->level),
                  p->who.job.account[0] ? ", account " : "", p->who.job.account);
    }
}

void level_change(struct peer *p, uint32_t asked)
{
    union message reply;

    level_grant(p, asked, p->asked_lowest);
    message_init(&reply, MESSAGE_LEVEL);
    reply.level.level = p->level;
    reply.level.refused = p->level < p->asked;
    if (reply.level.refused)
        permission_explain(p->daemon->conf, &p->who, p->asked, reply.level.reason,
                           sizeof(reply.level.reason));
    peer_send(p, &reply, NULL);
    topology_update(p->daemon->topology, p->daemon->peers, p);
}

void settings_set_policy(struct daemon *d, const struct policy *policy)
{
    if (policy == d->policy)
        return;
    d->policy = policy;
    policy_tick_reset(d->peers);
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
    settings_set_policy(d, d->conf->policy);
    log_line(LOG_INFO, "configuration: %s", d->conf->loaded ? d->conf->path : "defaults");
    DL_FOREACH (d->peers, p) {
        p->unlimited = permission_control(d->conf, &p->who);
        if (p->client && !p->dead && !p->remote &&
            permission_level(d->conf, &p->who, p->asked) != p->level)
            level_change(p, p->asked);
    }
}
