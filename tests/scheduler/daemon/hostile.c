/*
 * hostile.c - a user who attacks real time, at a daemon of another user (docs/security.md). Needs
 * root, for the second user.
 */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/query.h"
#include "scheduler/wire/socket.h"

enum { OTHER = 65534, DEVICE = 7, PER_DEVICE = 8, BURST = 32, PER_SECOND = 8 };

static struct place place;

static void set_up(void)
{
    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    place_new(&place);
}

/* LeakSanitizer, if there is one, reports by the daemon's status. */
static void tear_down(void)
{
    if (geteuid() != 0)
        return;
    if (place.daemon)
        cr_assert_eq(place_stop(&place), 0);
    cr_assert(place_free(&place));
}

TestSuite(hostile, .init = set_up, .fini = tear_down);

static int join_as(uid_t uid, uint32_t level, uint32_t slot)
{
    return bare_join(place.socket, uid, level, slot, DEVICE);
}

/* Says hello as that user. Returns the connection. */
static int hello_as(uid_t uid, int *page)
{
    int fd = bare_connect(place.socket, uid);

    bare_hello(fd, 0);
    cr_assert_eq(bare_wait_page(fd, MESSAGE_WELCOME, NULL, page), 0);
    cr_assert_geq(*page, 0);
    return fd;
}

/* A real-time client of this test, which is told of clients below. */
static int owner_new(void)
{
    int fd = join_as(0, 3, 0);

    cr_assert_eq(bare_wait(fd, MESSAGE_BIT, NULL), 0);
    return fd;
}

Test(hostile, owner_learns_of_8_clients_per_user_and_device)
{
    enum { MANY = 40 };
    int owner, many[MANY], asking;
    uint32_t told = 0;

    place_start(&place);
    owner = owner_new();
    for (uint32_t i = 0; i < MANY; i++)
        many[i] = join_as(OTHER, 0, i % PAGE_DEVICES);
    asking = bare_connect(place.socket, 0);
    cr_assert_eq(bare_settle(asking), 0);
    told = bare_count(owner, MESSAGE_JOIN);
    cr_assert_eq(told, PER_DEVICE, "%u are told", told);
    cr_assert_eq(bare_wait(many[MANY - 1], MESSAGE_DONE, NULL), 0, "and is told so");
    /* A user without limits is not kept out by users with limits. */
    many[0] = (close(many[0]), join_as(0, 0, 0));
    told = 0;
    WAIT_UNTIL((told += bare_count(owner, MESSAGE_JOIN)) >= 2);
    cr_assert_eq(bare_settle(asking), 0);
    cr_assert_eq(told + bare_count(owner, MESSAGE_JOIN), 2,
                 "root's, and one in the place that is free");
    for (int i = 0; i < MANY; i++)
        close(many[i]);
    close(asking);
    close(owner);
}

Test(hostile, owner_learns_of_short_lived_clients_at_limited_rate)
{
    enum { ROUNDS = 200 };
    uint64_t began, limit, id;
    uint32_t told = 0;
    int owner, last;
    union message m;

    place_start(&place);
    owner = owner_new();
    began = now_ms();
    for (int i = 0; i < ROUNDS; i++) {
        close(join_as(OTHER, 0, 0));
        told += bare_count(owner, MESSAGE_JOIN);
    }
    cr_assert_eq(bare_settle(owner), 0);
    limit = BURST + PER_SECOND * (now_ms() - began) / 1000 + 1;
    cr_assert(told > 0 && told <= limit, "%u of %d are told, at most %llu may be", told, ROUNDS,
              (unsigned long long)limit);
    /* A client that stays is told in the end. */
    last = bare_connect(place.socket, OTHER);
    bare_hello(last, 0);
    cr_assert_eq(bare_wait(last, MESSAGE_WELCOME, &m), 0);
    bare_device(last, 0, DEVICE);
    for (id = m.welcome.client; m.header.type != MESSAGE_JOIN || m.join.client != id;)
        cr_assert_eq(bare_wait(owner, MESSAGE_JOIN, &m), 0);
    close(last);
    close(owner);
}

