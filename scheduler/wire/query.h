/*
 * query.h - ask the daemon who is there, and tell it what to do with running processes.
 *
 * Used by the tools, not by libcutin.so. Everything waits at most 2 s and returns 0 or -errno:
 *   -ENOENT, -ECONNREFUSED  no daemon there
 *   -ESRCH                  no such process under cutin
 *   -EPERM                  the process is another user's, or the level is above what you may have
 *   -EINVAL                 a value out of its bounds
 *   -EOPNOTSUPP             the process came as real time: its streams have no queues to hold
 *   -EPROTO                 a daemon of another version
 *   -ETIMEDOUT              the daemon does not answer
 */
#ifndef CUTIN_SCHEDULER_WIRE_QUERY_H
#define CUTIN_SCHEDULER_WIRE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/wire/protocol.h"

struct client_device_row {
    uint8_t uuid[16];
    uint32_t active;            /* highest level now active here; 0 = none above best effort */
    uint32_t held[PAGE_LEVELS]; /* hold words: nonzero = streams of that level are held */
    uint32_t bit;               /* the client's own hold bit, UINT32_MAX = it has none */
    uint64_t held_ns;           /* by other clients, without a break */
    uint32_t holders;           /* those clients, as far as they are there */
    int32_t held_by[PAGE_CLIENT_BITS];
    char io_kernel[PAGE_KERNEL]; /* its last kernel that waits for I/O of its own; "": none */
    struct {
#define ROW_COUNTER(field, help) uint64_t field;
        PAGE_COUNTERS(ROW_COUNTER)
#undef ROW_COUNTER
    } counters; /* as the client reports them */
};

struct client_row {
    uint64_t id;
    int32_t pid; /* as the kernel told the daemon */
    uint32_t uid;
    uint32_t asked, level; /* asked for and granted */
    uint32_t lowest;
    uint32_t above, below; /* clients that may hold it, and that it may hold */
    uint64_t heartbeat_age_ms;
    uint64_t age_ms; /* since it registered */
    uint32_t weight;
    bool paused;  /* by the administrator */
    bool stopped; /* by a signal or a debugger */
    bool queues;  /* false: it came as real time, its streams have no queues */
    bool stuck;   /* work of it completes nothing, and holds nobody any more */
    char name[PAGE_NAME];
    uint32_t devices;
    struct client_device_row device[PAGE_DEVICES];
#define ROW_TIME(field, help) uint32_t field##_times[HISTOGRAM_BUCKETS];
    PAGE_TIMES(ROW_TIME) /* see histogram.h */
#undef ROW_TIME
    bool active; /* work above best effort on any device */
    bool held;   /* any level from `lowest` to `level` is held on any device */
};

/* Asks the daemon at `socket` for all its clients, in order of their ids. *rows is the caller's to
 * free(). */
int query_clients(const char *socket, struct client_row **rows, size_t *n);
/* Asks the daemon to end; only its owner and root may (-EPERM). Returns when it has gone, or
 * -ETIMEDOUT after 2 s. */
int query_stop(const char *socket);

/* A process: by the id that `list` shows, or, with id 0, by its process id (as the daemon sees it;
 * in containers that is not the one inside). */
struct control_target {
    uint64_t client;
    int32_t pid;
};

/* LEVEL, WEIGHT, BUDGET_US, DEPTH; effective at once, until the process ends. */
int control_set(const char *socket, struct control_target target, enum control_kind what,
                uint32_t value);
/* Holds all streams of the process, whatever runs, until it is resumed. */
int control_pause(const char *socket, struct control_target target);
int control_resume(const char *socket, struct control_target target);
/* Drops what is buffered and not submitted, in one stream (they count from 0, in the order they
 * were made) or in CONTROL_ALL_STREAMS. How many commands that was shows in the counter `dropped`.
 */
int control_reset(const char *socket, struct control_target target, uint32_t stream);

/* Makes `name` the policy (NULL: leaves it as it is) and tells which it is now. -ENOENT also where
 * there is no policy of that name. */
int control_policy(const char *socket, const char *name, char now[PAGE_NAME]);

#endif
