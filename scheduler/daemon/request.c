/*
 * request.c - what clients and commands ask of the daemon, and what they may order about running
 * clients: level, weight, budget, depth, pause, resume, reset.
 */
#include <string.h>

#include "scheduler/daemon/daemon.h"
#include "scheduler/peers/scan.h"
#include "common/level.h"
#include "common/text.h"

/* ---- the answer to LIST: a row for each client -------------------------------------------------
 *
 * A row has some kilobytes, and any user may ask. So rows are made as the socket takes them, and a
 * peer that does not take them is not read any more. */

static void row_device(struct message_row_device *row, struct peer_device *at, uint64_t now)
{
    const struct page_device *device = device_page(at);
    struct hold hold = hold_read(at, now);

    memcpy(row->uuid, at->device->uuid, sizeof(row->uuid));
    row->active = atomic_load_explicit(&device->active, memory_order_relaxed);
    row->bit = at->bit;
    row->held_for_ns = hold.bits ? hold.ns : 0;
    memcpy(row->io_kernel, device->io_kernel, sizeof(row->io_kernel) - 1);
    for (uint32_t l = 0; l < PAGE_LEVELS; l++)
        row->held[l] =
            atomic_load_explicit(&device->hold[at->peer->flat ? 0 : l], memory_order_relaxed);
#define COPY(field, help) row->field = figure_read_clamped(&device->counters.field);
    PAGE_COUNTERS(COPY)
#undef COPY
    row->gpu_ns = usage_ns(at);
}

static void send_row(struct peer *to, struct peer *p, uint64_t now)
{
    const struct cutin_page *page = p->page->page;
    uint64_t beat = figure_read(&page->heartbeat_ns), since = figure_read(&page->counted_since_ns);
    union message m;

    message_init(&m, MESSAGE_ROW);
    m.row.client = p->id;
    m.row.pid = p->who.pid;
    m.row.uid = p->who.uid;
    m.row.asked = p->asked;
    m.row.level = p->level;
    m.row.lowest = p->lowest;
    m.row.above = p->above;
    m.row.below = p->below;
    m.row.heartbeat_age_ms = beat && beat < now ? (now - beat) / NS_PER_MS : 0;
    m.row.weight = p->weight;
    m.row.state = (p->paused ? ROW_PAUSED : 0) | (p->stopped ? ROW_STOPPED : 0) |
                  (p->queues ? ROW_QUEUES : 0) |
                  (atomic_load_explicit(&page->stuck, memory_order_relaxed) ? ROW_STUCK : 0);
    /* Counters are older than the connection if there was another daemon before, or none. */
    m.row.age_ms =
        (now - (since && since < p->client_since_ns ? since : p->client_since_ns)) / NS_PER_MS;
    memcpy(m.row.name, p->name, sizeof(m.row.name));
    PEER_SLOTS (p, at)
        row_device(&m.row.device[m.row.devices++], at, now);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
#define COPY(field, help)                                                                          \
    m.row.field##_times[i] = atomic_load_explicit(&page->times.field[i], memory_order_relaxed);
        PAGE_TIMES(COPY)
#undef COPY
    }
    peer_send(to, &m, NULL);
}

void list_continue(struct peer *p)
{
    uint64_t now = clock_ns();

    peer_flush(p);
    while (p->listing && !p->first && !p->dead) {
        struct peer *other = p->row;

        if (!other) {
            p->listing = false;
            peer_send_done(p, 0, p->rows);
        } else {
            p->row = other->next;
            if (other->client && !other->dead) {
                send_row(p, other, now);
                p->rows++;
            }
        }
    }
    peer_watch_output(p, p->first && (p->socket_watch.events & EPOLLOUT));
}

/* ---- what clients get of cutind.conf, and changes for all while the daemon runs ------------- */

/* Whether it has less than it asked for, and then why. */
static bool is_refused(const struct peer *p, char reason[PROTOCOL_TEXT])
{
    if (p->level < p->asked)
        permission_explain(p->daemon->conf, &p->who, p->asked, reason, PROTOCOL_TEXT);
    return p->level < p->asked;
}

/* Grants `asked` and `lowest`, or less if the client's user may not have that, unless a user who
 * controls all has ordered it. */