/* Freed memory that AddressSanitizer keeps is not the daemon's. */
static void keep_nothing_freed(void)
{
    const char *set = getenv("ASAN_OPTIONS");
    char options[512];

    snprintf(options, sizeof(options), "%s:quarantine_size_mb=0:thread_local_quarantine_size_kb=0",
             set ? set : "");
    setenv("ASAN_OPTIONS", options, 1);
}

static uint32_t descriptors_of(pid_t pid)
{
    char path[64];
    uint32_t n = 0;
    DIR *dir;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    cr_assert_not_null(dir = opendir(path));
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static long daemon_kb(void)
{
    return (long)place_proc(&place, "statm", 1) * sysconf(_SC_PAGESIZE) / 1024;
}

/* Clients come and go, with different devices each time, and `asking` asks after each. */
static void come_and_go(uint32_t clients, int asking)
{
    for (uint32_t i = 0; i < clients; i++) {
        int fd = bare_connect(place.socket, OTHER);

        bare_hello(fd, 0);
        for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
            bare_device(fd, slot, (uint8_t)(i * PAGE_DEVICES + slot));
        cr_assert_eq(bare_settle(fd), 0);
        cr_assert_eq(bare_settle(asking), 0);
        close(fd);
    }
}

/* The daemon remembers nothing of clients that have gone. */
Test(hostile, departed_unannounced_clients_leave_no_leak)
{
    enum { CLIENTS = 2 * BURST, MOST_KB = 256 };
    uint32_t descriptors;
    long before;
    int root;

    keep_nothing_freed();
    place_start(&place);
    root = bare_connect(place.socket, 0);
    cr_assert_eq(bare_settle(root), 0);
    descriptors = descriptors_of(place.daemon);
    come_and_go(CLIENTS, root);
    WAIT_UNTIL(descriptors_of(place.daemon) == descriptors);
    before = daemon_kb();
    come_and_go(2 * CLIENTS, root);
    WAIT_UNTIL(descriptors_of(place.daemon) == descriptors);
    cr_assert_lt(daemon_kb() - before, MOST_KB, "the daemon has grown by %ld kB",
                 daemon_kb() - before);
    close(root);
}

Test(hostile, unread_lists_grow_daemon_by_less_than_8_mb)
{
    enum { CLIENTS = 100, LISTERS = 8, LISTS = 30 };
    int clients[CLIENTS], listers[LISTERS];
    struct message_row *rows;
    union message m;
    size_t n;
    long before;

    keep_nothing_freed();
    place_start(&place);
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = join_as(OTHER, 0, 0);
    before = daemon_kb();
    message_init(&m, MESSAGE_LIST);
    for (int i = 0; i < LISTERS; i++) {
        listers[i] = bare_connect(place.socket, OTHER);
        for (int k = 0; k < LISTS; k++)
            message_send(listers[i], &m, -1);
    }
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0, "others are answered");
    cr_assert_eq(n, CLIENTS);
    free(rows);
    cr_assert_lt(daemon_kb() - before, 8192, "the daemon has grown by %ld kB",
                 daemon_kb() - before);
    cr_assert_eq(bare_wait(listers[0], MESSAGE_DONE, &m), 0);
    cr_assert_eq(m.done.count, CLIENTS, "who reads has the whole list: %u", m.done.count);
    for (int i = 0; i < LISTERS; i++)
        close(listers[i]);
    for (int i = 0; i < CLIENTS; i++)
        close(clients[i]);
}

static void ask(int fd)
{
    union message m;

    message_init(&m, MESSAGE_POLICY);
    message_send(fd, &m, -1);
}

