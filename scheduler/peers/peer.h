/*
 * peer.h - one connection to the daemon, and the client behind it once it has said HELLO.
 *
 * A peer never blocks the daemon: what its socket does not take is queued, up to PEER_QUEUE and,
 * for all peers of a user, USER_QUEUE; a peer that lets even that pile up is disconnected. Who is
 * being answered is not read. Whoever finds a peer unusable only marks it `dead`; the daemon's loop
 * takes it apart later, so no list changes under a walk.
 */
#ifndef CUTIN_SCHEDULER_PEERS_PEER_H
#define CUTIN_SCHEDULER_PEERS_PEER_H

#include <errno.h>
#include <sys/epoll.h>
#include <sys/types.h>
#include <uthash.h>
#include <utlist.h>

#include "scheduler/policy/rule.h"
#include "scheduler/wire/protocol.h"

/* ---- users: what all connections of one cost the daemon together ---------------------------
 *
 * limit.c says what of that they may. */

#define USER_QUEUE (2u << 20) /* bytes */

/* A user of the machine, or of one contained cgroup. */
struct user {
    char *key; /* the user id, or permission_cgroup as a whole: who makes cgroups chooses names */
    uid_t uid; /* of its first process */
    uint32_t connections, clients;
    size_t queued; /* bytes that wait for them to be read */
    /* When the next connection, message, client that those above are told of, and line of the log
     * is due, were there no bursts. */
    uint64_t connect_ns, message_ns, told_ns, said_ns;
    uint32_t unsaid; /* lines left out since the last one */
    UT_hash_handle hh;
};

/* One more of what may come each `each_ns`, and `burst` of them at once, by the generic cell rate
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
/* And so many in its socket, twice that by the kernel's count: memory of the daemon's cgroup. */
#define PEER_SOCKET (16 << 10)

/* Something that epoll reports on. */
struct watch {
    void (*ready)(void *user, uint32_t events);
    void *user;
    int epoll, fd;
    uint32_t events; /* that epoll reports */
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

/* If it has begun. */
static inline int watch_end(struct watch *w)
{
    return w->ready ? watch_control(w, EPOLL_CTL_DEL) : 0;
}

struct daemon;
struct device;
struct outgoing;

/* A client's page, kept open until nobody has it still to be sent. */
struct shared_page {
    struct cutin_page *page;
    int fd;
    void *witness; /* witness.c */
    uint32_t references;
};

/* stand.c's: how far it had got at the last look, and for how long no further. */
struct peer_stand {
    uint64_t done, looked_ns, ns;
};

struct peer_device {
    struct device *device;              /* NULL: no such slot */
    uint32_t bit, lost;                 /* 0..27 or PROTOCOL_NO_BIT; lost: taken, not returned */
    uint64_t lost_ns;                   /* since then */
    bool wants;                         /* a bit, and there is none */
    uint32_t wrong;                     /* bits of its words, at the last look of mend.c */
    uint64_t gpu_ns, unsure_ns, memory; /* policy_tick.c's; memory: the policy's */
    uint64_t stood_ns;                  /* its too: of `stand`, at the last decision */
    uint32_t policy_level;              /* at which `memory` was gathered */
    struct peer *after;                 /* the next client of the device: policy_tick.c's */
    uint32_t after_slot;
    bool told, counted; /* to clients above; among its user's: limit.c */
    struct peer_stand stand;
    /* A hold that hold.c follows: its begin, 0 = none, and the number of those that had ended
     * before. */
    uint64_t held_from_ns, held_after;
    /* shifts.c's: looks that found work, the last one did not, what it owes for those; its place,
     * and how far others had got. */
    uint32_t backlog, debt, place;
    bool lacks;
    uint64_t others;
    /* usage.c's: what it has had, and what it had told by then. */
    uint64_t used_ns, told_ns, told_unsure_ns, shown_ns;
    bool past; /* what it had before it came is in them */
};

struct peer {
    struct watch socket_watch, process_watch;
    struct daemon *daemon;
    struct peer *prev, *next; /* daemon's list, by age */
    int socket;
    struct subject who;
    struct user *user;
    bool unlimited; /* its user controls others */
    bool client;    /* has said HELLO */
    bool dead;
    bool stalled, asked_for_beat; /* see heartbeat.c */
    uint64_t since_ns;
    struct outgoing *first, **last; /* queue */
    size_t queued;                  /* bytes */
    uint32_t answers;               /* of those in the queue, to requests */
    bool muted;                     /* its user asks too much: it is not read for now */
    /* The answer to LIST that is under way: request.c. */
    bool listing;
    struct peer *row; /* the next one; NULL: that was all */
    uint32_t rows;
    /* The client. */
    uint64_t id, client_since_ns;
    uint64_t hold_said_ns; /* not again before: hold.c */
    uint32_t asked, level, lowest;
    uint32_t asked_lowest;
    bool turned_away; /* it was told that its user has too many clients of a device */
    bool flat;        /* all of its streams have its level */
    bool bounded;     /* it enforces a bound on the length of its holds */
    bool remote; /* its level was given by somebody who controls all, whatever it may have itself */
    bool queues; /* its streams can be held: it was not real time when it came, or has deadlines */
    bool paused;
    bool expects;         /* its page counts one above it that there may be */
    uint32_t strangers;   /* clients above that were told of it when it came, and have not joined */
    uint64_t new_till_ns; /* it is held as new until then, at most; 0: it is not */
    uint32_t weight;
    uint32_t deadline_ms;  /* of its requests; 0 = not given */
    uint32_t above, below; /* links to it and from it */
    uint32_t joins;        /* that it was told, and has not said to be done */
    char name[PAGE_NAME];
    struct shared_page *page;
    struct peer_device device[PAGE_DEVICES];
};

/* All devices of the clients among `peers` that live: `p` has one at `slot`. */
#define PEER_DEVICES(peers, p, slot)                                                               \
    DL_FOREACH (peers, p)                                                                          \
        for (uint32_t slot = 0; p->client && !p->dead && slot < PAGE_DEVICES; slot++)              \
            if (p->device[slot].device)

struct peer *peer_new(struct daemon *daemon, int socket);
/* Closes and frees; the daemon has removed it from everything else. */
void peer_free(struct peer *p);
/* Sends or queues a message, with a page's descriptor unless `page` is NULL. */
void peer_send(struct peer *p, const union message *m, struct shared_page *page);
void peer_send_done(struct peer *p, int error, uint32_t count);
/* Sends what is queued, as far as the socket takes it. */
void peer_flush(struct peer *p);
/* Not while it is being answered, or is muted. */
static inline bool peer_is_read(const struct peer *p)
{
    return !p->listing && !p->answers && !p->muted;
}
/* Has epoll report what there is to read, if it is read, and that there is room, or no more. */
void peer_watch_output(struct peer *p, bool on);
/* Gives the peer its page. Returns 0 or -errno. */
int peer_make_page(struct peer *p);

/* ---- witness.c ----------------------------------------------------------------------------- */

#define WITNESS_LOOK_MS 100

/* A witness for the page behind `fd`, before anybody else has it. NULL: none can be had (no more
 * memory may be locked). */
void *witness_new(int fd);
void witness_free(void *witness);
/* True for NULL, and where the kernel does not tell. */
bool witness_intact(const void *witness);

/* ---- stray.c ------------------------------------------------------------------------------- */

/* On connections that `listener` takes from now on. */
void stray_forbid(int listener);
/* The next message has descriptors with it: it is not to be received. */
bool stray_next(int socket);
/* Closes it now, or in stray_end, if there could be some in it. */
void stray_close(int socket);
void stray_end(void);

#endif
