/*
 * state.h - what the daemon knows. Its files share it; a peer leads to it.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_STATE_H
#define CUTIN_SCHEDULER_DAEMON_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "scheduler/peers/peer.h"
#include "scheduler/peers/topology.h"
#include "scheduler/policy/conf.h"
#include "scheduler/policy/policy.h"

struct http;
struct listener;

enum { DAEMON_GONE = 32 };

/* A process that was connected and may come again. */
struct gone {
    int process;    /* a pidfd; -1: none */
    pid_t pid;      /* 0: of another PID namespace */
    bool unlimited; /* see struct peer */
};

/* What users have been refused. */
enum refused { REFUSED_CONNECTION, REFUSED_CLIENT, REFUSED_LEVEL, REFUSALS };

struct daemon {
    /* For good. */
    struct conf *conf;
    const char *conf_path; /* as on the command line; NULL: the default places */
    uint32_t idle_exit_s;  /* end after that long without use; 0 = never */
    int epoll, signals;
    /* Whoever is connected. */
    struct listener *listener;
    struct watch listener_watch;
    uint64_t listener_ns; /* when to look for its name again */
    int spare;            /* a descriptor to give up when there are no more */
    struct peer *peers;
    uint32_t count, room; /* of peers; not counting those in reserve */
    uint64_t idle_since_ns;
    struct gone gone[DAEMON_GONE];
    uint32_t gone_room; /* how many of them; the descriptors are for those who are here */
    /* Clients, and what they have been given. */
    uint64_t next_id;
    struct topology *topology;
    const struct policy *policy;
    struct user *users;       /* who is connected, or was not long ago: limit.c */
    struct account *accounts; /* those of them that have clients on a device */
    bool waiting;             /* somebody, until those above may be told of it */
    uint64_t admit_ns;        /* when to ask again for those who wait */
    /* The loop. */
    struct watch signal_watch;
    struct http *http;   /* NULL: metrics are not served */
    uint64_t witness_ns; /* when to look at pages again */
    uint64_t shifts_ns;  /* when to look who takes shifts */
    uint64_t refused[REFUSALS];
    /* The longest turn, which whatever comes in has to wait for: of this minute, and the last. */
    uint64_t turn_minute, turn_ns, turn_last_ns;
    bool stop;
};

/* What a message asks for: request.c. Returns 0; anything else: the connection is no good. */
int request_run(struct peer *p, const union message *m);
/* The same of a message that only later releases know: says so. */
int request_unknown(struct peer *p);
/* There is room in the socket: the answer to LIST goes on. */
void list_go_on(struct peer *p);
/* A peer is about to leave the list of peers: whoever would have its row next has the one behind
 * it. */
void list_skip(struct peer *peers, const struct peer *gone);

#endif
