/*
 * level.c - the level that a client gets.
 */
#include "scheduler/daemon/level.h"

#include "scheduler/daemon/state.h"
#include "scheduler/policy/permission.h"

void level_grant(struct peer *p, uint32_t asked, uint32_t lowest)
{
    p->asked = asked;
    p->asked_lowest = p->flat || lowest > asked ? asked : lowest;
    p->level = p->remote ? asked : permission_level(p->daemon->conf, &p->who, asked);
    p->lowest = p->asked_lowest < p->level ? p->asked_lowest : p->level;
    atomic_store(&p->page->page->level, p->level);
    atomic_store(&p->page->page->lowest, p->lowest);
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
