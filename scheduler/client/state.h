/*
 * state.h - this process's own state as a client, which client.c (called by the rest of the
 * process) and link.c (which talks to the daemon) share, and what they offer each other.
 *
 * `lock` guards all of it except what is atomic and what the real-time path reads (activity.h).
 * The functions are called with it, unless they say otherwise.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_STATE_H
#define CUTIN_SCHEDULER_CLIENT_STATE_H

#include "scheduler/client/activity.h"
#include "scheduler/client/hold_limit.h"
#include "scheduler/client/client.h"
#include "scheduler/wire/socket.h"

enum { REMOTES = 32 }; /* orders that can wait; later ones are lost */

enum link_state {
    LINK_NONE,  /* no daemon, or not now: next attempt at due_ns */
    LINK_HELLO, /* connected, waiting for WELCOME until due_ns */
    LINK_UP,    /* registered */
    LINK_NEW,   /* the thread has not tried to connect yet */
    LINK_REAP,  /* disconnected, pages below not all given back yet */
};

/* What the user is told, each once per process. */
enum notice {
    NOTICE_NO_DAEMON,
    NOTICE_LOST,
    NOTICE_BACK,
    NOTICE_REFUSED,
    NOTICE_NO_BIT,
    NOTICE_FULL,
    NOTICES
};

extern struct client_state {
    pthread_mutex_t lock;
    struct client_config cfg;
    char socket[SOCKET_PATH_MAX];
    struct cutin_page *page;
    struct activity activity;
    struct hold_limit hold_limit;
    struct connection connection;
    enum link_state link;
    uint64_t due_ns, backoff_ns;
    uint64_t counted_since_ns;             /* when the first page's counters began */
    struct message_remote remote[REMOTES]; /* to be carried out once `lock` is given back */
    uint32_t remote_count;
    /* The orders that are in force, to be told to a daemon that does not know them. */
    uint32_t remote_level, remote_weight; /* the level + 1; 0 = not ordered */
    bool paused;
    _Atomic uint32_t generation; /* of the page's memory */
    uint32_t share_percent;      /* least share of best effort, as the daemon said */
    uint32_t devices;
    uint32_t streams[PAGE_LEVELS], above_own;
    bool said[NOTICES];
    char text[NOTICES][640]; /* to be printed: the link's thread has no standard error */
    uint32_t texts;
    uint32_t devices_due; /* slots of which the daemon must be told, as a mask */
    bool lifted;          /* the daemon must be told that bits were taken out and put back */
    bool own_table;       /* the link's thread has its own table, with `connection` in it */
    bool asks;            /* the daemon asks for late beats */
    bool linked;          /* there is a link's thread */
    bool late;            /* the client's thread had not ended at client_close */
    pthread_t thread, link_thread;
    _Atomic bool open, forked, broken;
    _Atomic uint32_t news; /* for the client's thread, a futex */
    /* Futexes: the threads must end; the client's has ended; the link's has. */
    _Atomic uint32_t stop, ended, link_ended;
} self;

/* The level whose words streams of `level` look at. */
static inline uint32_t state_word(uint32_t level)
{
    return atomic_load_explicit(&self.activity.flat, memory_order_relaxed) ? 0 : level;
}

/* The slot of the nth device in the page. */
static inline uint32_t state_slot(uint32_t nth)
{
    return (self.cfg.first_slot + nth) % PAGE_DEVICES;
}

/* ---- client.c ------------------------------------------------------------------------------ */

/* Keeps a warning for the user, once per kind. */
void __attribute__((format(printf, 2, 3))) state_notice(enum notice kind, const char *format, ...);
/* Wakes the client's thread. Any thread, without the lock too. */
void state_wake(void);
/* Whether the process is left alone. Any thread, without the lock too. */
bool calm_is_on(void);

/* ---- link.c -------------------------------------------------------------------------------- */

/* Notes the granted level: work never holds other processes as if above it. */
void state_grant(uint32_t level);

/* Has the daemon told what is due. Any thread. */
void link_flush(void);
/* Starts the thread "cutin-link". Returns 0 or -errno. */
int link_start(void);
/* To be called with `stop` set, without the lock: makes the thread leave the daemon and end. False:
 * it has not ended by that time. */
bool link_end(uint64_t by_ns);

#endif
