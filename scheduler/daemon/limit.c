/*
 * limit.c - how many connections, clients, and clients of a device a user may have ([limits] of
 * cutind.conf), how soon those above are told of the user's clients, and how often the user may
 * connect and ask.
 *
 * Connections beyond the rate are closed before anything is found out about them. A user that asks
 * more than the daemon answers in time is not read for a while. A question counts as many times as
 * there are clients that it is about.
 *
 * A client below costs a real-time process some nanoseconds at every cut-in, and a mapping when it
 * comes and goes. So those above are told of only so many clients of one user on a device
 * (clients_per_device), and of clients that come one after another only at a rate. A client that
 * has to wait is registered all the same; it is not held until its turn comes. Users who may
 * control others have no limits.
 */
#include "scheduler/daemon/daemon.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

enum {
    MAX_PEERS = 1024,
    RESERVED = 64, /* more, for users that a rule names: others must not keep them out */
};

/* Those above are told of TOLD_BURST clients of one user at once, then of one every TOLD_NS. */
#define TOLD_BURST  32u
#define TOLD_NS     125000000ull
#define TOLD_BAN_NS 60000000000ull

/* Connections of one user: connections_per_user at once, and then one every CONNECT_NS. */
#define CONNECT_NS 7812500ull
/* Messages: 4,000 at once, and then 2,000 a second. */
#define MESSAGE_NS       500000ull
#define MESSAGE_BURST_NS (4000 * MESSAGE_NS)

/* Three descriptors per client: the usual soft limit of 1,024 is too low. */
void limit_descriptors(struct daemon *d)
{
    enum { OWN = 64, EACH = 3, FOR_ONE_GONE = 32 };
    struct rlimit limit = {.rlim_max = 0};
    rlim_t peers;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    d->gone_room = DAEMON_GONE;
    if (limit.rlim_max / FOR_ONE_GONE < DAEMON_GONE)
        d->gone_room = (uint32_t)(limit.rlim_max / FOR_ONE_GONE);
    peers = limit.rlim_max > OWN + d->gone_room ? (limit.rlim_max - OWN - d->gone_room) / EACH : 0;
    peers = peers > 2 * RESERVED ? peers - RESERVED : peers / 2;
    d->room = peers < MAX_PEERS ? (uint32_t)peers : MAX_PEERS;
}

void limit_forget(struct daemon *d, uint64_t now)
{
    struct user *user, *next;

    HASH_ITER (hh, d->users, user, next)
        if (user->connections == 0 && user->connect_due_ns <= now && user->message_due_ns <= now &&
            user->told_ns <= now && user->log_due_ns <= now) {
            HASH_DEL(d->users, user);
            free(user->key);
            free(user);
        }
}

/* `cgroup` NULL: the user is not contained. Else its user id counts for nothing here, too, because
 * root of a container has them all. */
static struct user *user_of(struct daemon *d, uid_t uid, const char *cgroup)
{
    struct user *user = NULL;
    char *key;

    if ((cgroup ? asprintf(&key, "cgroup %s", cgroup) : asprintf(&key, "%u", (unsigned)uid)) < 0)
        return NULL;
    HASH_FIND_STR(d->users, key, user);
    if (!user) {
        limit_forget(d, clock_ns());
        user = calloc(1, sizeof(*user));
        if (user) {
            *user = (struct user){.key = key, .uid = uid};
            HASH_ADD_KEYPTR(hh, d->users, user->key, strlen(user->key), user);
            return user;
        }
    }
    free(key);
    return user;
}

static bool too_often(struct daemon *d, struct user *user)
{
    return !rate_take(&user->connect_due_ns, clock_ns(), CONNECT_NS, d->conf->connections_per_user);
}

/* A user that looks like root or the owner may be so only in a container, and each container has
 * its own limits: limit_refuses_peer decides. */
static bool known_later(const struct daemon *d, uid_t uid)
{
    return uid == 0 || uid == d->conf->owner || d->conf->contained.count > 0;
}

bool limit_rate_exceeded(struct daemon *d, int socket)
{
    struct ucred from;
    socklen_t size = sizeof(from);
    struct user *user;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &from, &size) != 0)
        return true;
    if (known_later(d, from.uid))
        return false;
    user = user_of(d, from.uid, NULL);
    return !user || too_often(d, user);
}

