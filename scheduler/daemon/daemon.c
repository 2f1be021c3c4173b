/*
 * daemon.c - the scheduler daemon: one thread, one epoll loop, connections that cannot hurt it.
 *
 * The daemon is on no launch path. It hands out pages and bits, tells clients above of clients
 * below, and clears the bits of a client whose connection ends, or that does not run. This file
 * takes connections in, reads and removes them, and has the loop and what no event announces.
 */
#include "scheduler/daemon/daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "scheduler/peers/scan.h"

enum {
    EVENTS = 64,
    IDLE_LOOK_MS = 500,
    NAME_LOOK_MS = 1000,
    ACCEPTS_PER_TURN = 256, /* of so many most are refused in microseconds */
    MESSAGES_PER_TURN = 32, /* so that one busy peer does not delay the others */
    SILENT_S = 10,          /* a connection that never says HELLO or asks anything */
    PID_FS = 0x50494446,    /* PID_FS_MAGIC of linux/magic.h */
};

static void socket_ready(void *peer, uint32_t events)
{
    struct peer *p = peer;
    union message m;
    int rc = 0;

    if (!peer_is_read(p) && (events & (EPOLLHUP | EPOLLERR)))
        p->dead = true;
    if (events & EPOLLOUT)
        list_continue(p);
    for (int i = 0; i < MESSAGES_PER_TURN && rc == 0 && !p->dead && peer_is_read(p); i++) {
        if (limit_mutes(p, clock_ns()))
            break;
        rc = stray_next(p->socket) ? -EPERM : message_receive(p->socket, TO_DAEMON, &m, NULL);
        if (rc == 0) {
            rc = request_run(p, &m);
        } else if (rc == -EPROTO) { /* so that a client of another version can say why */
            peer_send_done(p, rc, 0);
        } else if (rc == -EOPNOTSUPP) { /* only later releases know it */
            limit_charge(p, 1);
            peer_send_done(p, rc, 0);
            rc = 0;
        }
    }
    if (rc != 0 && rc != -EAGAIN)
        p->dead = true;
}

static void process_ready(void *peer, uint32_t events)
{
    ((struct peer *)peer)->dead = true;
}

static void add_peer(struct daemon *d, int fd)
{
    struct peer *p = limit_rate_exceeded(d, fd) ? NULL : peer_new(d, fd);

    if (!p || limit_refuses_peer(d, p)) {
        d->refused[REFUSED_CONNECTION]++;
        if (p)
            peer_free(p);
        else
            stray_close(fd);
        return;
    }
    DL_APPEND(d->peers, p);
    d->count++;
    p->dead = watch_begin(&p->socket_watch, d->epoll, fd, socket_ready, p) != 0 ||
              (p->who.process >= 0 &&
               watch_begin(&p->process_watch, d->epoll, p->who.process, process_ready, p) != 0);
}

static void listener_ready(void *daemon, uint32_t events)
{
    struct daemon *d = daemon;

    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(d->listener_watch.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            add_peer(d, fd);
        } else if (errno == EMFILE || errno == ENFILE) {
            /* Out of descriptors: the caller must not wait in the backlog (and epoll not spin on
             * it). So the spare descriptor is used to accept and refuse it. */
            close(d->spare);
            fd = accept4(d->listener_watch.fd, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0)
                stray_close(fd);
            stray_end();
            d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
        } else if (errno != ECONNABORTED && errno != EINTR) {
            return;
        }
    }
}

static int listener_begin(struct daemon *d)
{
    stray_forbid(d->listener->fd);
    return watch_begin(&d->listener_watch, d->epoll, d->listener->fd, listener_ready, d);
}

/* If the socket was removed no process can reach this daemon, and no other daemon can start. */
static int listener_check(struct daemon *d, uint64_t now_ns)
{
    bool had = d->listener->fd >= 0;
    int rc;

    if (now_ns < d->listener_due_ns)
        return 0;
    d->listener_due_ns = now_ns + NAME_LOOK_MS * NS_PER_MS;
    if (listener_is_named(d->listener))
        return 0;
    rc = listener_reopen(d->listener, d->conf);
    if (rc == 0)
        rc = listener_begin(d);
    if (rc == 0)
        log_line(LOG_WARN, "%s was removed and has been created again", d->listener->path);
    else if (had || rc == -EADDRINUSE)
        log_line(LOG_ERROR, "%s was removed and cannot be created again: %s", d->listener->path,
                 d->listener->why);
    return rc == -EADDRINUSE ? rc : 0;
}

