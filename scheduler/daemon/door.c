/*
 * door.c - the daemon's connections: who comes in, is read and answered, and goes.
 */
#include "scheduler/daemon/door.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utlist.h>

#include "scheduler/daemon/limit.h"
#include "scheduler/daemon/list.h"
#include "scheduler/daemon/request.h"
#include "scheduler/daemon/state.h"
#include "scheduler/peers/shifts.h"
#include "scheduler/policy/job.h"
#include "common/clock.h"

enum {
    ACCEPTS_PER_TURN = 64,
    MESSAGES_PER_TURN = 32, /* so that one busy peer does not keep the others waiting */
    SILENT_S = 10,          /* a connection that never says HELLO or asks anything */
};

/* ---- one peer -------------------------------------------------------------------------------- */

static void flush(struct peer *p)
{
    peer_flush(p);
    if (p->listing)
        list_go_on(p);
}

static void socket_ready(void *peer, uint32_t events)
{
    struct peer *p = peer;
    union message m;
    int rc = 0;

    if (p->listing && (events & (EPOLLHUP | EPOLLERR)))
        p->dead = true;
    if (events & EPOLLOUT)
        flush(p);
    for (int i = 0; i < MESSAGES_PER_TURN && rc == 0 && !p->dead && !p->listing; i++) {
        rc = message_receive(p->socket, TO_DAEMON, &m, NULL);
        if (rc == 0)
            rc = request_run(p, &m);
        else if (rc == -EPROTO)
            peer_send_done(p, -EPROTO, 0); /* so that a client of another version can say why */
    }
    if (rc != 0 && rc != -EAGAIN)
        p->dead = true;
}

static void process_ready(void *peer, uint32_t events)
{
    struct peer *p = peer;

    p->dead = true;
}

/* ---- coming ---------------------------------------------------------------------------------- */

static void add_peer(struct daemon *d, int fd)
{
    struct peer *p = peer_new(d, fd);

    if (!p) {
        close(fd);
        return;
    }
    job_of_process(d->conf->jobs, d->conf->owner, p->who.pid, p->who.uid, &p->who.job);
    if (limit_connection(d, p) ||
        watch_begin(&p->socket_watch, d->epoll, fd, socket_ready, p) != 0 ||
        (p->process >= 0 &&
         watch_begin(&p->process_watch, d->epoll, p->process, process_ready, p) != 0)) {
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
    fd = accept4(d->listener_watch.fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void listener_ready(void *daemon, uint32_t events)
{
    struct daemon *d = daemon;

    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        int fd = accept4(d->listener_watch.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0)
            add_peer(d, fd);
        else if (errno == EMFILE || errno == ENFILE)
            turn_away(d);
        else if (errno != ECONNABORTED && errno != EINTR)
            return;
    }
}

int door_open(struct daemon *d, int listener)
{
    d->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (d->spare < 0)
        return -errno;
    return watch_begin(&d->listener_watch, d->epoll, listener, listener_ready, d);
}

/* ---- staying and going ----------------------------------------------------------------------- */

bool door_look(struct daemon *d, uint64_t now_ns)
{
    bool more = false;
    struct peer *p;

    DL_FOREACH (d->peers, p) {
        if (p->first && !(p->socket_watch.events & EPOLLOUT))
            flush(p);
        if (!p->client && now_ns - p->since_ns > SILENT_S * 1000ull * NS_PER_MS)
            p->dead = true;
        more |= p->first || !p->client || p->dead;
    }
    return more;
}

static void remove_peer(struct daemon *d, struct peer *p)
{
    list_skip(d->peers, p);
    DL_DELETE(d->peers, p);
    d->count--;
    if (p->client) {
        limit_leave(p);
        topology_remove(d->topology, d->peers, p);
        shifts_leave(d->peers, p);
    }
    peer_free(p);
    d->idle_since_ns = clock_ns();
}

/* Telling the others of one that has gone may find more of them unusable: from the start again. */
void door_remove_dead(struct daemon *d)
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

void door_close(struct daemon *d)
{
    while (d->peers)
        remove_peer(d, d->peers);
    if (d->spare >= 0)
        close(d->spare);
}