bool limit_refuses_peer(struct daemon *d, struct peer *new)
{
    struct user *user = user_of(d, new->who.uid, permission_cgroup(d->conf, &new->who));
    bool named; /* a rule gives it more than any user has without a rule */

    new->user = user;
    if (!user || (known_later(d, user->uid) && !permission_control(d->conf, &new->who) &&
                  too_often(d, user)))
        return true;
    /* Looks at up to 64 parents, so only for connections within the rate. */
    job_of_process(d->conf->jobs, d->conf->owner, new->who.pid, new->who.uid, &new->who.job);
    new->unlimited = permission_control(d->conf, &new->who);
    named = new->unlimited || permission_level(d->conf, &new->who, PAGE_LEVELS - 1) > 0;
    if (d->count >= d->room + (named ? RESERVED : 0)) {
        log_about(user, LOG_WARN,
                  "refused a connection of process %d: there are %u already, as many as the "
                  "limit of descriptors allows",
                  (int)new->who.pid, d->count);
        return true;
    }
    if (!new->unlimited && user->connections >= d->conf->connections_per_user) {
        log_about(user, LOG_WARN,
                  "refused a connection of process %d: user %u has %u already "
                  "(connections_per_user)",
                  (int)new->who.pid, (unsigned)user->uid, user->connections);
        return true;
    }
    user->connections++;
    return false;
}

bool limit_mutes(struct peer *p, uint64_t now_ns)
{
    p->muted = !p->unlimited && p->user->message_due_ns > now_ns + MESSAGE_BURST_NS;
    peer_watch_output(p, p->socket_watch.events & EPOLLOUT);
    return p->muted;
}

void limit_charge(struct peer *p, uint32_t messages)
{
    uint64_t now = clock_ns();

    if (p->user->message_due_ns < now)
        p->user->message_due_ns = now;
    p->user->message_due_ns += messages * MESSAGE_NS;
}

bool limit_refuses_client(struct peer *p)
{
    const struct conf *conf = p->daemon->conf;

    if (p->user->clients < conf->clients_per_user || p->unlimited)
        return false;
    p->daemon->refused[REFUSED_CLIENT]++;
    log_about(p->user, LOG_WARN,
              "scheduling off for process %d: user %u has %u clients already (clients_per_user)",
              (int)p->who.pid, (unsigned)p->who.uid, conf->clients_per_user);
    peer_send_done(p, -EUSERS, 0);
    return true;
}

/* How many clients of a user those above are told of on a device: kept from the first to the last
 * of them. */
struct quota {
    const struct device *device;
    uint32_t told;
    UT_hash_handle hh;
};

static bool may_tell(struct peer *p, uint32_t slot, uint64_t now)
{
    uint32_t most = p->daemon->conf->clients_per_device;
    struct quota *quota;
    bool any_told = false;

    if (p->unlimited)
        return true;
    HASH_FIND_PTR(p->user->quotas, &p->device[slot].device, quota);
    if (quota && quota->told >= most) {
        if (p->turned_away) /* once for each client */
            return false;
        p->turned_away = true;
        peer_send_done(p, -EUSERS, 0);
        log_about(p->user, LOG_WARN,
                  "no other process holds process %d on a device: user %u has %u clients there "
                  "already (clients_per_device)",
                  (int)p->who.pid, (unsigned)p->who.uid, most);
        return false;
    }
    /* A page is mapped once, however many devices it is for. */
    PEER_SLOTS (p, at)
        any_told |= at->told;
    if (!any_told && !rate_take(&p->user->told_ns, now, TOLD_NS, TOLD_BURST))
        return false;
    if (!quota && (quota = calloc(1, sizeof(*quota)))) {
        quota->device = p->device[slot].device;
        HASH_ADD_PTR(p->user->quotas, device, quota);
    }
    p->device[slot].counted = quota && ++quota->told;
    return quota;
}

bool limit_admits_device(struct peer *p, uint32_t slot, uint64_t now_ns)
{
    p->device[slot].told = may_tell(p, slot, now_ns);
    p->daemon->waiting |= !p->device[slot].told;
    return p->device[slot].told;
}

void limit_admit_waiting(struct daemon *d, uint64_t now_ns)
{
    if (now_ns < d->admit_due_ns)
        return;
    d->waiting = false;
    PEER_DEVICES (d->peers, p, at)
        if (!at->told && limit_admits_device(p, device_slot(at), now_ns)) {
            topology_update(d->peers, p);
            topology_settle(p);
        }
    d->admit_due_ns = now_ns + TOLD_NS;
}

void limit_ban(const struct peer *p, uint64_t now_ns)
{
    p->user->told_ns = now_ns + TOLD_BAN_NS + TOLD_BURST * TOLD_NS;
}

void limit_leave(struct peer *p)
{
    PEER_SLOTS (p, mine) {
        struct quota *quota = NULL;

        if (mine->counted)
            HASH_FIND_PTR(p->user->quotas, &mine->device, quota);
        if (quota && --quota->told == 0) {
            HASH_DEL(p->user->quotas, quota);
            free(quota);
        }
        mine->told = mine->counted = false;
    }
    p->user->clients -= p->client;
    p->user->connections--;
}