Test(hostile, unread_answers_grow_daemon_by_less_than_4_mb)
{
    enum { CONNECTIONS = 200, ROUNDS = 20, ASKS = 200, MOST_KB = 4096 };
    int fds[CONNECTIONS], root;
    long before;

    bare_many();
    keep_nothing_freed();
    place_start(&place);
    root = bare_connect(place.socket, 0);
    for (int i = 0; i < CONNECTIONS; i++)
        fds[i] = bare_connect(place.socket, OTHER);
    cr_assert_eq(bare_settle(root), 0);
    before = daemon_kb();
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < CONNECTIONS; i++)
            for (int k = 0; k < ASKS; k++)
                ask(fds[i]);
    close(root); /* a connection that says nothing for 10 s is ended */
    root = bare_connect(place.socket, 0);
    cr_assert_eq(bare_settle(root), 0);
    cr_assert_lt(daemon_kb() - before, MOST_KB, "the daemon has grown by %ld kB",
                 daemon_kb() - before);
    for (int i = 0; i < CONNECTIONS; i++)
        close(fds[i]);
    close(root);
}

Test(hostile, silent_connection_is_closed_and_asking_one_is_kept)
{
    int silent, asks;
    char byte;

    place_start(&place);
    silent = bare_connect(place.socket, OTHER);
    asks = bare_connect(place.socket, 0);
    while (recv(silent, &byte, 1, MSG_DONTWAIT) != 0) {
        cr_assert_eq(bare_settle(asks), 0);
        usleep(10000);
    }
    cr_assert_eq(bare_settle(asks), 0);
    close(asks);
    close(silent);
}

/* Orders of their own user make the daemon send to clients that do not read. */
Test(hostile, unread_orders_grow_daemon_by_less_than_1_mb)
{
    enum { CLIENTS = 100, ORDERS = 2000, MOST_KB = 1024 };
    int fds[CLIENTS], root;
    uint32_t n = 0;
    union message m;
    long before = 0;

    keep_nothing_freed();
    place_configure(&place, "[daemon]\nlog = error\n");
    place_start(&place);
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = join_as(OTHER, 0, 0);
    root = bare_connect(place.socket, 0);
    cr_assert_eq(bare_settle(root), 0);
    message_init(&m, MESSAGE_CONTROL);
    m.control.pid = getpid();
    m.control.kind = CONTROL_DEPTH;
    m.control.value = 1;
    for (; n < ORDERS; n++) {
        if (n == ORDERS / 2) /* each of them has as much waiting as it ever has */
            before = daemon_kb();
        bare_send(root, &m);
        cr_assert_eq(bare_wait(root, MESSAGE_DONE, NULL), 0);
    }
    cr_assert_lt(daemon_kb() - before, MOST_KB, "the daemon has grown by %ld kB",
                 daemon_kb() - before);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    close(root);
}

Test(hostile, messages_of_one_user_are_answered_at_limited_rate)
{
    enum { BURST_OF_MESSAGES = 4000, EACH_SECOND = 2000, FOR_MS = 1500 };
    uint64_t began, took;
    uint32_t answered = 0;
    int root, fds[8];

    place_start(&place);
    root = bare_connect(place.socket, 0);
    for (int i = 0; i < 8; i++)
        fds[i] = bare_connect(place.socket, OTHER);
    for (began = now_ms(); now_ms() - began < FOR_MS;)
        for (int i = 0; i < 8; i++) {
            for (int k = 0; k < 32; k++)
                ask(fds[i]);
            answered += bare_count(fds[i], MESSAGE_POLICY);
        }
    took = now_ms() - began;
    cr_assert(answered > 0 && answered <= BURST_OF_MESSAGES + EACH_SECOND * took / 1000 + 32,
              "%u were answered in %llu ms", answered, (unsigned long long)took);
    cr_assert_eq(bare_settle(root), 0); /* others are answered, and in the end this user is, too */
    while (bare_count(fds[0], MESSAGE_POLICY) > 0)
        ;
    cr_assert_eq(bare_settle(fds[0]), 0);
    for (int i = 0; i < 8; i++)
        close(fds[i]);
    close(root);
}

