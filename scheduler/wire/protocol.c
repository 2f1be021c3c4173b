/* protocol.c - see protocol.h. */
#include "scheduler/wire/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct {
    uint32_t size, least; /* in this release, and in the first one */
    uint32_t direction;
} kinds[MESSAGE_TYPES] = {
#define KIND(type, number, way, layout, member, bytes)                                             \
    [number] = {sizeof(struct layout), bytes, way},
    MESSAGES(KIND)
#undef KIND
};

void message_init(union message *m, enum message_type type)
{
    memset(m, 0, sizeof(*m));
#ifdef CUTIN_MUTANTS
    memset((char *)m + kinds[type].size, 0xa5, PROTOCOL_LATER);
#endif
    m->header.size = kinds[type].size + PROTOCOL_LATER;
    m->header.type = (uint16_t)type;
    m->header.version = PROTOCOL_VERSION;
}

/* Whether a text ends in its field. */
#define ENDS(text) (!!memchr(text, '\0', sizeof(text)))

bool control_value_ok(uint32_t kind, uint32_t value)
{
    static const struct {
        uint32_t least, most;
    } bounds[] = {
#define BOUNDS(name, low, high) {low, high},
        CONTROL_KINDS(BOUNDS)
#undef BOUNDS
    };

    return kind < CONTROL_KIND_COUNT && value >= bounds[kind].least && value <= bounds[kind].most;
}

static bool fields_ok(const union message *m)
{
    switch (m->header.type) {
    case MESSAGE_HELLO:
        return m->hello.level < PAGE_LEVELS && m->hello.lowest <= m->hello.level &&
               (!m->hello.weight || control_value_ok(CONTROL_WEIGHT, m->hello.weight)) &&
               m->hello.deadline_ms <= PROTOCOL_DEADLINE_MOST_MS && m->hello.paused <= 1 &&
               m->hello.flat <= 1 && m->hello.bounded <= 1 &&
               (!m->hello.flat || m->hello.lowest == m->hello.level) &&
               m->hello.remote_level <= PAGE_LEVELS && ENDS(m->hello.name);
    case MESSAGE_WELCOME:
        return m->welcome.level < PAGE_LEVELS && m->welcome.refused <= 1 && m->welcome.asks <= 1 &&
               m->welcome.share_percent <= 90 && ENDS(m->welcome.reason);
    case MESSAGE_DEVICE:
        return m->device.slot < PAGE_DEVICES;
    case MESSAGE_BIT:
        return m->bit.slot < PAGE_DEVICES &&
               (m->bit.bit < PAGE_CLIENT_BITS || m->bit.bit == PROTOCOL_NO_BIT);
    case MESSAGE_JOIN:
        for (uint32_t d = 0; d < PAGE_DEVICES; d++)
            if (m->join.slot[d] >= PAGE_DEVICES && m->join.slot[d] != PROTOCOL_NO_SLOT)
                return false;
        return m->join.with_page <= 1;
    case MESSAGE_LEVEL:
        return m->level.level < PAGE_LEVELS && m->level.refused <= 1 && ENDS(m->level.reason);
    case MESSAGE_ROW:
        return m->row.devices <= PAGE_DEVICES && ENDS(m->row.name);
    case MESSAGE_CONTROL:
        return control_value_ok(m->control.kind, m->control.value);
    case MESSAGE_POLICY:
        return ENDS(m->policy.name);
    case MESSAGE_REMOTE:
        return control_value_ok(m->remote.kind, m->remote.value);
    case MESSAGE_DONE:
        return m->done.error <= 0 && m->done.error > -4096;
    default:
        return true;
    }
}

int message_check(union message *m, size_t received, enum message_direction direction)
{
    uint32_t type, size;

    if (received < sizeof(m->header) || received != m->header.size)
        return -EBADMSG;
    if (m->header.version != PROTOCOL_VERSION)
        return -EPROTO;
    type = m->header.type;
    if (type < MESSAGE_TYPES &&
        (received < kinds[type].least || !(kinds[type].direction & (uint32_t)direction)))
        return -EBADMSG;
    if (type >= MESSAGE_TYPES ||
        (type == MESSAGE_CONTROL && m->control.kind >= CONTROL_KIND_COUNT) ||
        (type == MESSAGE_REMOTE && m->remote.kind >= CONTROL_KIND_COUNT))
        return -EOPNOTSUPP;
    size = m->header.size = kinds[type].size;
    if (received < size)
        memset((char *)m + received, 0, size - received);
    return fields_ok(m) ? 0 : -EBADMSG;
}

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

int message_send(int socket, const union message *m, int fd)
{
    /* The kernel does not write through this pointer. */
    struct iovec part = {.iov_base = (void *)(uintptr_t)m, .iov_len = m->header.size};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    union control control = {0};
    struct cmsghdr *rights;
    ssize_t n;

    if (fd >= 0) {
        packet.msg_control = &control;
        packet.msg_controllen = sizeof(control);
        rights = CMSG_FIRSTHDR(&packet);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &fd, sizeof(int));
    }
    do
        n = sendmsg(socket, &packet, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    return n == (ssize_t)m->header.size ? 0 : -EMSGSIZE;
}

int message_receive(int socket, enum message_direction direction, union message *m, int *fd)
{
    struct iovec part = {.iov_base = m, .iov_len = sizeof(*m)};
    struct msghdr packet = {.msg_iov = &part, .msg_iovlen = 1};
    union control control = {0};
    struct cmsghdr *rights;
    ssize_t n;
    int rc;

    if (fd) {
        *fd = -1;
        packet.msg_control = &control;
        /* CMSG_SPACE would leave room for two. */
        packet.msg_controllen = CMSG_LEN(sizeof(int));
    }
    do
        n = recvmsg(socket, &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC | MSG_TRUNC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EWOULDBLOCK ? -EAGAIN : -errno;
    /* There is room for one descriptor, so the kernel drops any more by itself. */
    rights = fd ? CMSG_FIRSTHDR(&packet) : NULL;
    if (rights && rights->cmsg_level == SOL_SOCKET && rights->cmsg_type == SCM_RIGHTS &&
        rights->cmsg_len >= CMSG_LEN(sizeof(int)))
        memcpy(fd, CMSG_DATA(rights), sizeof(int));
    rc = n > 0 ? message_check(m, (size_t)n, direction) : -ECONNRESET;
    if (rc != 0 && fd && *fd >= 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}