/* Sends what no event announces room for. Gives up silent peers, and clients that have taken their
 * page's memory from under those above them. True: look again soon. */
static bool peers_scan(struct daemon *d, uint64_t now_ns)
{
    bool witness_due = now_ns >= d->witness_due_ns, more = false;
    struct peer *p;

    if (witness_due)
        d->witness_due_ns = now_ns + WITNESS_LOOK_MS * NS_PER_MS;
    DL_FOREACH (d->peers, p) {
        if (witness_due && p->client && !p->dead && p->above > 0 &&
            !witness_intact(p->page->witness)) {
            log_about(p->user, LOG_WARN,
                      "scheduling off for process %d of user %u, and for a minute for all "
                      "processes of that user: it discarded the memory of its page, which costs "
                      "real-time work page faults",
                      (int)p->who.pid, (unsigned)p->who.uid);
            limit_ban(p, now_ns);
            p->dead = true;
        }
        if (p->first && !(p->socket_watch.events & EPOLLOUT))
            list_continue(p);
        /* The clock may read a little less here than at the accept, on another processor. */
        if (!p->client && now_ns > p->since_ns + SILENT_S * 1000ull * NS_PER_MS)
            p->dead = true;
        if (p->muted)
            limit_mutes(p, now_ns);
        more |= p->first || !p->client || p->dead || p->muted;
    }
    return more;
}

/* Forgets processes that have ended. True: one still lives. */
static bool gone_lives(struct daemon *d)
{
    bool any = false;

    for (struct gone *g = d->gone; g < d->gone + d->gone_room; g++) {
        struct pollfd ended = {.fd = g->process, .events = POLLIN};

        if (g->process >= 0 && poll(&ended, 1, 0) > 0) {
            close(g->process);
            g->process = -1;
        }
        any |= g->process >= 0;
    }
    return any;
}

/* Compares a process without a number here by its pidfd, a file of its own since Linux 6.9. */
static bool is_same_process(const struct gone *g, const struct subject *who)
{
    struct stat its, other;
    struct statfs fs;

    if (g->process < 0 || who->pid > 0 || g->pid > 0)
        return g->process >= 0 && g->pid == who->pid;
    return fstatfs(who->process, &fs) == 0 && fs.f_type == PID_FS && fstat(g->process, &its) == 0 &&
           fstat(who->process, &other) == 0 && its.st_ino == other.st_ino;
}

/* `cutin run` only looks whether there is a daemon, and becomes a program that may read its data
 * for an hour before it uses the GPU. Keeps each process once, and of too many the last ones: the
 * daemon's user's before those of another, who may start any number. */
static void gone_remember(struct daemon *d, struct peer *p)
{
    struct gone *end = d->gone + d->gone_room, *place = NULL, *g;

    if (!d->idle_exit_s || p->who.process < 0)
        return;
    gone_lives(d);
    for (g = d->gone; g < end; g++) {
        bool better = !place || (place->process >= 0 && place->unlimited > g->unlimited);

        if (is_same_process(g, &p->who))
            return;
        if (g->process < 0 || (better && p->unlimited >= g->unlimited))
            place = g;
    }
    if (!place || watch_end(&p->process_watch) != 0)
        return;
    if (place->process >= 0)
        close(place->process);
    memmove(place, place + 1, (size_t)(end - 1 - place) * sizeof(*place));
    end[-1] = (struct gone){p->who.process, p->who.pid, p->unlimited};
    p->who.process = -1;
}

static void remove_peer(struct daemon *d, struct peer *p)
{
    struct peer *other;

    DL_FOREACH (d->peers, other)
        if (other->row == p) /* its answer to LIST goes on behind the peer */
            other->row = p->next;
    DL_DELETE(d->peers, p);
    d->count--;
    limit_leave(p);
    if (p->client) {
        if (p->below)
            mend_soon();
        topology_remove(d->peers, p);
        shifts_leave(d->peers, p);
    }
    gone_remember(d, p);
    peer_free(p);
    d->idle_since_ns = clock_ns();
}

static void signal_ready(void *daemon, uint32_t events)
{
    struct daemon *d = daemon;
    struct signalfd_siginfo info;

    while (read(d->signal_watch.fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGHUP)
            settings_reload(d);
        else
            d->stop = true;
    }
}