Test(hostile, connections_of_one_user_are_accepted_at_limited_rate)
{
    enum { ROUNDS = 2000, AT_ONCE = 256, EACH_SECOND = 128 };
    uint64_t began = now_ms(), limit;
    uint32_t in = 0;

    place_start(&place);
    for (int i = 0; i < ROUNDS; i++) {
        int fd = bare_connect(place.socket, OTHER);

        ask(fd);
        in += bare_wait(fd, MESSAGE_POLICY, NULL) == 0;
        close(fd);
    }
    limit = AT_ONCE + EACH_SECOND * (now_ms() - began) / 1000 + 1;
    cr_assert(in > 0 && in <= limit, "%u of %d got in, at most %llu may", in, ROUNDS,
              (unsigned long long)limit);
    close(join_as(0, 3, 0));
}

/* As the daemon's user, which no limit slows down. */
static void take_devices(int *fds, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        union message m;

        fds[i] = bare_connect(place.socket, 0);
        bare_hello(fds[i], 0);
        message_init(&m, MESSAGE_DEVICE);
        m.device.uuid[0] = (uint8_t)i;
        for (m.device.slot = 0; m.device.slot < PAGE_DEVICES; m.device.slot++) {
            m.device.uuid[1] = (uint8_t)m.device.slot;
            bare_send(fds[i], &m);
        }
        cr_assert_eq(bare_settle(fds[i]), 0);
    }
}

static uint64_t processor_ns(void)
{
    return place_proc(&place, "schedstat", 0);
}

static uint64_t answering_ns(int fd)
{
    uint64_t before = processor_ns();

    for (int i = 0; i < 400; i++)
        cr_assert_eq(bare_settle(fd), 0);
    return processor_ns() - before;
}

/* All clients have different devices, and the policy is asked about each. */
Test(hostile, many_devices_do_not_make_policy_expensive)
{
    enum { CLIENTS = 120, TIMES = 20 };
    int fds[CLIENTS], root;
    uint64_t fair, fixed, began, took_ns;
    union message m;

    place_configure(&place, "[policy]\nname = fair\n");
    place_start(&place);
    take_devices(fds, CLIENTS);
    root = bare_connect(place.socket, 0); /* one that says nothing for 10 s is ended */
    began = now_ms();
    fair = answering_ns(root);
    took_ns = (now_ms() - began) * 1000 * 1000;
    message_init(&m, MESSAGE_POLICY);
    strcpy(m.policy.name, "fixed");
    bare_send(root, &m);
    fixed = answering_ns(root);
    /* The policy is asked by the clock: the slower the answers, the more often meanwhile. */
    cr_expect_lt(fair, TIMES * fixed + took_ns / 4, "%llu ns of %llu, and %llu without a policy",
                 (unsigned long long)fair, (unsigned long long)took_ns, (unsigned long long)fixed);
    bare_close(fds, CLIENTS);
    close(root);
}

static int ask_for_figures(const char *path)
{
    static const char request[] = "GET /metrics HTTP/1.1\r\n\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char byte;

    strcpy(address.sun_path, path);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    cr_assert_gt(send(fd, request, sizeof(request) - 1, 0), 0);
    cr_assert_eq(recv(fd, &byte, 1, 0), 1);
    return fd;
}

/* Each asks when the last answer is old. */
Test(hostile, unread_metrics_grow_daemon_little)
{
    enum { CLIENTS = 40, READERS = 8, OLD = 12 };
    int fds[CLIENTS], readers[READERS];
    char path[80], conf[128], bytes[4096];
    long before, most = 0, kb = 0;

    snprintf(path, sizeof(path), "%s/m", place.folder);
    snprintf(conf, sizeof(conf), "[metrics]\nlisten = unix:%s\n", path);
    keep_nothing_freed();
    place_configure(&place, conf);
    place_start(&place);
    take_devices(fds, CLIENTS);
    readers[0] = ask_for_figures(path);
    for (ssize_t n; (n = recv(readers[0], bytes, sizeof(bytes), 0)) > 0;)
        kb += n;
    kb /= 1024;
    close(readers[0]);
    before = daemon_kb();
    for (int i = 0; i < READERS; i++) {
        uint64_t spent = processor_ns();

        readers[i] = ask_for_figures(path);
        spent = OLD * (processor_ns() - spent);
        usleep(150000 + (useconds_t)(spent / 1000));
        most = daemon_kb() > most ? daemon_kb() : most;
    }
    cr_expect_lt(most - before, 2 * kb + 1024, "%ld kB for answers of %ld", most - before, kb);
    bare_close(readers, READERS);
    bare_close(fds, CLIENTS);
}

