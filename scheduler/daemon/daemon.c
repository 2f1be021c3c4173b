/*
 * daemon.c - the scheduler daemon: one thread, one epoll loop, connections that cannot hurt it.
 *
 * The daemon is on nobody's launch path. It hands out pages and bits, tells clients above of
 * clients below, and repairs when a connection ends: then, and only then, it clears that client's
 * bits.
 */
#include "scheduler/daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "scheduler/peers/admission.h"
#include "trace/clock.h"
#include "scheduler/daemon/remote.h"
#include "scheduler/peers/heartbeat.h"
#include "scheduler/peers/hold.h"
#include "scheduler/daemon/list.h"
#include "scheduler/daemon/metrics.h"
#include "scheduler/peers/topology.h"
#include "scheduler/peers/log.h"
#include "scheduler/policy/permission.h"
#include "scheduler/peers/round.h"
#include "scheduler/peers/witness.h"

enum {
    MAX_PEERS = 1024,
    RESERVED = 64, /* beyond those, for whom a rule names: others must not keep them out */
    EVENTS = 64,
    MESSAGES_PER_TURN = 32, /* so that one busy peer does not keep the others waiting */
    SILENT_S = 10,          /* a connection that never says HELLO or asks anything */
};

struct daemon {
    struct watch listener_watch, signal_watch, metrics_watch;
    struct metrics *metrics;
    struct daemon_options options;
    int epoll, signals;
    int spare; /* a descriptor to give up when there are no more */
    struct peer *peers;
    uint32_t count, room; /* of peers; not counting those in reserve */
    uint64_t next_id, idle_since_ns, limit_said_ns;
    bool stop, waiting; /* waiting: somebody, for admission */
    struct topology *topology;
    struct admission *admission;
    uint64_t admit_ns;   /* when to ask again for those who wait */
    uint64_t witness_ns; /* when to look at pages again */
    const struct policy *policy;
};

struct peer *daemon_peers(struct daemon *d)
{
    return d->peers;
}

const struct conf *daemon_conf(const struct daemon *d)
{
    return d->options.conf;
}

/* ---- messages ----------------------------------------------------------------------------------
 */

static uint32_t clients_of(const struct daemon *d, const struct peer *like)
{
    const struct peer *p;
    uint32_t n = 0;

    DL_FOREACH (d->peers, p)
        n += p->client && p->who.uid == like->who.uid;
    return n;
}

static void grant(struct peer *p, uint32_t asked, uint32_t lowest)
{
    p->asked = asked;
    p->asked_lowest = p->flat || lowest > asked ? asked : lowest;
    p->level = p->remote ? asked : permission_level(p->daemon->options.conf, &p->who, asked);
    p->lowest = p->asked_lowest < p->level ? p->asked_lowest : p->level;
    atomic_store(&p->page->page->level, p->level);
    atomic_store(&p->page->page->lowest, p->lowest);
}

/* Clients that are turned away come back: once a minute will do. */
static bool say_limit(struct daemon *d)
{
    uint64_t now = clock_ns();

    if (now < d->limit_said_ns)
        return false;
    d->limit_said_ns = now + 60000ull * NS_PER_MS;
    return true;
}

static int on_hello(struct peer *p, const union message *m)
{
    const struct conf *conf = p->daemon->options.conf;
    union message reply;
    int rc;

    if (p->client)
        return -EPROTO;
    if (clients_of(p->daemon, p) >= conf->clients_per_user && !permission_control(conf, &p->who)) {
        if (say_limit(p->daemon))
            log_line(LOG_WARN,
                     "user %u has %u clients already (clients_per_user): process %d is not "
                     "scheduled",
                     (unsigned)p->who.uid, conf->clients_per_user, (int)p->who.pid);
        peer_send_done(p, -EUSERS, 0);
        return -EUSERS;
    }
    p->id = ++p->daemon->next_id;
    memcpy(p->name, m->hello.name, sizeof(p->name));
    rc = peer_make_page(p);
    if (rc != 0)
        return rc;
    p->client = true;
    p->client_since_ns = clock_ns();
    p->flat = m->hello.flat;
    p->bounded = m->hello.bounded || conf->min_share_percent;
    p->weight = m->hello.weight ? m->hello.weight : 1;
    grant(p, m->hello.level, m->hello.lowest);
    p->deadline_ms = m->hello.deadline_ms;
    p->queues = p->lowest < PAGE_LEVELS - 1 || p->deadline_ms;
    message_init(&reply, MESSAGE_WELCOME);
    reply.welcome.client = p->id;
    reply.welcome.level = p->level;
    reply.welcome.refused = p->level < p->asked;
    reply.welcome.share_percent = conf->min_share_percent;
    if (reply.welcome.refused)
        permission_explain(conf, &p->who, p->asked, reply.welcome.reason,
                           sizeof(reply.welcome.reason));
    peer_send(p, &reply, p->page);
    remote_restore(p, &m->hello);
    return 0;
}

