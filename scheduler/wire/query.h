/*
 * query.h - ask the daemon for its clients, and give it orders for running processes.
 *
 * Used by the tools, not by libcutin.so. Each function waits at most QUERY_WAIT_MS and returns 0 or
 * -errno:
 *   -ENOENT, -ECONNREFUSED  no daemon there
 *   -ESRCH                  no such process under cutin
 *   -EPERM                  the process is another user's, or its user may not have the level
 *   -EINVAL                 a value out of its bounds
 *   -EOPNOTSUPP             the process came as real time: its streams have no queues to hold
 *   -EPROTO                 a daemon of another version
 *   -ETIMEDOUT              the daemon does not answer
 */
#ifndef CUTIN_SCHEDULER_WIRE_QUERY_H
#define CUTIN_SCHEDULER_WIRE_QUERY_H

#include "scheduler/wire/protocol.h"

enum { QUERY_WAIT_MS = 10000 }; /* a busy machine's daemon may take seconds */

/* Whether the client has work above best effort on any device. */
bool row_active(const struct message_row *row);
/* Whether any of its levels is held on any device. */
bool row_held(const struct message_row *row);
/* Stores the process ids of the clients among these rows that hold `row` on its device number
 * `device`. Returns how many they are. */
uint32_t row_holders(const struct message_row *row, uint32_t device, const struct message_row *rows,
                     size_t n, int32_t pid[PAGE_CLIENT_BITS]);
/* Asks the daemon at `socket` for all its clients, in order of their ids. The caller frees *rows
 * with free(). */
int query_clients(const char *socket, struct message_row **rows, size_t *n);

/* Sends the question in *m and receives its one answer there, which is of the type `answer`. Any
 * other is an error: a DONE's own, or -EPROTO. */
int query_one(const char *socket, union message *m, uint16_t answer);

/* Names a process by the id that `list` shows or, if that is 0, by its process id as the daemon
 * sees it (in containers that is not the one inside). */
struct control_target {
    uint64_t client;
    int32_t pid;
};

/*
 * Gives the process an order, which takes effect at once and lasts until the process ends. LEVEL,
 * WEIGHT, BUDGET_US and DEPTH set that value. PAUSE holds all its streams until RESUME; both have
 * the value 0. RESET drops what is buffered and not submitted, in one stream (they count from 0, in
 * the order in which they were made) or in CONTROL_ALL_STREAMS. The counter `dropped` shows how
 * many commands that was.
 */
int control_order(const char *socket, struct control_target target, enum control_kind kind,
                  uint32_t value);

/* Makes `name` the policy (NULL: leaves it as it is) and tells the current one. Also -ENOENT if
 * there is no policy of that name. */
int control_policy(const char *socket, const char *name, char now[PAGE_NAME]);

#endif
