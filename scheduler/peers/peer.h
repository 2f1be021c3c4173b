/*
 * peer.h - one connection to the daemon, and the client behind it once it has said HELLO.
 *
 * A peer never blocks the daemon: what its socket does not take is queued, up to PEER_QUEUE and,
 * for all peers of a user, USER_QUEUE. A peer that exceeds these is disconnected. While a peer has
 * answers to come, nothing is read from it. Code that finds a peer unusable only marks it `dead`;
 * the daemon's loop removes it later, so no list changes under a walk.
 */
#ifndef CUTIN_SCHEDULER_PEERS_PEER_H
#define CUTIN_SCHEDULER_PEERS_PEER_H

#include <errno.h>
#include <sys/epoll.h>
#include <uthash.h>
#include <utlist.h>

#include "common/text.h"
#include "scheduler/policy/rule.h"
#include "scheduler/wire/protocol.h"

/* ---- users: what all connections of one cost the daemon together ---------------------------
 *
 * limit.c says how much that may be. */

#define USER_QUEUE (2u << 20) /* bytes */

/* A user of the machine, or of one contained cgroup. */
struct user {
    char *key; /* the user id, or all of permission_cgroup: its parts are names that users choose */
    uid_t uid; /* of its first process */
    uint32_t connections, clients;
    size_t queued; /* bytes that wait until its peers read */
    /* When the next connection, message, client to tell those above of, and line of the log would
     * be due without bursts. */
    uint64_t connect_due_ns, message_due_ns, told_ns, log_due_ns;
    uint32_t unsaid;      /* lines left out since the last one */
    struct quota *quotas; /* of limit.c, by device */
    UT_hash_handle hh;
};

/* Takes one of what may come every `each_ns`, or `burst` of them at once, by the generic cell rate
 * algorithm. False: not yet. */
static inline bool rate_take(uint64_t *due_ns, uint64_t now_ns, uint64_t each_ns, uint32_t burst)
{
    uint64_t due = *due_ns > now_ns ? *due_ns : now_ns;

    if (due - now_ns > (burst - 1) * each_ns)
        return false;
    *due_ns = due + each_ns;
    return true;
}

/* ---- peers --------------------------------------------------------------------------------- */

#define PEER_QUEUE (256u << 10) /* bytes */
/* Bytes in its socket, twice that by the kernel's count: memory of the daemon's cgroup. */
#define PEER_SOCKET (16 << 10)

/* A descriptor that epoll reports on. */
struct watch {
    void (*ready)(void *user, uint32_t events);
    void *user;
    int epoll, fd;
    uint32_t events; /* those that epoll reports */
};

static inline int watch_control(struct watch *w, int what)
{
    struct epoll_event event = {.events = w->events, .data.ptr = w};

    return epoll_ctl(w->epoll, what, w->fd, &event) == 0 ? 0 : -errno;
}

/* `ready` is called when there is something to read, until watch_change. Return 0 or -errno. */
static inline int watch_begin(struct watch *w, int epoll, int fd,
                              void (*ready)(void *user, uint32_t events), void *user)
{
    *w = (struct watch){.ready = ready, .user = user, .epoll = epoll, .fd = fd, .events = EPOLLIN};
    return watch_control(w, EPOLL_CTL_ADD);
}

static inline int watch_change(struct watch *w, uint32_t events)
{
    if (events == w->events)
        return 0;
    w->events = events;
    return watch_control(w, EPOLL_CTL_MOD);
}

/* Ends it, if it has begun. */
static inline int watch_end(struct watch *w)
{
    return w->ready ? watch_control(w, EPOLL_CTL_DEL) : 0;
}

/* A client's page, kept open until no queue has it to send. */
struct shared_page {
    struct cutin_page *page;
    int fd;
    void *witness; /* witness.c */
    uint32_t references;
};

/* A slot of a client, where it may have a device. */
struct peer_device {
    struct device *device;              /* NULL: none */
    struct peer *peer;                  /* whose it is; only with a device */
    uint32_t bit, revoked;              /* 0..27 or PROTOCOL_NO_BIT; revoked: taken, not returned */
    uint64_t revoked_at_ns;             /* since when */
    bool wants;                         /* it wants a bit, and there was none */
    uint32_t wrong;                     /* wrong bits in its words at the last scan of mend.c */
    uint64_t gpu_ns, unsure_ns, memory; /* of policy_tick.c; memory: of the policy */
    uint64_t stalled_ns;                /* of the same: stall.ns at the last decision */
    uint32_t policy_level;              /* at which `memory` was gathered */
    struct peer_device *prev, *next;    /* in the device's list: of the same */
    bool told, counted;                 /* to clients above; among its user's clients (limit.c) */
    struct { /* of stall.c: how far the work had got when last measured; for how long no further */
        uint64_t done, measured_at_ns, ns;
        uint64_t in_flight_ns; /* of `ns`, with something in flight all the time */
    } stall;
    /* A hold that hold.c follows: its begin (0 = none), and how many holds had ended before. */
    uint64_t hold_began_ns, holds_before;
    /* Of shifts.c: scans that found work, its debt for scans that found none, its place; whether
     * the last scan found none; whether it has work and takes no shifts, so that only time slices
     * part it from others; how far its own work and that of others had got; its cut-ins by then. */
    uint32_t busy_scans, debt, place;
    bool lacks, sliced;
    uint32_t recovers; /* it did of late (stall.c), and so many scans have to find progress */
    uint64_t done, others, cut_ins;
    /* Of usage.c: the time that it has had, and what it had told by then. */
    uint64_t used_ns, told_ns, told_unsure_ns, shown_ns;
    bool past; /* they have what it used before it came */
};

