/*
 * remote.c - what somebody may order about running clients, in the daemon.
 */
#include "scheduler/daemon/remote.h"

#include <errno.h>
#include <utlist.h>

#include "common/clock.h"
#include "scheduler/daemon/settings.h"
#include "scheduler/daemon/state.h"
#include "scheduler/peers/log.h"
#include "scheduler/policy/permission.h"

/* Lets the client know what the daemon does with it, so that the next daemon can learn it. */
static void tell(struct peer *p, uint32_t kind, uint32_t value)
{
    union message m;

    message_init(&m, MESSAGE_REMOTE);
    m.remote.kind = kind;
    m.remote.value = value;
    peer_send(p, &m, NULL);
}

/* Nobody raises a process above what he himself may have. */
static int set_level(const struct peer *from, struct peer *p, uint32_t value)
{
    bool control = permission_control(from->daemon->conf, &from->who);

    if (!control && permission_level(from->daemon->conf, &from->who, value) != value)
        return -EPERM;
    p->remote = true;
    tell(p, CONTROL_LEVEL, value);
    level_change(p, value);
    return 0;
}

static void write_pause(const struct peer *p, uint32_t slot)
{
    page_write_bit(&p->page->page->device[slot], PAGE_BIT_PAUSED, p->paused ? PAGE_WORDS : 0,
                   PAGE_WORDS, clock_ns());
}

static int set_paused(struct peer *p, bool paused)
{
    if (!p->queues)
        return -EOPNOTSUPP;
    p->paused = paused;
    tell(p, paused ? CONTROL_PAUSE : CONTROL_RESUME, 0);
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        if (p->device[slot].device)
            write_pause(p, slot);
    return 0;
}

/* What has no case here is carried out by the client itself. */
static int carry_out(const struct peer *from, struct peer *p, uint32_t kind, uint32_t value)
{
    switch (kind) {
    case CONTROL_LEVEL:
        return set_level(from, p, value);
    case CONTROL_WEIGHT:
        p->weight = value;
        break;
    case CONTROL_PAUSE:
    case CONTROL_RESUME:
        return set_paused(p, kind == CONTROL_PAUSE);
    default:
        if (!p->queues)
            return -EOPNOTSUPP;
    }
    tell(p, kind, value);
    return 0;
}

static const char *const kind_names[] = {
#define NAME(name, least, most, own) #name,
    CONTROL_KINDS(NAME)
#undef NAME
};

static int run_one(const struct peer *from, struct peer *p, const struct message_control *m)
{
    const struct conf *conf = from->daemon->conf;

    if (!permission_same(conf, &from->who, &p->who) && !permission_control(conf, &from->who))
        return -EPERM;
    log_about(from->unlimited ? NULL : from->user, LOG_INFO, "user %u: %s %u for process %d",
              (unsigned)from->who.uid, kind_names[m->kind], m->value, (int)p->who.pid);
    return carry_out(from, p, m->kind, m->value);
}

int remote_run(struct peer *from, const union message *m, uint32_t *count)
{
    struct peer *p;
    int rc = 0;

    *count = 0;
    DL_FOREACH (from->daemon->peers, p) {
        if (!p->client || p->dead ||
            (m->control.client ? p->id != m->control.client
                               : m->control.pid <= 0 || p->who.pid != m->control.pid))
            continue;
        rc = run_one(from, p, &m->control);
        if (rc != 0)
            return rc;
        ++*count;
    }
    return *count ? 0 : -ESRCH;
}

/* As if its own user had given the orders: more than that user may have is not restored. */
void remote_restore(struct peer *p, const struct message_hello *m)
{
    if (m->remote_level && set_level(p, p, m->remote_level - 1) != 0)
        log_about(p->user, LOG_INFO, "process %d loses level %u, which its user may not have",
                  (int)p->who.pid, m->remote_level - 1);
    if (m->paused)
        set_paused(p, true);
}

void remote_new_device(const struct peer *p, uint32_t slot)
{
    if (p->paused)
        write_pause(p, slot);
}
