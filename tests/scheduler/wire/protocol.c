/*
 * protocol.c - messages: what is accepted, and that everything else is refused.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "scheduler/wire/protocol.h"

static const struct {
    enum message_type type;
    uint32_t size, least;
    enum message_direction direction;
} kinds[] = {
#define KIND(type, number, direction, layout, member, bytes)                                       \
    {number, sizeof(struct layout), bytes, direction},
    MESSAGES(KIND)
#undef KIND
};
#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static int check_as(size_t i, size_t received, enum message_direction direction)
{
    union message m;

    message_init(&m, kinds[i].type);
    m.header.size = (uint32_t)received;
    int rc = message_check(&m, received, direction);
    cr_assert(rc != 0 || m.header.size == kinds[i].size);
    return rc;
}

Test(protocol, length_direction_and_version_are_checked)
{
    union message m;

    for (size_t i = 0; i < KINDS; i++) {
        for (size_t n = 0; n < sizeof(m); n++)
            cr_assert_eq(check_as(i, n, kinds[i].direction), n < kinds[i].least ? -EBADMSG : 0);
        message_init(&m, kinds[i].type);
        cr_assert_eq(message_check(&m, m.header.size + 1, kinds[i].direction), -EBADMSG);
        if (kinds[i].direction != TO_BOTH)
            cr_assert_eq(check_as(i, kinds[i].size, TO_BOTH & ~kinds[i].direction), -EBADMSG);
        message_init(&m, kinds[i].type);
        m.header.version++;
        cr_assert_eq(message_check(&m, m.header.size, kinds[i].direction), -EPROTO);
    }
}

/* A message longer than any that this release knows arrives, too, and leaves its place to the next
 * one. */
Test(protocol, unknown_fields_and_messages_of_later_release_are_skipped)
{
    static struct {
        union message m;
        char more[60000];
    } later, got;
    int ends[2];

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    memset(later.more, 0xa5, sizeof(later.more));
    memset(got.more, 0x11, sizeof(got.more));
    message_init(&later.m, MESSAGE_ROW);
    strcpy(later.m.row.name, "later");
    later.m.header.size = sizeof(later);
    cr_assert_eq(send(ends[0], &later, sizeof(later), 0), sizeof(later));
    later.m.header.type = MESSAGE_TYPES + 7;
    cr_assert_eq(send(ends[0], &later, sizeof(later), 0), sizeof(later));
    message_init(&later.m, MESSAGE_REMOTE);
    later.m.remote.kind = CONTROL_KIND_COUNT;
    cr_assert_eq(message_send(ends[0], &later.m, -1), 0);

    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got.m, NULL), 0);
    cr_assert_str_eq(got.m.row.name, "later");
    cr_assert_eq(got.m.header.size, sizeof(struct message_row));
    cr_assert_eq(got.more[0], 0x11);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got.m, NULL), -EOPNOTSUPP);
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got.m, NULL), -EAGAIN);
    close(ends[0]);
    close(ends[1]);
}

