/*
 * query.c - ask the daemon who is there, and tell it what to do with running processes.
 */
#include "scheduler/wire/query.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/list.h"
#include "scheduler/wire/socket.h"

#define WAIT_NS (2000ull * NS_PER_MS)
#define TRY_NS  NS_PER_MS /* between two tries to connect */

/* One more message before the deadline. */
static int next_message(int fd, union message *m, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_ns();
        int rc = message_receive(fd, TO_CLIENT, m, NULL);

        if (rc != -EAGAIN)
            return rc;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        if (poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
            return -errno;
    }
}

/* More want in than the daemon has let in so far: it will. */
static int connect_by(const char *socket, uint64_t deadline_ns)
{
    int fd;

    while ((fd = socket_connect(socket)) == -EAGAIN) {
        uint64_t now = clock_ns();

        if (now >= deadline_ns)
            return -ETIMEDOUT;
        clock_sleep_until(now + TRY_NS);
    }
    return fd;
}

static int ask(const char *socket, const union message *question, uint64_t deadline_ns)
{
    int fd = connect_by(socket, deadline_ns), rc;

    if (fd < 0)
        return fd;
    rc = message_send(fd, question, -1);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

static int ask_plainly(const char *socket, enum message_type type, uint64_t deadline_ns)
{
    union message m;

    message_init(&m, type);
    return ask(socket, &m, deadline_ns);
}

/* One question and its one answer, in the same place. */
static int query_one(const char *socket, union message *m)
{
    uint64_t deadline = clock_ns() + WAIT_NS;
    int fd = ask(socket, m, deadline), rc;

    if (fd < 0)
        return fd;
    rc = next_message(fd, m, deadline);
    close(fd);
    return rc;
}

/* What an answer DONE says. */
static int done_error(const union message *m)
{
    return m->header.type == MESSAGE_DONE ? m->done.error : -EPROTO;
}

static void take_device(struct client_device_row *to, const struct message_row_device *from)
{
    memcpy(to->uuid, from->uuid, sizeof(to->uuid));
    to->active = from->active;
    memcpy(to->held, from->held, sizeof(to->held));
    to->bit = from->bit == PROTOCOL_NO_BIT ? UINT32_MAX : from->bit;
    to->held_ns = from->held_ns;
    memcpy(to->io_kernel, from->io_kernel, sizeof(to->io_kernel) - 1);
#define TAKE(field, help) to->counters.field = from->field;
    PAGE_COUNTERS(TAKE)
#undef TAKE
}

static void take_row(struct client_row *to, const struct message_row *from)
{
    *to = (struct client_row){
        .id = from->client,
        .pid = from->pid,
        .uid = from->uid,
        .asked = from->asked,
        .level = from->level,
        .lowest = from->lowest,
        .above = from->above,
        .below = from->below,
        .heartbeat_age_ms = from->heartbeat_age_ms,
        .age_ms = from->age_ms,
        .weight = from->weight,
        .paused = from->state & ROW_PAUSED,
        .stopped = from->state & ROW_STOPPED,
        .queues = from->state & ROW_QUEUES,
        .stuck = from->state & ROW_STUCK,
        .devices = from->devices,
    };
    memcpy(to->name, from->name, sizeof(to->name));
#define TAKE(field, help) memcpy(to->field##_times, from->field##_times, sizeof(to->field##_times));
    PAGE_TIMES(TAKE)
#undef TAKE
    for (uint32_t d = 0; d < from->devices; d++) {
        take_device(&to->device[d], &from->device[d]);
        to->active |= to->device[d].active > 0;
        for (uint32_t l = from->lowest; l <= from->level && l < PAGE_LEVELS; l++)
            to->held |= to->device[d].held[l] != 0;
    }
}

static int append(struct client_row **rows, size_t *n, size_t *room, const struct message_row *row)
{
    int rc = list_grow(rows, room, *n, sizeof(**rows));

    if (rc == 0)
        take_row(&(*rows)[(*n)++], row);
    return rc;
}

static void add_holders(struct client_device_row *held, const struct client_row *holder)
{
    uint32_t bits = held->held[0] | held->held[1] | held->held[2] | held->held[3];

    for (uint32_t d = 0; d < holder->devices; d++) {
        const struct client_device_row *its = &holder->device[d];

        if (its->bit < PAGE_CLIENT_BITS && (bits >> its->bit & 1) &&
            memcmp(its->uuid, held->uuid, sizeof(its->uuid)) == 0 &&
            held->holders < PAGE_CLIENT_BITS)
            held->held_by[held->holders++] = holder->pid;
    }
}

/* Who holds whom: a bit is one client's, device by device. */
static void find_holders(struct client_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t d = 0; rows[i].held && d < rows[i].devices; d++)
            for (size_t k = 0; k < n; k++)
                if (k != i)
                    add_holders(&rows[i].device[d], &rows[k]);
}

