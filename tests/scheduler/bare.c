/*
 * bare.c - clients that are only a connection.
 */
#include "bare.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "scheduler/wire/socket.h"

static void die(const char *what)
{
    perror(what);
    abort();
}

static void become(uid_t uid)
{
    if (uid != (uid_t)-1 && seteuid(uid) != 0)
        die("seteuid");
}

int bare_connect(const char *socket, uid_t uid)
{
    uid_t mine = geteuid();
    int fd;

    become(uid);
    while ((fd = socket_connect(socket)) == -EAGAIN) /* the backlog is full */
        usleep(100);
    become(uid == (uid_t)-1 ? uid : mine);
    if (fd < 0)
        die("connect");
    return fd;
}

void bare_send(int fd, const union message *m)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int rc;

    while ((rc = message_send(fd, m, -1)) == -EAGAIN)
        poll(&p, 1, 1000);
}

void bare_hello(int fd, uint32_t level)
{
    union message m;

    message_init(&m, MESSAGE_HELLO);
    m.hello.level = m.hello.lowest = level;
    m.hello.flat = 1;
    strcpy(m.hello.name, "bare");
    bare_send(fd, &m);
}

void bare_device(int fd, uint32_t slot, uint8_t number)
{
    union message m;

    message_init(&m, MESSAGE_DEVICE);
    m.device.slot = slot;
    memset(m.device.uuid, number, sizeof(m.device.uuid));
    bare_send(fd, &m);
}

int bare_wait_page(int fd, enum message_type type, union message *out, int *page)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    union message m;

    for (;;) {
        int rc = message_receive(fd, TO_CLIENT, &m, page);

        if (rc == 0 && m.header.type == type) {
            if (out)
                *out = m;
            return 0;
        }
        if (*page >= 0)
            close(*page);
        if (rc != 0 && rc != -EAGAIN)
            return rc;
        if (rc == -EAGAIN && poll(&p, 1, 120000) == 0)
            return -ETIMEDOUT;
    }
}

int bare_wait(int fd, enum message_type type, union message *out)
{
    int page, rc = bare_wait_page(fd, type, out, &page);

    if (rc == 0 && page >= 0)
        close(page);
    return rc;
}

int bare_settle(int fd)
{
    union message m;

    message_init(&m, MESSAGE_POLICY);
    bare_send(fd, &m);
    return bare_wait(fd, MESSAGE_POLICY, NULL);
}

int bare_join(const char *socket, uid_t uid, uint32_t level, uint32_t slot, uint8_t number)
{
    int fd = bare_connect(socket, uid);

    bare_hello(fd, level);
    bare_device(fd, slot, number);
    if (bare_wait(fd, MESSAGE_WELCOME, NULL) != 0)
        die("not welcome");
    return fd;
}

void bare_close(const int *fds, size_t n)
{
    while (n-- > 0)
        close(fds[n]);
}

uint32_t bare_count(int fd, enum message_type type)
{
    union message m;
    uint32_t n = 0;
    int page;

    while (message_receive(fd, TO_CLIENT, &m, &page) == 0) {
        n += m.header.type == type;
        if (page >= 0)
            close(page);
    }
    return n;
}

void bare_many(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

int bare_send_lingering(int fd, const union message *m)
{
    static const char bytes[4096];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;
    struct linger hour = {1, 3600}, none = {0};
    socklen_t size = sizeof(address);

    if (listener < 0 || tcp < 0 || bind(listener, (struct sockaddr *)&address, size) != 0 ||
        listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        connect(tcp, (struct sockaddr *)&address, size) != 0 ||
        setsockopt(tcp, SOL_SOCKET, SO_LINGER, &hour, sizeof(hour)) != 0)
        die("TCP");
    while (send(tcp, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) /* the other end does not read */
        ;
    rc = message_send(fd, m, tcp);
    if (rc != 0)
        setsockopt(tcp, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
    close(tcp);
    return rc; /* the listener stays, with what arrives there */
}