static void level_assign(struct peer *p, uint32_t asked, uint32_t lowest)
{
    p->asked = asked;
    p->asked_lowest = p->flat || lowest > asked ? asked : lowest;
    p->level = p->remote ? asked : permission_level(p->daemon->conf, &p->who, asked);
    p->lowest = p->asked_lowest < p->level ? p->asked_lowest : p->level;
    /* The log shows later which processes were above best effort, and which wanted to be. Names are
     * left out: clients choose them. */
    struct user *user = p->unlimited ? NULL : p->user;
    char reason[PROTOCOL_TEXT];

    if (is_refused(p, reason)) {
        p->daemon->refused[REFUSED_LEVEL]++;
        log_about(user, LOG_INFO, "process %d of user %u runs at level %s: %s", (int)p->who.pid,
                  (unsigned)p->who.uid, level_name(p->level), printable(reason));
    } else if (p->level > 0) {
        log_about(user, LOG_INFO, "process %d of user %u runs at level %s%s%s", (int)p->who.pid,
                  (unsigned)p->who.uid, level_name(p->level),
                  p->who.job.account[0] ? ", account " : "", p->who.job.account);
    }
}

/* The same, and tells the client and all that are concerned. */
static void level_change(struct peer *p, uint32_t asked)
{
    union message reply;

    level_assign(p, asked, p->asked_lowest);
    message_init(&reply, MESSAGE_LEVEL);
    reply.level.level = p->level;
    reply.level.refused = is_refused(p, reply.level.reason);
    peer_send(p, &reply, NULL);
    topology_update(p->daemon->peers, p);
}

static void settings_set_policy(struct daemon *d, const struct policy *policy)
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
    log_most = d->conf->log;
    settings_set_policy(d, d->conf->policy);
    log_line(LOG_INFO, "configuration: %s", d->conf->loaded ? d->conf->path : "defaults");
    DL_FOREACH (d->peers, p) {
        p->unlimited = permission_control(d->conf, &p->who);
        if (p->client && !p->dead && !p->remote &&
            permission_level(d->conf, &p->who, p->asked) != p->level)
            level_change(p, p->asked);
    }
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void write_pause(const struct peer_device *at)
{
    page_write_bit(device_page(at), PAGE_BIT_PAUSED, at->peer->paused ? PAGE_WORDS : 0, PAGE_WORDS,
                   clock_ns());
}

/* Tells the client of the order, so that it carries it out or, if the daemon does that here, the
 * next daemon can learn it. */
static int carry_out(const struct peer *from, struct peer *p, uint32_t kind, uint32_t value)
{
    union message m;

    /* Only users who control all may raise a process above what it may have: otherwise a job's
     * process could give its level to others of its user. */
    if (kind == CONTROL_LEVEL && !from->unlimited &&
        permission_level(p->daemon->conf, &p->who, value) != value)
        return -EPERM;
    if (kind != CONTROL_LEVEL && kind != CONTROL_WEIGHT && !p->queues)
        return -EOPNOTSUPP;
    message_init(&m, MESSAGE_REMOTE);
    m.remote.kind = kind;
    m.remote.value = value;
    peer_send(p, &m, NULL);
    if (kind == CONTROL_LEVEL) {
        p->remote = from->unlimited;
        level_change(p, value);
    } else if (kind == CONTROL_WEIGHT) {
        p->weight = value;
    } else if (kind == CONTROL_PAUSE || kind == CONTROL_RESUME) {
        p->paused = kind == CONTROL_PAUSE;
        PEER_SLOTS (p, at)
            write_pause(at);
    }
    return 0;
}

static const char *const kind_names[] = {
#define NAME(name, least, most) #name,
    CONTROL_KINDS(NAME)
#undef NAME
};

/* Answers how many clients the order concerned, or -ESRCH (no such process), -EPERM, -EOPNOTSUPP
 * (its streams have no queues: nothing to hold or reset). */
static void on_control(struct peer *from, const struct message_control *order)
{
    const struct daemon *d = from->daemon;
    uint32_t count = 0;
    struct peer *p;
    int rc = -ESRCH;

    DL_FOREACH (d->peers, p) {
        if (!p->client || p->dead ||
            (order->client ? p->id != order->client : order->pid <= 0 || p->who.pid != order->pid))
            continue;
        rc = -EPERM;
        if (!permission_same(d->conf, &from->who, &p->who) && !from->unlimited)
            break;
        log_about(from->unlimited ? NULL : from->user, LOG_INFO, "user %u: %s %u for process %d",
                  (unsigned)from->who.uid, kind_names[order->kind], order->value, (int)p->who.pid);
        rc = carry_out(from, p, order->kind, order->value);
        if (rc != 0)
            break;
        count++;
    }
    limit_charge(from, count * (1 + d->count / 16));
    peer_send_done(from, rc, count);
}

/* ---- messages -------------------------------------------------------------------------------- */

