/*
 * state.h - this process's own state as a client: what client.c, which others call, and link.c,
 * which talks to the daemon, have in common.
 *
 * `lock` guards all of it but what is atomic and what the real-time path reads (activity.h).
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

enum { REMOTES = 32 }; /* waiting; more than that are lost, the last ones first */

enum link_state {
    LINK_NONE,  /* no daemon, or not now: next attempt at retry_ns */
    LINK_HELLO, /* connected, waiting for WELCOME */
    LINK_UP,    /* registered */
    LINK_DRAIN, /* disconnected, pages below not all given back yet */
};

/* What is said to the user, each once per process. */
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
    uint64_t retry_ns, backoff_ns, welcome_by_ns;
    uint64_t counted_since_ns; /* when the first page's counters began */
    uint64_t id;
    struct message_remote remote[REMOTES]; /* to be carried out once `lock` is given back */
    uint32_t remote_count;
    /* What was ordered and is in force, to be told to a daemon that does not know it. */
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
    } text[NOTICES]; /* for the client's thread to tell: the link's has no standard error */
    uint32_t texts;
    uint32_t devices_due; /* slots that the daemon is to be told of, a bit each */
    bool lifted;          /* it is to be told that bits were taken out of the page, and are back */
    bool own_table;       /* the link's thread has one, and `connection` is there */
    bool asks;            /* the daemon does, for a beat that is late */
    bool beats_alone;     /* the client's thread has not since beat_ns, when the link's last did */
    uint64_t beat_ns;
    bool tried;  /* to connect, once at least */
    bool linked; /* there is that thread */
    bool late;   /* the client's had not ended when it was closed */
    struct bell bell;
    pthread_t thread, link_thread;
    struct waker waker;
    struct calm calm;       /* the client's thread's */
    _Atomic uint32_t level; /* granted */
    _Atomic bool open, forked, broken;
    _Atomic uint32_t news; /* for the client's thread, a futex */
    /* Threads are to end, and have; futexes. */
    _Atomic uint32_t stop, ended, link_ended;
};

/* To be told, once per kind of notice; `severity` as in CUTIN_LOG. */
void __attribute__((format(printf, 4, 5))) state_say(struct client_state *self, enum notice kind,
                                                     int severity, const char *format, ...);
/* Tells the user what was said; from a thread with the program's descriptors. */
void state_tell(struct client_state *self);
/* The client's thread looks at once. Any thread. */
void state_news(struct client_state *self);
/* For the owner, once `lock` is given back. */
void state_remote(struct client_state *self, uint32_t kind, uint32_t value);

/* The level whose words streams of `level` look at. */
uint32_t state_word(const struct client_state *self, uint32_t level);
/* The level is granted: nothing above it is done to other processes. */
void state_grant(struct client_state *self, uint32_t level);

/* Where in the page the nth device is. */
uint32_t state_slot(const struct client_state *self, uint32_t nth);
/* Writes into the page whose it is. */
void state_identify(struct client_state *self);
/* The page's memory has just been replaced: puts back what is this process's own. Bits of others
 * are gone, which opens their holds. */
void state_refill(struct client_state *self, const struct cutin_page *old);
/* Private memory takes the place of the page that the daemon shares. */
void state_leave_daemon(struct client_state *self);

#endif
