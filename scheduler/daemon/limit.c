/*
 * limit.c - how many connections, clients, and clients of a device a user may have (see limit.h).
 */
#include "scheduler/daemon/limit.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <uthash.h>
#include <utlist.h>

#include "scheduler/daemon/state.h"
#include "scheduler/peers/log.h"
#include "scheduler/policy/permission.h"
#include "common/clock.h"

enum {
    MAX_PEERS = 1024,
    RESERVED = 64, /* beyond those, for whom a rule names: others must not keep them out */
};

/* Of one user, those above are told of as many clients at once, and then of one after another in
 * that time. */
#define TOLD_BURST  32u
#define TOLD_NS     125000000ull
#define TOLD_BAN_NS 60000000000ull

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

/* A user's clients of a device, or, without one, the rate of all of his. */
struct account_key {
    const struct device *device;
    uint64_t uid;
};

struct account {
    struct account_key key;
    uint32_t told;
    uint64_t due_ns; /* of the next one, were there no burst */
    UT_hash_handle hh;
};

static void account_drop(struct daemon *d, struct account *account)
{
    HASH_DEL(d->accounts, account);
    free(account);
}

static struct account *account_of(struct daemon *d, uid_t uid, const struct device *device)
{
    struct account_key key = {device, uid};
    struct account *account;

    HASH_FIND(hh, d->accounts, &key, sizeof(key), account);
    if (account || !(account = calloc(1, sizeof(*account))))
        return account;
    account->key = key;
    HASH_ADD(hh, d->accounts, key, sizeof(key), account);
    return account;
}

/* One more of this user's clients, by the generic cell rate algorithm. */
static bool rate_take(struct account *user, uint64_t now)
{
    uint64_t due = user->due_ns > now ? user->due_ns : now;

    if (due - now > (TOLD_BURST - 1) * TOLD_NS)
        return false;
    user->due_ns = due + TOLD_NS;
    return true;
}

static bool any_told(const struct peer *p)
{
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        if (p->device[slot].told)
            return true;
    return false;
}

static bool may_tell(struct peer *p, uint32_t slot, uint64_t now)
{
    struct daemon *d = p->daemon;
    struct peer_device *mine = &p->device[slot];
    struct account *device, *user;

    if (permission_control(d->conf, &p->who))
        return true;
    device = account_of(d, p->who.uid, mine->device);
    user = account_of(d, p->who.uid, NULL);
    if (!device || !user)
        return false;
    if (device->told >= d->conf->clients_per_device) {
        turn_device_away(p);
        return false;
    }
    /* A page is mapped once, however many devices it is for. */
    if (!any_told(p) && !rate_take(user, now))
        return false;
    device->told++;
    mine->counted = true;
    return true;
}

bool limit_device(struct peer *p, uint32_t slot, uint64_t now_ns)
{
    p->device[slot].told = may_tell(p, slot, now_ns);
    p->daemon->waiting |= !p->device[slot].told;
    return p->device[slot].told;
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
    d->admit_ns = now_ns + TOLD_NS;
}

void limit_ban(const struct peer *p, uint64_t now_ns)
{
    struct account *user = account_of(p->daemon, p->who.uid, NULL);

    if (user)
        user->due_ns = now_ns + TOLD_BAN_NS + TOLD_BURST * TOLD_NS;
}

/* Rates that have nothing to remember any more. */
static void forget_users(struct daemon *d, uint64_t now)
{
    struct account *account, *next;

    HASH_ITER (hh, d->accounts, account, next)
        if (!account->told && account->due_ns <= now)
            account_drop(d, account);
}

void limit_leave(struct peer *p)
{
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++) {
        struct peer_device *mine = &p->device[slot];
        struct account *account =
            mine->counted ? account_of(p->daemon, p->who.uid, mine->device) : NULL;

        if (account)
            account->told--;
        mine->told = mine->counted = false;
    }
    forget_users(p->daemon, clock_ns());
}

void limit_free(struct daemon *d)
{
    forget_users(d, UINT64_MAX);
}