static int on_hello(struct peer *p, const struct message_hello *m)
{
    union message reply;
    int rc;

    if (p->client)
        return -EPROTO;
    if (limit_refuses_client(p))
        return -EUSERS;
    p->id = ++p->daemon->next_id;
    memcpy(p->name, m->name, sizeof(p->name));
    rc = peer_make_page(p);
    if (rc != 0)
        return rc;
    p->client = true;
    p->user->clients++;
    p->client_since_ns = clock_ns();
    p->flat = m->flat;
    p->bounded = m->bounded || p->daemon->conf->min_share_percent;
    p->weight = m->weight ? m->weight : 1;
    level_assign(p, m->level, m->lowest);
    p->deadline_ms = m->deadline_ms;
    p->queues = p->lowest < PAGE_LEVELS - 1 || p->deadline_ms;
    topology_expect(p->daemon->peers, p, p->client_since_ns);
    message_init(&reply, MESSAGE_WELCOME);
    reply.welcome.client = p->id;
    reply.welcome.level = p->level;
    reply.welcome.refused = is_refused(p, reply.welcome.reason);
    reply.welcome.share_percent = p->daemon->conf->min_share_percent;
    reply.welcome.asks = 1;
    peer_send(p, &reply, p->page);
    /* A client that has just come tells of orders by a daemon that is gone. They are given again,
     * as if by the client's own user. What that user may not order is not restored. */
    if (m->remote_level && carry_out(p, p, CONTROL_LEVEL, m->remote_level - 1) != 0)
        log_about(p->user, LOG_INFO, "process %d loses level %u, which its user may not have",
                  (int)p->who.pid, m->remote_level - 1);
    if (m->paused)
        carry_out(p, p, CONTROL_PAUSE, 0);
    return 0;
}

static int on_device(struct peer *p, const struct message_device *m)
{
    int rc = topology_device(p, m->slot, m->uuid);

    if (rc != 0)
        return rc;
    if (p->paused) /* a pause also holds on a new device */
        write_pause(&p->device[m->slot]);
    limit_admits_device(p, m->slot, clock_ns());
    topology_update(p->daemon->peers, p);
    if (p->device[m->slot].told || p->turned_away)
        topology_settle(p);
    return 0;
}

static void on_policy(struct peer *p, const char *name)
{
    const struct policy *policy = policy_find(name);
    bool may = !name[0] || p->unlimited;
    union message reply;

    if (!may || (name[0] && !policy)) {
        peer_send_done(p, may ? -ENOENT : -EPERM, 0);
        return;
    }
    if (policy)
        settings_set_policy(p->daemon, policy);
    message_init(&reply, MESSAGE_POLICY);
    memcpy(reply.policy.name, p->daemon->policy->name, strlen(p->daemon->policy->name));
    peer_send(p, &reply, NULL);
}

int request_run(struct peer *p, const union message *m)
{
    struct daemon *d = p->daemon;
    uint32_t type = m->header.type, cost = 1;

    /* The cost in messages: each of these walks all clients, or answers so many. */
    if (type == MESSAGE_LIST || type == MESSAGE_LIFTED)
        cost += d->count;
    else if (type == MESSAGE_HELLO || type == MESSAGE_DEVICE)
        cost += d->count / 16;
    else if (type == MESSAGE_JOINED || type == MESSAGE_BIT) /* what the daemon asked for */
        cost = 0;
    limit_charge(p, cost);
    if (!p->client) /* a peer that asks now and then is not silent */
        p->since_ns = clock_ns();
    switch (type) {
    case MESSAGE_HELLO:
        return on_hello(p, &m->hello);
    case MESSAGE_DEVICE:
        return p->client ? on_device(p, &m->device) : -EPROTO;
    case MESSAGE_JOINED: /* the owner's bits are now in the page that joined */
        return p->client ? topology_joined(p, m->joined.client) : -EPROTO;
    case MESSAGE_BIT:
        return p->client ? topology_bit_returned(d->peers, p, m->bit.slot) : -EPROTO;
    case MESSAGE_LIFTED: /* an owner that cleared its bit while it was out of the page found none */
        if (!p->client)
            return -EPROTO;
        mend_client(d->peers, p);
        return 0;
    case MESSAGE_LIST:
        p->listing = true;
        p->row = d->peers;
        p->rows = 0;
        list_continue(p);
        return 0;
    case MESSAGE_CONTROL:
        on_control(p, &m->control);
        return 0;
    case MESSAGE_POLICY:
        on_policy(p, m->policy.name);
        return 0;
    default: /* STOP */
        peer_send_done(p, p->unlimited ? 0 : -EPERM, 0);
        d->stop |= p->unlimited;
        return 0;
    }
}
