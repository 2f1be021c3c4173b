/*
 * daemon.h - the scheduler daemon: one thread, one epoll loop, connections that cannot hurt it. Its
 * state, and the functions that its files offer each other; each peer points to it.
 */
#ifndef CUTIN_SCHEDULER_DAEMON_DAEMON_H
#define CUTIN_SCHEDULER_DAEMON_DAEMON_H

#include "common/clock.h"
#include "scheduler/peers/topology.h"
#include "scheduler/policy/conf.h"
#include "scheduler/wire/socket.h"

struct http;

enum { DAEMON_GONE = 32 };

/* A process that was connected and may connect again. */
struct gone {
    int process;    /* a pidfd; -1: none */
    pid_t pid;      /* 0: of another PID namespace */
    bool unlimited; /* see struct peer */
};

/* What users were refused. */
enum refused { REFUSED_CONNECTION, REFUSED_CLIENT, REFUSED_LEVEL, REFUSALS };

struct daemon {
    /* Before daemon_open; all else is 0 then. */
    struct listener *listener;
    struct conf *conf;     /* its contents change on SIGHUP */
    const char *conf_path; /* as on the command line; NULL: the default places */
    uint32_t idle_exit_s;  /* ends after that long without a connection and without a process that
                            * had one; 0: never */
    /* Connections. */
    int epoll;
    struct watch listener_watch;
    uint64_t listener_due_ns; /* when to look for the socket's name again */
    int spare;                /* a descriptor to close when there are no more */
    struct peer *peers;
    uint32_t count, room; /* of peers; without the reserve */
    uint64_t idle_since_ns;
    struct gone gone[DAEMON_GONE];
    uint32_t gone_room; /* how many of them are used; connections need the descriptors */
    /* Clients, and what they have been given. */
    uint64_t next_id;
    const struct policy *policy;
    struct user *users;    /* those that are connected, or were not long ago: limit.c */
    bool waiting;          /* a client waits until those above may be told of it */
    uint64_t admit_due_ns; /* when to ask again for those that wait */
    /* The loop. */
    struct watch signal_watch;
    struct http *http;       /* NULL: metrics are not served */
    uint64_t witness_due_ns; /* when to look at pages again */
    uint64_t shifts_due_ns;  /* when to look which clients take shifts */
    uint64_t refused[REFUSALS];
    /* The longest pass of the loop, for which events wait: of this minute, and of the last. */
    uint64_t loop_minute, loop_max_ns, loop_max_last_ns;
    bool stop;
};

/* Metrics are served at the socket `metrics`, which already listens, or, with -1, where the
 * configuration says. Blocks SIGTERM, SIGINT and SIGHUP. Returns 0 or -errno. */
int daemon_open(struct daemon *d, int metrics);
/* Runs until SIGTERM or SIGINT, a STOP message, or idleness. Returns 0 or -errno; -EADDRINUSE: this
 * daemon's socket was removed, and another daemon has taken its place. */
int daemon_run(struct daemon *d);
/* Disconnects all peers and frees what it has; its own descriptors end with the process. */
void daemon_close(struct daemon *d);

/* ---- listener.c: the listening socket, exactly one daemon per path -----------------------------
 *
 * The daemon that holds the lock file beside the socket owns the path. So a second daemon finds the
 * first one alive and ends, and what a dead one left behind is replaced without a race. */

struct listener {
    int fd;
    int folder, lock;
    ino_t file;                 /* the file that the path leads to */
    char path[SOCKET_PATH_MAX]; /* "": the socket was handed over, and must not be removed */
    char name[SOCKET_PATH_MAX];
    char lock_name[SOCKET_PATH_MAX + 8];
    char made[SOCKET_PATH_MAX]; /* the folder, if cutind made it; "": it was there */
    char why[512];              /* why it could not be opened: a line for the user */
};

/* Opens it with `conf`'s mode and group. Returns 0, or -errno and `why`; -EADDRINUSE: another
 * daemon is alive. Not while other threads run: it changes the umask. */
int listener_open(struct listener *l, const char *path, const struct conf *conf);
/* Whether the path still leads to it: users who may write there can change that. */
bool listener_is_named(const struct listener *l);
/* Opens the socket anew, in place of one that is no longer named, which stops listening. Returns
 * like listener_open; -EADDRINUSE: another daemon has taken its place. */
int listener_reopen(struct listener *l, const struct conf *conf);
/* Stops listening, removes socket and lock, and a folder that it made if nothing else is in it. */
void listener_close(struct listener *l);

/* ---- request.c ----------------------------------------------------------------------------- */

/* Does what a message asks for. Returns 0; anything else: the connection must be closed. */
int request_run(struct peer *p, const union message *m);
/* There may be room in the socket: sends what is queued, and continues an answer to LIST. */
void list_continue(struct peer *p);

/* Reads cutind.conf again. Levels follow the new rules at once; the socket keeps its mode. A file
 * with a mistake changes nothing. */
void settings_reload(struct daemon *d);

/* ---- limit.c ------------------------------------------------------------------------------- */

/* Decides for how many peers there are descriptors, besides those in reserve, and for how many
 * processes that have gone. Raises the limit of descriptors as far as it goes. */
void limit_descriptors(struct daemon *d);
/* Whether a connection must be closed at once, because its user opens too many a second. */
bool limit_rate_exceeded(struct daemon *d, int socket);
/* Whether this connection must be closed. If not, it counts as its user's until limit_leave. */
bool limit_refuses_peer(struct daemon *d, struct peer *new);
/* Whether its user has sent too much. Then the peer is muted, until this says otherwise. */
bool limit_mutes(struct peer *p, uint64_t now_ns);
/* Charges its user for what costs as much as `messages`. */
void limit_charge(struct peer *p, uint32_t messages);
/* Whether it must not become a client. Then it has been told. */
bool limit_refuses_client(struct peer *p);
/* Whether those above may be told of the client's device. If so it counts until limit_leave; if it
 * must wait, limit_admit_waiting asks for it. */
bool limit_admits_device(struct peer *p, uint32_t slot, uint64_t now_ns);
/* Asks for all that had to wait, if it is time. */
void limit_admit_waiting(struct daemon *d, uint64_t now_ns);
/* For a minute, those above are told of no more clients of this client's user. */
void limit_ban(const struct peer *p, uint64_t now_ns);
/* The connection ends. */
void limit_leave(struct peer *p);
/* Forgets users without a connection for whom nothing needs to be remembered at `now`. */
void limit_forget(struct daemon *d, uint64_t now);

/* ---- http.c -------------------------------------------------------------------------------- */

/* Serves where the configuration says, as soon as that address can be had or, with `socket` not -1,
 * at that listening socket. NULL: no memory (errno). */
struct http *http_new(const struct daemon *daemon, int socket);
/* Does what no event announces. Returns when it is due again, in ms. */
int http_maintain(struct http *h, uint64_t now_ns);
void http_free(struct http *h);

/* metrics.c: figures of all clients and of the daemon as Prometheus text. */
void metrics_print(FILE *out, const struct daemon *d);

/* cutind.c: tells the service manager that the loop runs, if that is due. Returns when it is due
 * again, in ms; -1: there is no watchdog. */
int notify_alive(uint64_t now_ns);

#endif