/* Once for each client, and for all of them once a minute. */
static void turn_device_away(struct peer *p)
{
    struct daemon *d = p->daemon;

    if (p->turned_away)
        return;
    p->turned_away = true;
    peer_send_done(p, -EUSERS, 0);
    if (say_limit(d))
        log_line(
            LOG_WARN,
            "user %u has %u clients of a device already (clients_per_device): process %d is not "
            "held there",
            (unsigned)p->who.uid, d->options.conf->clients_per_device, (int)p->who.pid);
}

static bool admit(struct peer *p, uint32_t slot, uint64_t now)
{
    struct daemon *d = p->daemon;
    enum admission_answer answer = admission_ask(d->admission, d->options.conf, p, slot, now);

    if (answer == ADMISSION_FULL)
        turn_device_away(p);
    d->waiting |= answer != ADMISSION_NOW;
    return answer == ADMISSION_NOW;
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
    admit(p, m->device.slot, clock_ns());
    topology_update(p->daemon->topology, p->daemon->peers, p);
    return 0;
}

void daemon_change_level(struct peer *p, uint32_t asked)
{
    union message reply;

    grant(p, asked, p->asked_lowest);
    message_init(&reply, MESSAGE_LEVEL);
    reply.level.level = p->level;
    reply.level.refused = p->level < p->asked;
    if (reply.level.refused)
        permission_explain(p->daemon->options.conf, &p->who, p->asked, reply.level.reason,
                           sizeof(reply.level.reason));
    peer_send(p, &reply, NULL);
    topology_update(p->daemon->topology, p->daemon->peers, p);
}

static int on_level(struct peer *p, const union message *m)
{
    if (!p->client)
        return -EPROTO;
    p->remote = false;
    daemon_change_level(p, m->level.level);
    return 0;
}

/* The owner's bits now stand in the page that joined. Nothing waits for that. */
static int on_joined(struct peer *p, const union message *m)
{
    return p->client ? 0 : -EPROTO;
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

    peer_send_done(p, rc, count);
    return 0;
}

static void set_policy(struct daemon *d, const struct policy *policy)
{
    if (policy == d->policy)
        return;
    d->policy = policy;
    round_reset(d->peers);
    log_line(LOG_INFO, "policy %s: %s", policy->name, policy->help);
}

static int on_policy(struct peer *p, const union message *m)
{
    const struct policy *policy = policy_find(m->policy.name);
    union message reply;

    if (m->policy.name[0] && !permission_control(p->daemon->options.conf, &p->who)) {
        peer_send_done(p, -EPERM, 0);
        return 0;
    }
    if (m->policy.name[0] && !policy) {
        peer_send_done(p, -ENOENT, 0);
        return 0;
    }
    if (policy)
        set_policy(p->daemon, policy);
    message_init(&reply, MESSAGE_POLICY);
    memcpy(reply.policy.name, p->daemon->policy->name, strlen(p->daemon->policy->name));
    peer_send(p, &reply, NULL);
    return 0;
}

static int on_stop(struct peer *p, const union message *m)
{
    if (!permission_control(p->daemon->options.conf, &p->who)) {
        peer_send_done(p, -EPERM, 0);
        return 0;
    }
    peer_send_done(p, 0, 0);
    p->daemon->stop = true;
    return 0;
}

static int (*const handlers[MESSAGE_TYPES])(struct peer *p, const union message *m) = {
    [MESSAGE_HELLO] = on_hello,     [MESSAGE_DEVICE] = on_device, [MESSAGE_LEVEL] = on_level,
    [MESSAGE_JOINED] = on_joined,   [MESSAGE_LIST] = on_list,     [MESSAGE_STOP] = on_stop,
    [MESSAGE_CONTROL] = on_control, [MESSAGE_POLICY] = on_policy,
};

/* ---- connections -------------------------------------------------------------------------------
 */

static struct peer *peer_of(struct watch *w, size_t offset)
{
    return (struct peer *)(void *)((char *)w - offset);
}

static void flush(struct peer *p)
{
    peer_flush(p);
    if (p->listing)
        list_go_on(p);
}

static void socket_ready(struct watch *w, uint32_t events)
{
    struct peer *p = peer_of(w, offsetof(struct peer, socket_watch));
    union message m;
    int rc = 0;

    if (p->listing && (events & (EPOLLHUP | EPOLLERR)))
        p->dead = true;
    if (events & EPOLLOUT)
        flush(p);
    for (int i = 0; i < MESSAGES_PER_TURN && rc == 0 && !p->dead && !p->listing; i++) {
        rc = message_receive(p->socket, TO_DAEMON, &m, NULL);
        if (rc == 0)
            rc = handlers[m.header.type](p, &m);
        else if (rc == -EPROTO)
            peer_send_done(p, -EPROTO, 0); /* so that a client of another version can say why */
    }
    if (rc != 0 && rc != -EAGAIN)
        p->dead = true;
}