struct peer {
    struct watch socket_watch, process_watch;
    struct daemon *daemon;
    struct peer *prev, *next; /* daemon's list, by age */
    int socket;
    struct subject who;
    struct user *user;
    bool unlimited; /* its user may control other users' processes */
    bool client;    /* has said HELLO */
    bool dead;
    bool stopped, asked_for_beat; /* see heartbeat.c */
    uint64_t since_ns;
    struct outgoing *first; /* queue */
    size_t queued;          /* bytes */
    uint32_t answers;       /* how many of these answer requests */
    bool muted;             /* its user sends too much: it is not read for now */
    /* The answer to LIST that is under way, see request.c. */
    bool listing;
    struct peer *row; /* the next to send; NULL: all are sent */
    uint32_t rows;
    /* The client. */
    uint64_t id, client_since_ns;
    uint64_t hold_warn_due_ns; /* no warning again before that, see hold.c */
    uint32_t asked, level, lowest;
    uint32_t asked_lowest;
    bool turned_away; /* it was told that its user has too many clients on a device */
    bool flat;        /* all of its streams have its level */
    bool bounded;     /* it enforces a bound on the length of its holds */
    bool remote; /* its level was given by a user who controls all, whatever it may have itself */
    bool queues; /* its streams can be held: it did not come as real time, or gives deadlines */
    bool paused;
    bool expects;         /* its page counts one client above that may come */
    uint32_t strangers;   /* clients above, told of it when it came, that have not joined it yet */
    uint64_t new_till_ns; /* it is held as new until then at most; 0: it is not */
    uint32_t weight;
    uint32_t deadline_ms;  /* of its requests; 0 = none */
    uint32_t above, below; /* links to it and from it */
    uint32_t joins;        /* JOINs that it has not answered with JOINED */
    char name[PAGE_NAME];
    struct shared_page *page;
    struct peer_device device[PAGE_DEVICES];
};

/* Walks all clients among `peers`. */
#define PEER_CLIENTS(peers, p)                                                                     \
    for (__typeof__(*(peers)) *p = (peers); p; p = p->next)                                        \
        if (p->client)

/* Walks the devices of one: it has each `at` a slot. */
#define PEER_SLOTS(p, at)                                                                          \
    for (__typeof__(*(p)->device) *at = (p)->device; at < (p)->device + PAGE_DEVICES; at++)        \
        if (at->device)

/* Walks all devices of those that are not dead: `p` has each `at` a slot. */
#define PEER_DEVICES(peers, p, at)                                                                 \
    PEER_CLIENTS (peers, p)                                                                        \
        for (__typeof__(*p->device) *at = p->device; !p->dead && at < p->device + PAGE_DEVICES;    \
             at++)                                                                                 \
            if (at->device)

static inline uint32_t device_slot(const struct peer_device *at)
{
    return (uint32_t)(at - at->peer->device);
}

/* Its part of its client's page. */
static inline struct page_device *device_page(const struct peer_device *at)
{
    return &at->peer->page->page->device[device_slot(at)];
}

struct peer *peer_new(struct daemon *daemon, int socket);
/* Closes and frees it; the daemon has removed it from everything else. */
void peer_free(struct peer *p);
/* Sends or queues a message, with a page's descriptor unless `page` is NULL. */
void peer_send(struct peer *p, const union message *m, struct shared_page *page);
void peer_send_done(struct peer *p, int error, uint32_t count);
/* Sends what is queued, as far as the socket takes it. */
void peer_flush(struct peer *p);
/* Whether it is read now: not while it has answers to come, or is muted. */
static inline bool peer_is_read(const struct peer *p)
{
    return !p->listing && !p->answers && !p->muted;
}
/* Has epoll report input, if the peer is read, and, with `on`, room for output. */
void peer_watch_output(struct peer *p, bool on);
/* Gives the peer its page. Returns 0 or -errno. */
int peer_make_page(struct peer *p);

/* ---- log.c: one line per event on stderr, with a severity ------------------------------------
 *
 * If stderr is the journal, a line begins with its severity in the journal's own notation. A log
 * that is not read delays nothing: lines are lost, and counted. */

extern uint32_t log_most; /* the least severe lines that are logged */
/* Logs an event that a user's processes caused (NULL: a user without limits, or no user): 32 lines
 * at once, and then one a second. A line after that first says how many were left out. */
void log_about(struct user *user, uint32_t severity, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define log_line(...) log_about(NULL, __VA_ARGS__)
/* Lines that were lost or left out since the beginning. */
extern uint64_t log_dropped;

/* ---- witness.c ----------------------------------------------------------------------------- */

#define WITNESS_LOOK_MS 100

/* Makes a witness for the page behind `fd`, before any other process has it. NULL: there can be
 * none (no more memory may be locked). */
void *witness_new(int fd);
void witness_free(void *witness);
/* Also true for NULL, and if the kernel does not tell. */
bool witness_intact(const void *witness);

/* ---- stray.c ------------------------------------------------------------------------------- */

/* Forbids them on connections that `listener` accepts from now on. */
void stray_forbid(int listener);
/* Whether the next message carries descriptors: then it must not be received. */
bool stray_next(int socket);
/* Closes the socket now, or in stray_end if there could be descriptors in it. */
void stray_close(int socket);
void stray_end(void);

#endif
