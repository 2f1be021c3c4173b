/*
 * asked.c - a level that a process asks for, where an order from outside is on its way to it. The
 * daemon is this test, which says what it wants when it wants.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/control.h"

static struct place place;
static int listener;

static void set_up(void)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    place_new(&place);
    memcpy(at.sun_path, place.socket, strlen(place.socket) + 1);
    listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
    cr_assert_eq(listen(listener, 8), 0);
}

static void tear_down(void)
{
    close(listener);
    unlink(place.socket);
    cr_assert(place_free(&place));
}

TestSuite(asked, .init = set_up, .fini = tear_down, .timeout = 600);

/* What the client says next is a message of that type. */
static void hear(int fd, enum message_type type, union message *m)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int none;

    cr_assert_eq(poll(&p, 1, 20000), 1);
    cr_assert_eq(message_receive(fd, TO_DAEMON, m, &none), 0);
    cr_assert_eq(m->header.type, type);
}

/* Takes in a client, whose HELLO is `hello` then, on the connection `fd`. False: it has left. */
static bool take_in(int fd, union message *hello)
{
    struct cutin_page *page;
    union message m;
    int page_fd, rc;

    hear(fd, MESSAGE_HELLO, hello);
    cr_assert_eq(page_new_shared(&page, &page_fd), 0);
    message_init(&m, MESSAGE_WELCOME);
    m.welcome.client = 1;
    m.welcome.level = hello->hello.level;
    rc = message_send(fd, &m, page_fd);
    close(page_fd);
    page_unmap(page);
    return rc == 0;
}

/* The next client that waits to be taken in; its first attempt waits for a moment only. */
static int welcome(union message *hello)
{
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        cr_assert_geq(fd, 0);
        if (take_in(fd, hello))
            return fd;
        close(fd);
    }
}

static void send_level(int fd, uint32_t level, bool answer)
{
    union message m;

    message_init(&m, MESSAGE_LEVEL);
    m.level.level = level;
    m.level.answer = answer;
    bare_send(fd, &m);
}

static void order_level(int fd, uint32_t level)
{
    union message m;

    message_init(&m, MESSAGE_REMOTE);
    m.remote.kind = CONTROL_LEVEL;
    m.remote.value = level;
    bare_send(fd, &m);
    send_level(fd, level, false);
}

/* A best-effort client that is taken in. */
static int join(struct actor *a)
{
    union message hello;
    int fd;

    actor_new(a, place.socket);
    actor_do(a, DO_OPEN, 0, 0); /* tries, and goes on without a daemon */
    fd = welcome(&hello);
    WAIT_UNTIL(actor_do(a, DO_CONNECTED, 0, 0) == 1);
    return fd;
}

/* The level that the next daemon is told of, + 1. */
static uint32_t told_next(int fd)
{
    union message hello;

    close(fd);
    close(welcome(&hello));
    return hello.hello.remote_level;
}

Test(asked, it_replaces_an_order_that_is_under_way)
{
    union message m;
    struct actor a;
    int fd = join(&a);

    actor_do(&a, DO_SET_LEVEL, 2, 0);
    order_level(fd, 3); /* carried out before the daemon saw what was asked for */
    hear(fd, MESSAGE_LEVEL, &m);
    send_level(fd, 2, true);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 2);
    cr_assert_eq(told_next(fd), 0);
    actor_kill(&a);
}

/* Nor is it forgotten where the daemon ends before it answers. */
Test(asked, it_replaces_an_order_though_nobody_answers)
{
    struct actor a;
    int fd = join(&a);

    actor_do(&a, DO_SET_LEVEL, 2, 0);
    order_level(fd, 3);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 3);
    cr_assert_eq(told_next(fd), 0);
    actor_kill(&a);
}

Test(asked, an_order_after_it_counts)
{
    union message m;
    struct actor a;
    int fd = join(&a);

    actor_do(&a, DO_SET_LEVEL, 2, 0);
    hear(fd, MESSAGE_LEVEL, &m);
    send_level(fd, 2, true);
    order_level(fd, 3);
    WAIT_UNTIL(actor_do(&a, DO_LEVEL, 0, 0) == 3);
    cr_assert_eq(told_next(fd), 4);
    actor_kill(&a);
}
