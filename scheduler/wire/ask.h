/*
 * ask.h - ask the daemon who is there.
 *
 * Used by the tools, not by libcutin.so.
 */
#ifndef CUTIN_SCHEDULER_WIRE_ASK_H
#define CUTIN_SCHEDULER_WIRE_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/wire/page.h"

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
 * free(). Waits at most 2 s. Returns 0, or -errno: -ENOENT or -ECONNREFUSED no daemon, -ETIMEDOUT,
 * -EPROTO a daemon of another version. */
int ask_clients(const char *socket, struct client_row **rows, size_t *n);
/* Asks the daemon to end; only its owner and root may (-EPERM). Returns when it has gone, or
 * -ETIMEDOUT after 2 s. */
int ask_stop(const char *socket);

union message;
/* One question and its one answer, in the same place. Waits at most 2 s. */
int ask_one(const char *socket, union message *m);
/* One question that is answered by DONE alone: returns its error. Waits at most 2 s. */
int ask_do(const char *socket, const union message *question);

#endif
