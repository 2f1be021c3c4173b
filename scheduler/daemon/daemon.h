/*
 * daemon.h - the scheduler daemon: one thread, one epoll loop, connections that cannot hurt it.
 * What it knows, and what its files offer each other; a peer leads to it.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_DAEMON_H
#define CUTIN_SCHEDULER_DAEMON_DAEMON_H

#include "common/clock.h"
#include "scheduler/peers/topology.h"
#include "scheduler/policy/conf.h"

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

/* Ends after `idle_exit_s` without a connection and without a process that had one; 0: never. It
 * may replace the contents of `conf` on SIGHUP, from `conf_path`, which is as on the command line;
 * NULL: the default places. Blocks SIGTERM, SIGINT and SIGHUP. Returns NULL where there is no
 * memory or no descriptor (errno). */
struct daemon *daemon_new(struct listener *listener, uint32_t idle_exit_s, struct conf *conf,
                          const char *conf_path);
/* Serves the metrics at a socket that listens already, or, with -1, where the configuration says.
 * Returns 0 or -ENOMEM. */
int daemon_serve_metrics(struct daemon *d, int socket);
/* Until SIGTERM or SIGINT, a STOP message, or idleness. Returns 0 or -errno; -EADDRINUSE: another
 * daemon has taken the place of this one's socket, which somebody had removed. */
int daemon_run(struct daemon *d);
/* Disconnects everybody and frees. */
void daemon_free(struct daemon *d);

/* ---- request.c ----------------------------------------------------------------------------- */

/* What a message asks for. Returns 0; anything else: the connection is no good. */
int request_run(struct peer *p, const union message *m);
/* The same of a message that only later releases know: says so. */
int request_unknown(struct peer *p);
/* There is room in the socket: the answer to LIST goes on. */
void list_go_on(struct peer *p);
/* A peer is about to leave the list of peers: whoever would have its row next has the one behind
 * it. */
void list_skip(struct peer *peers, const struct peer *gone);

/* Reads cutind.conf again. Levels follow the new rules at once; the socket keeps its mode. A file
 * that is wrong changes nothing. */
void settings_reload(struct daemon *d);

/* ---- limit.c ------------------------------------------------------------------------------- */

/* For how many peers there are descriptors, besides those in reserve, and for how many processes
 * that have gone. Raises the limit as far as it goes. */
void limit_room(struct daemon *d);
/* Must a connection be closed at once, because its user opens too many a second? */
bool limit_comes(struct daemon *d, int socket);
/* May this connection not stay? If it may, it is one of its user's until limit_leave. */
bool limit_connection(struct daemon *d, struct peer *new);
/* Has its user asked too much? Then it is muted, until this says otherwise. */
bool limit_mutes(struct peer *p, uint64_t now_ns);
/* It has asked what costs as much as `messages`. */
void limit_charge(struct peer *p, uint32_t messages);
/* May it not become a client? Then it has been told. */
bool limit_client(struct peer *p);
/* May those above be told of the client's device? If so it is counted until limit_leave; if it must
 * wait, limit_device_again asks for it. */
bool limit_device(struct peer *p, uint32_t slot, uint64_t now_ns);
/* Asks for all who had to wait, if it is time. */
void limit_device_again(struct daemon *d, uint64_t now_ns);
/* Those above are told of none of this client's user for a minute. */
void limit_ban(const struct peer *p, uint64_t now_ns);
/* The connection goes. */
void limit_leave(struct peer *p);
/* Forgets users without a connection of whom nothing is to be remembered any more by then. */
void limit_forget(struct daemon *d, uint64_t now);

/* ---- http.c -------------------------------------------------------------------------------- */

/* Serves at `address` as soon as that is to be had, or, with `socket` not -1, at what that listens
 * at. NULL: no memory. */
struct http *http_new(int epoll, const char *address, int socket, const struct daemon *daemon);
/* What no event announces. Returns when it is due again, in ms. */
int http_look(struct http *h, uint64_t now_ns);
void http_free(struct http *h);

/* metrics.c: figures of all clients and of the daemon as Prometheus text. */
void metrics_print(FILE *out, const struct daemon *d);

/* ---- notify.c ------------------------------------------------------------------------------ */

/* "READY=1" and the like, to whoever asked to be told. */
void notify(const char *state);
/* Says that the loop turns, if that is due to be said. Returns when it is due again, in ms; -1:
 * nobody watches. */
int notify_alive(uint64_t now_ns);

#endif
