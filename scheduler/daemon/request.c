/*
 * request.c - what clients and commands ask of the daemon.
 */
#include <errno.h>
#include <string.h>

#include "scheduler/daemon/limit.h"
#include "scheduler/daemon/list.h"
#include "scheduler/daemon/remote.h"
#include "scheduler/daemon/settings.h"
#include "scheduler/daemon/state.h"
#include "scheduler/policy/permission.h"
#include "common/clock.h"

static void welcome(struct peer *p)
{
    const struct conf *conf = p->daemon->conf;
    union message reply;

    message_init(&reply, MESSAGE_WELCOME);
    reply.welcome.client = p->id;
    reply.welcome.level = p->level;
    reply.welcome.refused = p->level < p->asked;
    reply.welcome.share_percent = conf->min_share_percent;
    if (reply.welcome.refused)
        permission_explain(conf, &p->who, p->asked, reply.welcome.reason,
                           sizeof(reply.welcome.reason));
    peer_send(p, &reply, p->page);
}

static int on_hello(struct peer *p, const union message *m)
{
    int rc;

    if (p->client)
        return -EPROTO;
    if (limit_client(p))
        return -EUSERS;
    p->id = ++p->daemon->next_id;
    memcpy(p->name, m->hello.name, sizeof(p->name));
    rc = peer_make_page(p);
    if (rc != 0)
        return rc;
    p->client = true;
    p->user->clients++;
    p->client_since_ns = clock_ns();
    p->flat = m->hello.flat;
    p->bounded = m->hello.bounded || p->daemon->conf->min_share_percent;
    p->weight = m->hello.weight ? m->hello.weight : 1;
    level_grant(p, m->hello.level, m->hello.lowest);
    p->deadline_ms = m->hello.deadline_ms;
    p->queues = p->lowest < PAGE_LEVELS - 1 || p->deadline_ms;
    topology_expect(p->daemon->peers, p, p->client_since_ns);
    welcome(p);
    remote_restore(p, &m->hello);
    return 0;
}

static int on_device(struct peer *p, const union message *m)
{
    int rc;

    if (!p->client)
        return -EPROTO;
    rc = topology_device(p->daemon->topology, p, m->device.slot, m->device.uuid);
    if (rc != 0)
        return rc;
    remote_new_device(p, m->device.slot);
    limit_device(p, m->device.slot, clock_ns());
    topology_update(p->daemon->topology, p->daemon->peers, p);
    if (p->device[m->device.slot].told || p->turned_away)
        topology_settle(p);
    return 0;
}

/* The owner's bits now stand in the page that joined. */
static int on_joined(struct peer *p, const union message *m)
{
    return p->client ? topology_joined(p->daemon->topology, p->daemon->peers, p, m->joined.client)
                     : -EPROTO;
}

static int on_bit(struct peer *p, const union message *m)
{
    return p->client ? topology_returned(p->daemon->topology, p->daemon->peers, p, m->bit.slot)
                     : -EPROTO;
}

static int on_list(struct peer *p, const union message *m)
{
    list_begin(p, p->daemon->peers);
    return 0;
}

static int on_control(struct peer *p, const union message *m)
{
    uint32_t count;
    int rc = remote_run(p, m, &count);

    limit_charge(p, count * (1 + p->daemon->count / 16));
    peer_send_done(p, rc, count);
    return 0;
}

static int on_policy(struct peer *p, const union message *m)
{
    const struct policy *policy = policy_find(m->policy.name);
    union message reply;

    if (m->policy.name[0] && !permission_control(p->daemon->conf, &p->who)) {
        peer_send_done(p, -EPERM, 0);
        return 0;
    }
    if (m->policy.name[0] && !policy) {
        peer_send_done(p, -ENOENT, 0);
        return 0;
    }
    if (policy)
        settings_set_policy(p->daemon, policy);
    message_init(&reply, MESSAGE_POLICY);
    memcpy(reply.policy.name, p->daemon->policy->name, strlen(p->daemon->policy->name));
    peer_send(p, &reply, NULL);
    return 0;
}

static int on_stop(struct peer *p, const union message *m)
{
    bool may = permission_control(p->daemon->conf, &p->who);

    peer_send_done(p, may ? 0 : -EPERM, 0);
    p->daemon->stop |= may;
    return 0;
}

static int (*const handlers[MESSAGE_TYPES])(struct peer *p, const union message *m) = {
    [MESSAGE_HELLO] = on_hello,   [MESSAGE_BIT] = on_bit,   [MESSAGE_DEVICE] = on_device,
    [MESSAGE_JOINED] = on_joined, [MESSAGE_LIST] = on_list, [MESSAGE_CONTROL] = on_control,
    [MESSAGE_POLICY] = on_policy, [MESSAGE_STOP] = on_stop,
};

/* As many messages as it costs: each walks all clients, or answers so many. */
static uint32_t cost(const struct peer *p, const union message *m)
{
    switch (m->header.type) {
    case MESSAGE_LIST:
        return 1 + p->daemon->count;
    case MESSAGE_HELLO:
    case MESSAGE_DEVICE:
        return 1 + p->daemon->count / 16;
    case MESSAGE_JOINED:
    case MESSAGE_BIT: /* what we have asked for */
        return 0;
    default:
        return 1;
    }
}

int request_run(struct peer *p, const union message *m)
{
    limit_charge(p, cost(p, m));
    return handlers[m->header.type](p, m);
}