static void process_ready(struct watch *w, uint32_t events)
{
    peer_of(w, offsetof(struct peer, process_watch))->dead = true;
}

static bool too_many(const struct daemon *d, const struct peer *new)
{
    const struct peer *p;
    uint32_t same = 0;

    if (d->count >= d->room + (permission_named(d->options.conf, &new->who) ? RESERVED : 0))
        return true;
    if (permission_control(d->options.conf, &new->who))
        return false;
    DL_FOREACH (d->peers, p)
        same += p->who.uid == new->who.uid;
    return same >= d->options.conf->connections_per_user;
}

static void add_peer(struct daemon *d, int fd)
{
    struct peer *p = peer_new(d, fd);

    if (!p) {
        close(fd);
        return;
    }
    p->socket_watch.ready = socket_ready;
    p->process_watch.ready = process_ready;
    if (too_many(d, p) || watch_begin(&p->socket_watch, d->epoll, fd, EPOLLIN) != 0 ||
        (p->process >= 0 && watch_begin(&p->process_watch, d->epoll, p->process, EPOLLIN) != 0)) {
        peer_free(p);
        return;
    }
    DL_APPEND(d->peers, p);
    d->count++;
}

/* Out of descriptors: the caller must not be left waiting in the backlog (and epoll not spin on
 * it), so use the spare one to take it in and turn it away. */