/* The kernel closes them in the process that receives the message, or that closes its socket: here
 * they are behind a message that ends the connection. */
Test(hostile, slowly_closing_descriptors_do_not_stop_daemon)
{
    union message m;
    int root;

    place_start(&place);
    root = bare_connect(place.socket, 0);
    for (int behind = 0; behind < 2; behind++) {
        int fd = bare_connect(place.socket, OTHER);

        message_init(&m, MESSAGE_JOINED);
        if (behind)
            message_send(fd, &m, -1);
        bare_send_lingering(fd, &m);
        close(fd);
        cr_assert_eq(bare_settle(root), 0);
    }
    close(root);
}

/* Each order makes one line. */
static void order(int fd, uint32_t n)
{
    union message m;

    for (uint32_t i = 0; i < n; i++) {
        message_init(&m, MESSAGE_CONTROL);
        m.control.pid = getpid();
        m.control.kind = CONTROL_WEIGHT;
        m.control.value = 1 + i % 50;
        bare_send(fd, &m);
        cr_assert_eq(bare_wait(fd, MESSAGE_DONE, &m), 0);
        cr_assert_eq(m.done.error, 0);
    }
}

Test(hostile, user_with_too_many_connections_reads_so_and_so_does_the_log)
{
    enum { MOST = 2 };
    struct actor late;
    int taken[MOST], log;

    place_configure(&place, "[limits]\nconnections_per_user = 2\n");
    log = place_start_logged(&place);
    for (int i = 0; i < MOST; i++)
        taken[i] = bare_connect(place.socket, OTHER);
    WAIT_UNTIL((close(bare_connect(place.socket, OTHER)),
                place_logged(log, "user 65534 has 2 already (connections_per_user)")));
    actor_new(&late, place.socket);
    cr_assert_eq(actor_do(&late, DO_USER, OTHER, 0), 0);
    cr_assert_eq(actor_do(&late, DO_OPEN, 0, 0), 0);
    WAIT_UNTIL(actor_do(&late, DO_TOLD, 0, 0) != 0);
    cr_expect(strstr(late.said, "has too many"), "%s", late.said);
    for (int i = 0; i < MOST; i++)
        close(taken[i]);
    WAIT_UNTIL(actor_do(&late, DO_CONNECTED, 0, 0) == 1);
    actor_kill(&late);
    close(log);
}

Test(hostile, log_lines_of_one_user_are_limited)
{
    enum { ORDERS = 500, AT_ONCE = 32 };
    uint64_t began, limit;
    uint32_t said;
    int log, fd;

    log = place_start_logged(&place);
    fd = join_as(OTHER, 0, 0);
    began = now_ms();
    order(fd, ORDERS);
    said = place_logged(log, "WEIGHT");
    limit = AT_ONCE + (now_ms() - began) / 1000 + 1;
    cr_assert(said > 0 && said <= limit, "%u lines, at most %llu may be", said,
              (unsigned long long)limit);
    WAIT_UNTIL(
        (order(fd, 1), place_logged(log, "lines about processes of user 65534 were left out")));
    close(fd);
    close(log);
}

/* When a new user comes, the daemon forgets one that has gone, but not how much that one logged. */
Test(hostile, reconnecting_does_not_renew_log_allowance)
{
    enum { TIMES = 100, AT_ONCE = 32 };
    uint64_t began = now_ms(), limit;
    int log = place_start_logged(&place), fd;
    uint32_t said;

    for (uint32_t i = 0; i < TIMES; i++) {
        fd = bare_connect(place.socket, OTHER);
        bare_hello(fd, 0);
        order(fd, 1);
        close(fd);
        poll(NULL, 0, 15); /* by then its other limits are as before it came */
        close(bare_connect(place.socket, OTHER - 1 - i));
    }
    said = place_logged(log, "WEIGHT");
    limit = AT_ONCE + (now_ms() - began) / 1000 + 1;
    cr_expect(said > 0 && said <= limit, "%u lines, at most %llu may be", said,
              (unsigned long long)limit);
    close(log);
}