int query_clients(const char *socket, struct client_row **rows, size_t *n)
{
    uint64_t deadline = clock_ns() + WAIT_NS;
    int fd = ask_plainly(socket, MESSAGE_LIST, deadline), rc;
    union message m;
    size_t room = 0;

    *rows = NULL;
    *n = 0;
    if (fd < 0)
        return fd;
    do {
        rc = next_message(fd, &m, deadline);
        if (rc == 0 && m.header.type == MESSAGE_ROW)
            rc = append(rows, n, &room, &m.row);
        else if (rc == 0)
            break;
    } while (rc == 0);
    if (rc == 0)
        rc = done_error(&m);
    close(fd);
    if (rc == 0)
        find_holders(*rows, *n);
    if (rc != 0) {
        free(*rows);
        *rows = NULL;
        *n = 0;
    }
    return rc;
}

int query_stop(const char *socket)
{
    uint64_t deadline = clock_ns() + WAIT_NS;
    int fd = ask_plainly(socket, MESSAGE_STOP, deadline), rc;
    union message m;

    if (fd < 0)
        return fd;
    rc = next_message(fd, &m, deadline);
    if (rc == 0)
        rc = done_error(&m);
    /* It closes its connections last of all. */
    if (rc == 0 && (rc = next_message(fd, &m, deadline)) == 0)
        rc = -EPROTO;
    close(fd);
    return rc == -ECONNRESET ? 0 : rc;
}

static int control(const char *socket, struct control_target target, enum control_kind kind,
                   uint32_t value)
{
    union message m;
    int rc;

    if (!control_value_ok(kind, value))
        return -EINVAL;
    message_init(&m, MESSAGE_CONTROL);
    m.control.client = target.client;
    m.control.pid = target.pid;
    m.control.kind = kind;
    m.control.value = value;
    rc = query_one(socket, &m);
    return rc == 0 ? done_error(&m) : rc;
}

int control_set(const char *socket, struct control_target target, enum control_kind what,
                uint32_t value)
{
    if (what > CONTROL_DEPTH)
        return -EINVAL;
    return control(socket, target, what, value);
}

int control_pause(const char *socket, struct control_target target)
{
    return control(socket, target, CONTROL_PAUSE, 0);
}

int control_resume(const char *socket, struct control_target target)
{
    return control(socket, target, CONTROL_RESUME, 0);
}

int control_reset(const char *socket, struct control_target target, uint32_t stream)
{
    return control(socket, target, CONTROL_RESET, stream);
}

int control_policy(const char *socket, const char *name, char now[PAGE_NAME])
{
    union message m;
    int rc;

    if (name && (!*name || strlen(name) >= PAGE_NAME))
        return -ENOENT;
    message_init(&m, MESSAGE_POLICY);
    if (name)
        memcpy(m.policy.name, name, strlen(name));
    rc = query_one(socket, &m);
    if (rc == 0 && m.header.type == MESSAGE_POLICY) {
        memcpy(now, m.policy.name, PAGE_NAME);
        return 0;
    }
    rc = rc == 0 ? done_error(&m) : rc;
    return rc ? rc : -EPROTO;
}
