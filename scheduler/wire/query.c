/* query.c - see query.h. */
#include "scheduler/wire/query.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/list.h"
#include "scheduler/wire/socket.h"

#define WAIT_NS (QUERY_WAIT_MS * NS_PER_MS)
#define TRY_NS  NS_PER_MS /* between two tries to connect */

/* Receives one more message before the deadline. */
static int next_message(int fd, union message *m, uint64_t deadline_ns)
{
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_ns();
        int rc = message_receive(fd, TO_CLIENT, m, NULL);

        if (rc == -EOPNOTSUPP)
            continue; /* of a later release; a message for this one may follow */
        if (rc != -EAGAIN)
            return rc;
        if (now >= deadline_ns)
            return -ETIMEDOUT;
        if (poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) < 0 && errno != EINTR)
            return -errno;
    }
}

static int ask(const char *socket, const union message *question, uint64_t deadline_ns)
{
    int fd, rc;

    /* The daemon's backlog is full: try again until it has accepted others. */
    while ((fd = socket_connect(socket)) == -EAGAIN) {
        uint64_t now = clock_ns();

        if (now >= deadline_ns)
            return -ETIMEDOUT;
        clock_sleep_until(now + TRY_NS);
    }
    if (fd < 0)
        return fd;
    rc = message_send(fd, question, -1);
    if (rc == 0)
        return fd;
    close(fd);
    return rc;
}

int query_one(const char *socket, union message *m, uint16_t answer)
{
    uint64_t deadline = clock_ns() + WAIT_NS;
    int fd = ask(socket, m, deadline), rc;

    if (fd < 0)
        return fd;
    rc = next_message(fd, m, deadline);
    close(fd);
    if (rc == 0 && m->header.type == MESSAGE_DONE)
        rc = m->done.error;
    return rc == 0 && m->header.type != answer ? -EPROTO : rc;
}

bool row_active(const struct message_row *row)
{
    for (uint32_t d = 0; d < row->devices; d++)
        if (row->device[d].active > 0)
            return true;
    return false;
}

bool row_held(const struct message_row *row)
{
    uint32_t bits = 0;

    for (uint32_t d = 0; d < row->devices; d++)
        for (uint32_t l = row->lowest; l <= row->level && l < PAGE_LEVELS; l++)
            bits |= row->device[d].held[l];
    return bits != 0;
}

uint32_t row_holders(const struct message_row *row, uint32_t device, const struct message_row *rows,
                     size_t n, int32_t pid[PAGE_CLIENT_BITS])
{
    const struct message_row_device *its = &row->device[device];
    uint32_t bits = its->held[0] | its->held[1] | its->held[2] | its->held[3], holders = 0;

    for (size_t i = 0; row_held(row) && i < n && holders < PAGE_CLIENT_BITS; i++) {
        bool holds = false;

        /* On one device a bit belongs to one client. */
        for (uint32_t d = 0; d < rows[i].devices; d++)
            holds |= rows[i].device[d].bit < PAGE_CLIENT_BITS &&
                     (bits >> rows[i].device[d].bit & 1) &&
                     memcmp(rows[i].device[d].uuid, its->uuid, 16) == 0;
        if (holds && rows[i].client != row->client)
            pid[holders++] = rows[i].pid;
    }
    return holders;
}

int query_clients(const char *socket, struct message_row **rows, size_t *n)
{
    uint64_t deadline = clock_ns() + WAIT_NS;
    union message m;
    size_t room = 0;
    int fd, rc;

    *rows = NULL;
    *n = 0;
    message_init(&m, MESSAGE_LIST);
    fd = ask(socket, &m, deadline);
    if (fd < 0)
        return fd;
    while ((rc = next_message(fd, &m, deadline)) == 0 && m.header.type == MESSAGE_ROW &&
           (rc = list_grow(rows, &room, *n, sizeof(**rows))) == 0) {
        /* The kernel's name comes from a page that its client may have spoiled: it must end. */
        for (uint32_t d = 0; d < m.row.devices; d++)
            m.row.device[d].io_kernel[PAGE_KERNEL_SIZE - 1] = '\0';
        (*rows)[(*n)++] = m.row;
    }
    if (rc == 0)
        rc = m.header.type == MESSAGE_DONE ? m.done.error : -EPROTO;
    close(fd);
    if (rc != 0) {
        free(*rows);
        *rows = NULL;
        *n = 0;
    }
    return rc;
}

int control_order(const char *socket, struct control_target target, enum control_kind kind,
                  uint32_t value)
{
    union message m;

    if (!control_value_ok(kind, value))
        return -EINVAL;
    message_init(&m, MESSAGE_CONTROL);
    m.control.client = target.client;
    m.control.pid = target.pid;
    m.control.kind = kind;
    m.control.value = value;
    return query_one(socket, &m, MESSAGE_DONE);
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
    rc = query_one(socket, &m, MESSAGE_POLICY);
    if (rc == 0)
        memcpy(now, m.policy.name, PAGE_NAME);
    return rc;
}