Test(hostile, unread_log_does_not_stop_daemon)
{
    int log, fd;

    log = place_start_logged(&place);
    fd = join_as(0, 0, 0);
    order(fd, 5000);
    cr_assert_gt(place_logged(log, "WEIGHT"), 100);
    order(fd, 1);
    cr_assert_eq(place_logged(log, "lines were lost: this log was not read"), 1);
    close(fd);
    close(log);
}

Test(hostile, hanging_name_service_does_not_stop_daemon)
{
    struct message_row *rows;
    union message m;
    size_t n;
    int fd;

    setenv("LD_PRELOAD", LIB_DIR "/tests/libslow_names.so", 1);
    place_start(&place);
    unsetenv("LD_PRELOAD");
    fd = bare_connect(place.socket, OTHER);
    bare_hello(fd, 3);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0, "the daemon answers");
    free(rows);
    cr_assert_eq(bare_wait(fd, MESSAGE_WELCOME, &m), 0);
    cr_assert(m.welcome.refused && strstr(m.welcome.reason, "`rt = uid:65534`"), "%s",
              m.welcome.reason);
    close(fd);
}

/* There are two users, one of which a rule names. */
Test(hostile, named_users_get_in_when_connections_are_exhausted)
{
    enum { ALL = 1024, NAMED = 65533 };
    static int taken[ALL];
    struct message_row *rows;
    size_t n;
    int fd;

    bare_many();
    place_configure(&place, "[allow]\nrt = uid:65533\n[limits]\nconnections_per_user = 1024\n");
    place_start(&place);
    for (int i = 0; i < ALL; i++)
        taken[i] = bare_connect(place.socket, OTHER);
    cr_assert_eq(query_clients(place.socket, &rows, &n), 0, "root");
    free(rows);
    fd = bare_connect(place.socket, NAMED);
    bare_hello(fd, 3);
    cr_assert_eq(bare_wait(fd, MESSAGE_WELCOME, NULL), 0, "whom a rule names");
    close(fd);
    for (int i = 0; i < ALL; i++)
        close(taken[i]);
}

/* No seal forbids that. The kernel takes the memory from all that have mapped the page. */
Test(hostile, client_punching_holes_in_its_page_is_expelled)
{
    int owner, decent, fd, page, told;
    union message m;

    place_start(&place);
    owner = owner_new();
    fd = hello_as(OTHER, &page);
    bare_device(fd, 0, DEVICE);
    cr_assert_eq(bare_wait(owner, MESSAGE_JOIN, NULL), 0);
    cr_assert_eq(fallocate(page, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 3 * 4096), 0);
    cr_assert_eq(bare_wait(owner, MESSAGE_LEAVE, &m), 0);
    cr_assert_eq(bare_wait(fd, MESSAGE_DONE, NULL), -ECONNRESET);
    close(fd);
    fd = join_as(OTHER, 0, 0);
    decent = join_as(0, 0, 0);
    cr_assert_eq(bare_wait(owner, MESSAGE_JOIN, NULL), 0);
    cr_assert_eq(bare_settle(decent), 0);
    told = (int)bare_count(owner, MESSAGE_JOIN);
    cr_assert_eq(told, 0, "nobody is told of his next one");
    close(page);
    close(fd);
    close(decent);
    close(owner);
}

