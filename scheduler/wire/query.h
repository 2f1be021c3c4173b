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

/* There is work above best effort on any device. */
bool row_active(const struct message_row *row);
/* Any of its levels is held on any device. */
bool row_held(const struct message_row *row);
/* The clients of these rows that hold `row` on its device number `device`, as process ids. Returns
 * how many. */
uint32_t row_holders(const struct message_row *row, uint32_t device, const struct message_row *rows,
                     size_t n, int32_t pid[PAGE_CLIENT_BITS]);
/* Asks the daemon at `socket` for all its clients, in order of their ids. *rows is the caller's to
 * free(). */
int query_clients(const char *socket, struct message_row **rows, size_t *n);
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
