/*
 * state.h - this process's own state as a client, which client.c (called by the rest of the
 * process) and link.c (which talks to the daemon) share.
 *
 * `lock` guards all of it except what is atomic and what the real-time path reads (activity.h).
 */
#ifndef CUTIN_SCHEDULER_CLIENT_STATE_H
#define CUTIN_SCHEDULER_CLIENT_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/severity.h"
#include "scheduler/client/activity.h"
#include "scheduler/client/bell.h"
#include "scheduler/client/calm.h"
#include "scheduler/client/hold_limit.h"
#include "scheduler/client/client.h"
#include "scheduler/wire/connection.h"
#include "scheduler/wire/socket.h"

enum { REMOTES = 32 }; /* orders that can wait; later ones are lost */

enum link_state {
    LINK_NONE,  /* no daemon, or not now: next attempt at retry_at_ns */
    LINK_HELLO, /* connected, waiting for WELCOME */
    LINK_UP,    /* registered */
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

struct client_state {
    pthread_mutex_t lock;
    struct client_config cfg;
    char socket[SOCKET_PATH_MAX];
    struct cutin_page *page;
    struct activity activity;
    struct hold_limit hold_limit;
    struct connection connection;
    enum link_state link;
    uint64_t retry_at_ns, backoff_ns, welcome_by_ns;
    uint64_t counted_since_ns; /* when the first page's counters began */
    uint64_t id;
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
    struct said_text {
        int severity;
        char text[640];
    } text[NOTICES]; /* for the client's thread to print: the link's has no standard error */
    uint32_t texts;
    uint32_t devices_due; /* slots of which the daemon must be told, as a mask */
    bool lifted;          /* the daemon must be told that bits were taken out and put back */
    bool own_table;       /* the link's thread has its own table, with `connection` in it */
    bool asks;            /* the daemon asks for late beats */
    bool beats_alone;     /* only the link's thread has beaten since beat_ns, its last time */
    uint64_t beat_ns;
    bool tried;  /* the thread has tried to connect at least once */
    bool linked; /* there is a link's thread */
    bool late;   /* the client's thread had not ended at client_close */
    struct bell bell;
    pthread_t thread, link_thread;
    struct waker waker;
    struct calm calm;       /* of the client's thread */
    _Atomic uint32_t level; /* granted */
    _Atomic bool open, forked, broken;
    _Atomic uint32_t news; /* for the client's thread, a futex */
    /* Futexes: the threads must end; the client's has ended; the link's has. */
    _Atomic uint32_t stop, ended, link_ended;
};

/* Keeps a text to tell the user, once per kind; `severity` as in CUTIN_LOG. */
void __attribute__((format(printf, 4, 5))) state_notice(struct client_state *self, enum notice kind,
                                                        int severity, const char *format, ...);
/* Logs the notices that were kept; from a thread with the program's descriptors. */
void state_log_notices(struct client_state *self);
/* Wakes the client's thread. Any thread. */
void state_wake(struct client_state *self);
/* Keeps an order for the owner, to be carried out once `lock` is given back. */
void state_defer_order(struct client_state *self, uint32_t kind, uint32_t value);

/* The level whose words streams of `level` look at. */
uint32_t state_word(const struct client_state *self, uint32_t level);
/* Notes the granted level: work never holds other processes as if above it. */
void state_grant(struct client_state *self, uint32_t level);

/* The slot of the nth device in the page. */
uint32_t state_slot(const struct client_state *self, uint32_t nth);
/* Writes this process's identity into the page. */
void state_identify(struct client_state *self);
/* The page's memory has just been replaced: writes what is this process's own again. Bits of others
 * are gone, so their holds are open. */
void state_refill(struct client_state *self, const struct cutin_page *old);
/* Puts private memory in place of the page that the daemon shares. */
void state_leave_daemon(struct client_state *self);

#endif