/* -1: never. */
static int sooner(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* Does what no event announces. Returns when it is due again, in ms; -1: nothing is due. */
static int housekeeping(struct daemon *d)
{
    uint64_t now = clock_ns();
    int wait_ms = -1;
    bool more = peers_scan(d, now);

    limit_admit_waiting(d, now);
    more |= d->waiting;
    if (d->idle_exit_s && !d->peers) {
        wait_ms = sooner(wait_ms, IDLE_LOOK_MS);
        if (gone_lives(d)) /* a process that was connected may come again */
            d->idle_since_ns = now;
        d->stop |= now >= d->idle_since_ns + d->idle_exit_s * 1000ull * NS_PER_MS;
    }
    wait_ms = sooner(wait_ms, policy_tick(d->peers, d->policy, now));
    if (heartbeat_scan(d->peers, d->policy->decide, now)) {
        if (now >= d->shifts_due_ns) {
            d->shifts_due_ns = now + SHIFTS_SCAN_MS * NS_PER_MS;
            shifts_scan(d->peers, now);
        }
        wait_ms = sooner(wait_ms, HEARTBEAT_SCAN_MS);
    } else if (d->shifts_due_ns != 0) {
        d->shifts_due_ns = 0;
        shifts_end(d->peers);
    }
    wait_ms = sooner(wait_ms, topology_expire(d->peers, now));
    wait_ms = sooner(wait_ms, usage_scan(d->peers, now));
    wait_ms = sooner(wait_ms, hold_scan(d->peers, d->conf, now));
    wait_ms = sooner(wait_ms, mend_scan(d->peers, d->policy->decide, now));
    if (d->http)
        wait_ms = sooner(wait_ms, http_maintain(d->http, now));
    wait_ms = sooner(wait_ms, notify_alive(now));
    return more ? sooner(wait_ms, 250) : wait_ms;
}

int daemon_run(struct daemon *d)
{
    struct epoll_event events[EVENTS];
    uint64_t began = clock_ns(), now, minute;
    int n, wait_ms, rc;

    d->idle_since_ns = began;
    for (;;) {
        /* Telling others of a peer that has gone may find more of them unusable: so start again. */
        for (struct peer *p = d->peers; p;)
            if (p->dead) {
                remove_peer(d, p);
                p = d->peers;
            } else {
                p = p->next;
            }
        stray_end();
        if ((rc = listener_check(d, began)) != 0)
            return rc;
        wait_ms = sooner(housekeeping(d), d->listener->path[0] ? NAME_LOOK_MS : -1);
        if (d->stop)
            return 0;
        now = clock_ns();
        minute = now / (60000 * NS_PER_MS);
        if (minute != d->loop_minute) {
            d->loop_max_last_ns = minute == d->loop_minute + 1 ? d->loop_max_ns : 0;
            d->loop_minute = minute;
            d->loop_max_ns = 0;
        }
        if (now - began > d->loop_max_ns)
            d->loop_max_ns = now - began;
        n = epoll_wait(d->epoll, events, EVENTS, wait_ms);
        if (n < 0 && errno != EINTR)
            return -errno;
        began = clock_ns();
        for (int i = 0; i < n; i++) {
            struct watch *w = events[i].data.ptr;

            w->ready(w->user, events[i].events);
        }
    }
}

int daemon_open(struct daemon *d, int metrics)
{
    sigset_t set;
    int signals, rc;

    for (int i = 0; i < DAEMON_GONE; i++)
        d->gone[i].process = -1;
    limit_descriptors(d);
    d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    d->policy = d->conf->policy;
    d->epoll = epoll_create1(EPOLL_CLOEXEC);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (d->epoll >= 0 && signals >= 0 && d->spare >= 0 && listener_begin(d) == 0 &&
        watch_begin(&d->signal_watch, d->epoll, signals, signal_ready, d) == 0 &&
        ((metrics < 0 && !d->conf->metrics[0]) || (d->http = http_new(d, metrics))))
        return 0;
    rc = -errno;
    daemon_close(d);
    return rc;
}

void daemon_close(struct daemon *d)
{
    if (d->http)
        http_free(d->http);
    while (d->peers)
        remove_peer(d, d->peers);
    stray_end();
    limit_forget(d, UINT64_MAX);
}