#define REFUSES(message_type, member, change)                                                      \
    do {                                                                                           \
        union message m_;                                                                          \
        message_init(&m_, MESSAGE_##message_type);                                                 \
        m_.member.change;                                                                          \
        cr_assert_eq(message_check(&m_, m_.header.size, TO_BOTH), -EBADMSG, #change);              \
    } while (0)

Test(protocol, fields_out_of_bounds_are_refused)
{
    char full[PAGE_NAME];

    memset(full, 'x', sizeof(full));
    REFUSES(HELLO, hello, level = PAGE_LEVELS);
    REFUSES(HELLO, hello, lowest = 1); /* above the level */
    REFUSES(HELLO, hello, header.type = 0);
    REFUSES(HELLO, hello, deadline_ms = PROTOCOL_DEADLINE_MOST_MS + 1);
    REFUSES(HELLO, hello, remote_level = PAGE_LEVELS + 1);
    REFUSES(HELLO, hello, paused = 2);
    REFUSES(HELLO, hello, flat = 2);
    REFUSES(HELLO, hello, level = m_.hello.flat = 1); /* with streams below it */
    REFUSES(HELLO, hello, bounded = 2);
    REFUSES(WELCOME, welcome, level = UINT32_MAX);
    REFUSES(WELCOME, welcome, refused = 2);
    REFUSES(DEVICE, device, slot = PAGE_DEVICES);
    REFUSES(BIT, bit, slot = PAGE_DEVICES);
    REFUSES(BIT, bit, bit = PAGE_CLIENT_BITS);
    REFUSES(JOIN, join, slot[15] = PAGE_DEVICES);
    REFUSES(JOIN, join, with_page = 2);
    REFUSES(LEVEL, level, level = PAGE_LEVELS);
    REFUSES(ROW, row, devices = PAGE_DEVICES + 1);
    REFUSES(DONE, done, error = 1);
    REFUSES(DONE, done, error = INT32_MIN);
    {
        union message m;

        message_init(&m, MESSAGE_HELLO);
        memcpy(m.hello.name, full, sizeof(full));
        cr_assert_eq(message_check(&m, m.header.size, TO_DAEMON), -EBADMSG);
    }
}

/* In a message that passes every index is within its array, as computed here a second time. */
Test(protocol, random_messages_that_pass_are_within_bounds)
{
    unsigned passed = 0;

    srand(1);
    for (int i = 0; i < 200000; i++) {
        union message m;
        size_t kind = (size_t)rand() % KINDS;
        unsigned char *bytes = (unsigned char *)&m;

        message_init(&m, kinds[kind].type);
        for (int flips = rand() % 4; flips > 0; flips--)
            bytes[(unsigned)rand() % kinds[kind].size] = (unsigned char)(rand() % 40);
        if (message_check(&m, m.header.size, TO_BOTH) != 0)
            continue;
        passed++;
        if (m.header.type == MESSAGE_JOIN)
            for (int d = 0; d < 16; d++)
                cr_assert(m.join.slot[d] < 16 || m.join.slot[d] == 0xff);
        if (m.header.type == MESSAGE_HELLO)
            cr_assert(m.hello.level < 4 && m.hello.lowest < 4 && strnlen(m.hello.name, 16) < 16);
        if (m.header.type == MESSAGE_WELCOME)
            cr_assert(m.welcome.level < 4);
        if (m.header.type == MESSAGE_LEVEL)
            cr_assert(m.level.level < 4);
        if (m.header.type == MESSAGE_DEVICE)
            cr_assert(m.device.slot < 16);
        if (m.header.type == MESSAGE_BIT)
            cr_assert(m.bit.slot < 16 && (m.bit.bit < 28 || m.bit.bit == 0xff));
        if (m.header.type == MESSAGE_ROW)
            cr_assert(m.row.devices <= 16);
    }
    cr_assert_gt(passed, 1000);
}

static int open_descriptors(void)
{
    int n = 0;

    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

Test(protocol, descriptor_is_passed_and_refused_message_leaks_none)
{
    int ends[2], fd, before;
    union message m, got;
    struct stat sent, arrived;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    message_init(&m, MESSAGE_JOIN);
    cr_assert_eq(message_send(ends[0], &m, 0), 0);
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got, &fd), 0);
    cr_assert_geq(fd, 0);
    cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    fstat(0, &sent);
    fstat(fd, &arrived);
    cr_assert_eq(sent.st_ino, arrived.st_ino);
    close(fd);

    before = open_descriptors();
    cr_assert_eq(message_send(ends[0], &m, 0), 0);
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got, NULL), 0, "no room asked for");
    m.join.with_page = 99;
    cr_assert_eq(message_send(ends[0], &m, 0), 0);
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got, &fd), -EBADMSG);
    cr_assert_eq(fd, -1);
    cr_assert_eq(open_descriptors(), before);
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got, &fd), -EAGAIN);
    close(ends[0]);
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &got, &fd), -ECONNRESET);
    cr_assert_neq(message_send(ends[1], &m, -1), 0, "and no SIGPIPE");
    close(ends[1]);
}

Test(protocol, surplus_descriptors_in_message_are_closed)
{
    char space[CMSG_SPACE(3 * sizeof(int))] __attribute__((aligned(8))) = {0};
    int ends[2], fds[3] = {0, 1, 2}, fd, before;
    struct msghdr packet = {0};
    struct cmsghdr *rights;
    struct iovec part;
    union message m;

    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    message_init(&m, MESSAGE_JOIN);
    part = (struct iovec){&m, m.header.size};
    packet.msg_iov = &part;
    packet.msg_iovlen = 1;
    packet.msg_control = space;
    packet.msg_controllen = sizeof(space);
    rights = CMSG_FIRSTHDR(&packet);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(rights), fds, sizeof(fds));
    cr_assert_gt(sendmsg(ends[0], &packet, 0), 0);
    before = open_descriptors();
    cr_assert_eq(message_receive(ends[1], TO_CLIENT, &m, &fd), 0);
    cr_assert_eq(open_descriptors(), before + 1);
    close(fd);
    close(ends[0]);
    close(ends[1]);
}