/* The page is good when it is made, but its client may write to it. */
Test(hostile, zeroed_page_does_not_cut_realtime_off)
{
    struct cutin_page *page = page_new();
    struct actor rt, be;
    int fd, got;

    place_start(&place);
    fd = hello_as(OTHER, &got);
    cr_assert_eq(page_map(got, page), 0);
    close(got);
    memset(page, 0, sizeof(*page));
    bare_device(fd, 0, DEVICE);
    cr_assert_eq(bare_settle(fd), 0);
    actor_new(&rt, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&rt, DO_DEVICE, DEVICE, 0);
    actor_new(&be, place.socket);
    actor_do(&be, DO_OPEN, 0, 0);
    actor_do(&be, DO_DEVICE, DEVICE, 0);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    cr_assert_eq(actor_do(&rt, DO_CONNECTED, 0, 0), 1);
    cr_assert_eq(actor_do(&rt, DO_LOGGED, 0, 0), -1, "%s", rt.said);
    close(fd);
    page_unmap(page);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(hostile, log_names_processes_granted_or_refused_a_level)
{
    char granted[64], refused[64];
    uint32_t said = 0;
    int log = place_start_logged(&place);

    cr_assert_eq(place_logged(log, "version " CUTIN_VERSION ", at /"), 1);
    snprintf(granted, sizeof(granted), "process %d of user 0 runs at level rt\n", (int)getpid());
    snprintf(refused, sizeof(refused), "of user %d runs at level be: no rule gives user", OTHER);
    close(join_as(0, 3, 0));
    WAIT_UNTIL((said += place_logged(log, granted)) == 1);
    close(join_as(OTHER, 3, 0));
    WAIT_UNTIL((said += place_logged(log, refused)) == 2);
    close(join_as(OTHER, 0, 0));
    cr_assert_eq(bare_settle(join_as(0, 0, 0)), 0);
    cr_assert_eq(place_logged(log, "runs at level"), 0, "of best effort there is nothing to say");
    close(log);
}

static void asker_end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* A daemon that ends by itself ends when that process has ended, and not earlier. */
static void daemon_stays_for(pid_t asker)
{
    int status;

    place_outlast(&place);
    cr_assert_eq(waitpid(place.daemon, &status, WNOHANG), 0);
    asker_end(asker);
    cr_assert_eq(waitpid(place.daemon, &status, 0), place.daemon);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    place.daemon = 0;
}

/* A daemon that ends by itself remembers some that have asked it, as long as they live. */
Test(hostile, asker_is_remembered_despite_askers_of_another_user)
{
    enum { MANY = 40 };
    char *argv[] = {"cutind", "--socket", place.socket, "--idle-exit", PLACE_IDLE_S, NULL};
    pid_t owner, many[MANY];

    place.daemon = place_spawn(argv);
    owner = place_asker(&place, 0, 1);
    for (int i = 0; i < MANY; i++)
        many[i] = place_asker(&place, OTHER, 1);
    for (int i = 0; i < MANY; i++)
        asker_end(many[i]);
    daemon_stays_for(owner);
}

/* A process with a sanitizer takes long to fork. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { ASK = 2000 };
#else
enum { ASK = 10000 };
#endif

/* As `cutin run true`, of the daemon's user and another one in turn. */
Test(hostile, thousands_of_brief_askers_leave_nothing_behind)
{
    enum { AT_ONCE = 100, GROWS_KB = 512 };
    char *argv[] = {"cutind", "--socket", place.socket, "--idle-exit", PLACE_IDLE_S, NULL};
    uint32_t descriptors;
    long kb = 0;
    pid_t owner;
    int status;

    keep_nothing_freed();
    place.daemon = place_spawn(argv);
    owner = place_asker(&place, 0, 1);
    descriptors = descriptors_of(place.daemon);
    for (int i = 0; i < ASK; i++) {
        if (i == ASK / 2) /* by now it has needed all that it needs at a time */
            kb = daemon_kb();
        if (fork() == 0) {
            int fd;

            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (i % 2 && setresuid(OTHER, OTHER, OTHER) != 0)
                _exit(1);
            while ((fd = socket_connect(place.socket)) == -EAGAIN)
                usleep(1000);
            _exit(fd < 0);
        }
        for (int ends = i % AT_ONCE == AT_ONCE - 1 ? AT_ONCE : 0; ends > 0; ends--) {
            cr_assert_gt(wait(&status), 0);
            cr_assert_eq(status, 0);
        }
    }
    WAIT_UNTIL(descriptors_of(place.daemon) <= descriptors);
    cr_expect_leq(daemon_kb(), kb + GROWS_KB, "it has grown by %ld kB", daemon_kb() - kb);
    daemon_stays_for(owner);
}