static void turn_away(struct daemon *d)
{
    int fd;

    close(d->spare);
    fd = accept4(d->options.listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_ready(struct watch *w, uint32_t events)
{
    struct daemon *d =
        (struct daemon *)(void *)((char *)w - offsetof(struct daemon, listener_watch));

    for (int i = 0; i < EVENTS; i++) {
        int fd = accept4(d->options.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0)
            add_peer(d, fd);
        else if (errno == EMFILE || errno == ENFILE)
            turn_away(d);
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

/* Levels follow the new rules at once; the socket keeps its mode. */
static void reload(struct daemon *d)
{
    struct peer *p;
    char why[512];

    if (conf_load(d->options.conf, d->options.conf_path, why, sizeof(why)) != 0) {
        log_line(LOG_ERROR, "%s; going on as before", why);
        return;
    }
    log_set_level(d->options.conf->log);
    set_policy(d, policy_at(d->options.conf->policy));
    log_line(LOG_INFO, "read %s", d->options.conf->loaded ? d->options.conf->path : "no file");
    DL_FOREACH (d->peers, p)
        if (p->client && !p->dead && !p->remote &&
            permission_level(d->options.conf, &p->who, p->asked) != p->level)
            daemon_change_level(p, p->asked);
}

static void signal_ready(struct watch *w, uint32_t events)
{
    struct daemon *d = (struct daemon *)(void *)((char *)w - offsetof(struct daemon, signal_watch));
    struct signalfd_siginfo info;

    while (read(d->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGHUP)
            reload(d);
        else
            d->stop = true;
    }
}

static void metrics_ready(struct watch *w, uint32_t events)
{
    struct daemon *d =
        (struct daemon *)(void *)((char *)w - offsetof(struct daemon, metrics_watch));

    metrics_run(d->metrics);
}

int daemon_serve_metrics(struct daemon *d, char *why, size_t why_size)
{
    int rc = metrics_open(&d->metrics, d->options.conf->metrics, &d->peers, why, why_size);

    if (rc != 0)
        return rc;
    d->metrics_watch.ready = metrics_ready;
    rc = watch_begin(&d->metrics_watch, d->epoll, metrics_fd(d->metrics), EPOLLIN);
    metrics_run(d->metrics); /* what has come before we watched */
    return rc;
}

static void remove_peer(struct daemon *d, struct peer *p)
{
    list_skip(d->peers, p);
    DL_DELETE(d->peers, p);
    d->count--;
    if (p->client)
        admission_leave(d->admission, p);
    if (p->client)
        topology_remove(d->topology, d->peers, p);
    peer_free(p);
    d->idle_since_ns = clock_ns();
}

/* Telling the others of one that has gone may find more of them unusable: from the start again. */
static void remove_dead(struct daemon *d)
{
    struct peer *p = d->peers;

    while (p) {
        bool dead = p->dead;
        struct peer *next = p->next;

        if (dead)
            remove_peer(d, p);
        p = dead ? d->peers : next;
    }
}

/* ---- the loop ----------------------------------------------------------------------------------
 */

static int sooner(int a_ms, int b_ms)
{
    return a_ms < 0 || b_ms < a_ms ? b_ms : a_ms;
}

/* Those who had to wait. True: some still do. */
static bool admit_waiting(struct daemon *d, uint64_t now)
{
    bool waiting = false;
    struct peer *p;

    DL_FOREACH (d->peers, p)
        for (uint32_t slot = 0; p->client && !p->dead && slot < PAGE_DEVICES; slot++) {
            if (!p->device[slot].device || p->device[slot].told)
                continue;
            if (admit(p, slot, now))
                topology_update(d->topology, d->peers, p);
            else
                waiting = true;
        }
    return waiting;
}

/* Clients that have taken memory from under those above them. */
static void put_out_spoilers(struct daemon *d, uint64_t now)
{
    struct peer *p;

    if (now < d->witness_ns)
        return;
    d->witness_ns = now + WITNESS_LOOK_MS * NS_PER_MS;
    DL_FOREACH (d->peers, p) {
        if (!p->client || p->dead || p->above == 0 || witness_intact(p->page->witness))
            continue;
        log_line(
            LOG_WARN,
            "process %d of user %u takes the memory of its page away, which costs real time page "
            "faults: it is not scheduled, and nobody is told of this user's processes for a minute",
            (int)p->who.pid, (unsigned)p->who.uid);
        admission_ban(d->admission, p, now);
        p->dead = true;
    }
}

/* What no event announces. Returns the time until it is due again, in ms; -1: there is nothing. */
static int housekeeping(struct daemon *d)
{
    uint64_t now = clock_ns(), second = 1000ull * NS_PER_MS;
    bool more = false;
    struct peer *p;
    int wait_ms, hold_ms;

    put_out_spoilers(d, now);
    DL_FOREACH (d->peers, p) {
        if (p->first && !(p->socket_watch.events & EPOLLOUT))
            flush(p);
        if (!p->client && now - p->since_ns > SILENT_S * second)
            p->dead = true;
        more |= p->first != NULL || !p->client || p->dead;
    }
    if (now >= d->admit_ns) {
        d->waiting = admit_waiting(d, now);
        d->admit_ns = now + ADMISSION_NS;
    }
    more |= d->waiting;
    if (d->options.idle_exit_s && !d->peers) {
        more = true;
        if (now - d->idle_since_ns >= d->options.idle_exit_s * second)
            d->stop = true;
    }
    wait_ms = round_run(d->peers, d->policy, now);
    if (heartbeat_look(d->peers, now))
        wait_ms = sooner(wait_ms, HEARTBEAT_LOOK_MS);
    hold_ms = hold_look(d->peers, d->options.conf, now);
    if (hold_ms >= 0)
        wait_ms = sooner(wait_ms, hold_ms);
    if (d->metrics) { /* connections that say nothing are dropped in time */
        metrics_run(d->metrics);
        if (metrics_wait_ms(d->metrics) >= 0)
            wait_ms = sooner(wait_ms, metrics_wait_ms(d->metrics));
    }
    return more ? sooner(wait_ms, 250) : wait_ms;
}

int daemon_run(struct daemon *d)
{
    struct epoll_event events[EVENTS];

    d->idle_since_ns = clock_ns();
    for (;;) {
        int n, wait_ms;

        remove_dead(d);
        wait_ms = housekeeping(d);
        if (d->stop)
            return 0;
        n = epoll_wait(d->epoll, events, EVENTS, wait_ms);
        if (n < 0 && errno != EINTR)
            return -errno;
        for (int i = 0; i < n; i++) {
            struct watch *w = events[i].data.ptr;

            w->ready(w, events[i].events);
        }
    }
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Three descriptors per client: the usual soft limit of 1,024 is too low. Returns for how many peers
 * there are some, besides those in reserve. */
static uint32_t raise_limit(void)
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

struct daemon *daemon_new(const struct daemon_options *options)
{
    struct daemon *d = calloc(1, sizeof(*d));

    if (!d)
        return NULL;
    d->room = raise_limit();
    d->options = *options;
    d->policy = policy_at(options->conf->policy);
    d->topology = topology_new();
    d->admission = admission_new();
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    d->signals = open_signals();
    d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    d->listener_watch.ready = listener_ready;
    d->signal_watch.ready = signal_ready;
    if (!d->topology || !d->admission || d->epoll < 0 || d->signals < 0 || d->spare < 0 ||
        watch_begin(&d->listener_watch, d->epoll, options->listener, EPOLLIN) != 0 ||
        watch_begin(&d->signal_watch, d->epoll, d->signals, EPOLLIN) != 0) {
        daemon_free(d);
        return NULL;
    }
    return d;
}

void daemon_free(struct daemon *d)
{
    int fds[] = {d->epoll, d->signals, d->spare};

    metrics_close(d->metrics);
    while (d->peers)
        remove_peer(d, d->peers);
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    if (d->topology)
        topology_free(d->topology);
    admission_free(d->admission);
    free(d);
}
