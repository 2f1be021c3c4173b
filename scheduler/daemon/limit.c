/*
 * limit.c - how many connections, clients, and clients of a device a user may have.
 */
#include "scheduler/daemon/limit.h"

#include <errno.h>
#include <sys/resource.h>
#include <utlist.h>

#include "scheduler/daemon/state.h"
#include "scheduler/peers/log.h"
#include "scheduler/policy/permission.h"
#include "common/clock.h"

enum {
    MAX_PEERS = 1024,
    RESERVED = 64, /* beyond those, for whom a rule names: others must not keep them out */
};

/* Three descriptors per client: the usual soft limit of 1,024 is too low. */
uint32_t limit_room(void)
{
    enum { OWN = 64, EACH = 3 };
    struct rlimit limit = {.rlim_max = 0};
    rlim_t peers;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    peers = limit.rlim_max > OWN ? (limit.rlim_max - OWN) / EACH : 0;
    peers = peers > 2 * RESERVED ? peers - RESERVED : peers / 2;
    return peers < MAX_PEERS ? (uint32_t)peers : MAX_PEERS;
}

bool limit_connection(const struct daemon *d, const struct peer *new)
{
    const struct peer *p;
    uint32_t same = 0;

    if (d->count >= d->room + (permission_named(d->conf, &new->who) ? RESERVED : 0))
        return true;
    if (permission_control(d->conf, &new->who))
        return false;
    DL_FOREACH (d->peers, p)
        same += p->who.uid == new->who.uid;
    return same >= d->conf->connections_per_user;
}

/* Clients that are turned away come back: once a minute will do. */
static bool may_say(struct daemon *d)
{
    uint64_t now = clock_ns();

    if (now < d->limit_said_ns)
        return false;
    d->limit_said_ns = now + 60000ull * NS_PER_MS;
    return true;
}

static uint32_t clients_of(const struct daemon *d, const struct peer *like)
{
    const struct peer *p;
    uint32_t n = 0;

    DL_FOREACH (d->peers, p)
        n += p->client && p->who.uid == like->who.uid;
    return n;
}

bool limit_client(struct peer *p)
{
    const struct conf *conf = p->daemon->conf;

    if (clients_of(p->daemon, p) < conf->clients_per_user || permission_control(conf, &p->who))
        return false;
    if (may_say(p->daemon))
        log_line(LOG_WARN,
                 "scheduling off for process %d: user %u has %u clients already (clients_per_user)",
                 (int)p->who.pid, (unsigned)p->who.uid, conf->clients_per_user);
    peer_send_done(p, -EUSERS, 0);
    return true;
}

/* Once for each client, and for all of them once a minute. */
static void turn_device_away(struct peer *p)
{
    if (p->turned_away)
        return;
    p->turned_away = true;
    peer_send_done(p, -EUSERS, 0);
    if (may_say(p->daemon))
        log_line(LOG_WARN,
                 "nobody holds process %d on a device: user %u has %u clients there already "
                 "(clients_per_device)",
                 (int)p->who.pid, (unsigned)p->who.uid, p->daemon->conf->clients_per_device);
}

bool limit_device(struct peer *p, uint32_t slot, uint64_t now_ns)
{
    struct daemon *d = p->daemon;
    enum admission_answer answer = admission_ask(d->admission, d->conf, p, slot, now_ns);

    if (answer == ADMISSION_FULL)
        turn_device_away(p);
    d->waiting |= answer != ADMISSION_NOW;
    return answer == ADMISSION_NOW;
}

void limit_device_again(struct daemon *d, uint64_t now_ns)
{
    bool waiting = false;
    struct peer *p;

    if (now_ns < d->admit_ns)
        return;
    PEER_DEVICES (d->peers, p, slot) {
        if (p->device[slot].told)
            continue;
        if (limit_device(p, slot, now_ns)) {
            topology_update(d->topology, d->peers, p);
            topology_settle(p);
        } else {
            waiting = true;
        }
    }
    d->waiting = waiting;
    d->admit_ns = now_ns + ADMISSION_NS;
}
