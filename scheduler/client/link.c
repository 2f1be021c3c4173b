/*
 * link.c - the client's link to the daemon, and its thread, which alone has its descriptors.
 *
 * It registers, handles what the daemon sends, and starts again when the daemon has gone. Where the
 * kernel allows it the thread has a descriptor table of its own: then nothing of it can be seen or
 * closed among the program's descriptors.
 *
 * The client's thread cannot do this: it asks the driver, whose files are the program's and which
 * may keep it for as long as a full ring takes to drain. This thread never enters the driver, so it
 * writes the heartbeat, too: a process that runs keeps its holds.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/futex.h"
#include "common/level.h"
#include "common/mutant.h"
#include "common/text.h"
#include "common/thread.h"
#include "scheduler/client/state.h"

#define WELCOME_NS     (2000ull * NS_PER_MS) /* a busy machine's daemon is late, not gone */
#define BACKOFF_MIN_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (1000 * NS_PER_MS)
#define LOOK_NS        (50 * NS_PER_MS) /* the longest sleep while not calm, or without /proc */
#define CALM_LOOK_NS   (1000 * NS_PER_MS)
#define OFTEN_NS       (10 * NS_PER_MS) /* without a bell, or if no other thread beats */

/* ---- the bell --------------------------------------------------------------------------------
 *
 * Wakes this thread where it waits for descriptors in a table of its own, out of reach of others:
 * a pipe, one end of which other threads find by its name in /proc. */

static struct {
    int fd; /* readable after a ring; -1: there is no bell */
    int end;
    char name[64];
} bell = {.fd = -1, .end = -1};

/* For a thread whose table is empty. Also takes the numbers 0 to 2, so that nothing written to
 * standard error gets anywhere. Without pipes there is no bell. */
static void bell_open(void)
{
    char thread[32] = "";
    int fds[2];

    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    bell.fd = fds[0];
    bell.end = fds[1];
    for (int fd = 0; fd >= 0 && fd < STDERR_FILENO;)
        fd = fcntl(bell.fd, F_DUPFD_CLOEXEC, 0);
    /* "PID/task/TID" by the numbers of this /proc, which may be of another namespace. */
    if (readlink("/proc/thread-self", thread, sizeof(thread) - 1) > 0)
        snprintf(bell.name, sizeof(bell.name), "/proc/%s/fd/%d", thread, bell.end);
}

/* From any thread. Its table has one descriptor more for a moment. Does nothing without /proc: so
 * the thread that waits must also look now and then. Opens the pipe for reading as well: so it can
 * be written to even if its thread has closed it. */
static void bell_ring(void)
{
    int keep = errno, fd = bell.name[0] ? open(bell.name, O_RDWR | O_CLOEXEC | O_NONBLOCK) : -1;

    if (fd >= 0) {
        ssize_t rung = write(fd, "", 1); /* a full pipe has been rung already */
        (void)rung;
        close(fd);
    }
    errno = keep;
}

/* ---- what the daemon grants, and its page ---------------------------------------------------- */

/* Keeps an order for the owner, to be carried out once `lock` is given back. */
static void defer_order(uint32_t kind, uint32_t value)
{
    if (self.remote_count < REMOTES)
        self.remote[self.remote_count++] = (struct message_remote){.kind = kind, .value = value};
}

void state_grant(uint32_t level)
{
    /* Only best effort has a share. */
    self.hold_limit.share_percent = state_word(level) == level ? self.share_percent : 0;
    if (atomic_exchange(&self.activity.ceiling, level) != level)
        defer_order(CONTROL_LEVEL, level);
    atomic_fetch_add(&self.activity.preemptible.generation, 1);
}

/* The page's memory has just been replaced: writes what is this process's own again. Bits of others
 * are gone, so their holds are open. */
static void refill(const struct cutin_page *old)
{
    atomic_fetch_add(&self.generation, 1);
    for (uint32_t n = 0; n < self.devices; n++) {
        uint32_t d = state_slot(n);

        memcpy(self.page->device[d].uuid, old->device[d].uuid, 16);
        atomic_store_explicit(&self.page->device[d].used, 1, memory_order_release);
    }
    atomic_fetch_add(&self.page->above, self.above_own);
    page_add_counters(self.page, old);
    /* Release: a reader that sees it finds the counters. Partner: usage_scan. */
    atomic_store_explicit(&self.page->counted_since_ns, self.counted_since_ns,
                          memory_order_release);
    hold_limit_reset(&self.hold_limit);
    activity_refresh_all(&self.activity);
}

/* Puts private memory in place of the page that the daemon shares. */
static void leave_daemon(void)
{
    struct cutin_page old;

    page_copy(&old, self.page);
    if (page_make_private(self.page) == 0) {
        refill(&old);
    } else {
        /* The mapping failed for lack of memory: the old page stays, without the bits of others. */
        for (uint32_t d = 0; d < PAGE_DEVICES; d++)
            for (uint32_t l = 0; l < PAGE_LEVELS; l++) {
                atomic_fetch_and(&self.page->device[d].want[l], PAGE_BIT_SELF);
                atomic_fetch_and(&self.page->device[d].hold[l], PAGE_BIT_SELF);
            }
        atomic_store(&self.page->above, self.above_own);
    }
}

/* ---- the link -------------------------------------------------------------------------------- */

static void retry_later(void)
{
    self.link = LINK_NONE;
    self.due_ns = clock_ns() + self.backoff_ns;
    if ((self.backoff_ns *= 2) > BACKOFF_MAX_NS)
        self.backoff_ns = BACKOFF_MAX_NS;
}

/* Clears bits and unmaps pages once no thread can write to them. Only then may this process
 * register again. */
static void link_reap(void)
{
    if (!preemptible_reap(&self.activity.preemptible))
        return;
    for (uint32_t d = 0; d < PAGE_DEVICES; d++)
        atomic_store(&self.activity.preemptible.bit[d], 0);
    retry_later();
}

/* What a process reads that the daemon does not take in: `why` is a negative errno. */
static const char *refusal(int why)
{
    switch (why) {
    case -ETIMEDOUT:
        return "it does not answer";
    case -EPIPE:
    case -ECONNRESET:
        return "it is ending, or this user has too many connections";
    case -SOCKET_FOREIGN:
        return "the socket is another user's, in a folder that others can write to";
    default:
        return strerror(-why);
    }
}

/* Ends the link, for the reason `why`. Its pages go back by link_reap. */
static void link_down(int why)
{
    connection_close(&self.connection);
    if (self.link == LINK_UP) {
        state_notice(
            NOTICE_LOST,
            "lost the scheduler at %s (%s): until it is back, other processes hold nothing here",
            self.socket, strerror(-why));
        leave_daemon();
        self.hold_limit.share_percent = self.share_percent = 0;
    } else {
        state_notice(NOTICE_NO_DAEMON,
                     "the scheduler at %s does not accept this process (%s): until it does, only "
                     "streams of this process are ordered",
                     self.socket, refusal(why));
    }
    preemptible_leave_all(&self.activity.preemptible);
    self.link = LINK_REAP;
    link_reap();
}

/* Connects and sends HELLO; WELCOME must come in time. */
static void link_connect(void)
{
    union message m;
    int rc = connection_open(&self.connection, self.socket, !self.own_table);

    if (rc == 0) {
        message_init(&m, MESSAGE_HELLO);
        m.hello.level = self.cfg.level;
        m.hello.flat = atomic_load(&self.activity.flat);
        m.hello.lowest = self.cfg.lowest;
        m.hello.bounded = self.cfg.max_hold_ms > 0;
        m.hello.weight = self.remote_weight ? self.remote_weight : self.cfg.weight;
        m.hello.remote_level = self.remote_level;
        m.hello.paused = self.paused;
        m.hello.deadline_ms = self.cfg.deadline_ms;
        snprintf(m.hello.name, sizeof(m.hello.name), "%.15s", program_invocation_short_name);
        rc = connection_send(&self.connection, &m);
    }
    if (rc != 0) {
        state_notice(
            NOTICE_NO_DAEMON,
            "no scheduler at %s (%s): until one starts, only streams of this process are ordered",
            self.socket, refusal(rc));
        connection_close(&self.connection);
        retry_later();
        return;
    }
    atomic_store(&self.broken, false);
    self.link = LINK_HELLO;
    self.due_ns = clock_ns() + WELCOME_NS;
}

/* The daemon may be another user's, so only what is safe on a terminal is printed. */
static void say_refused(uint32_t granted, const char *reason)
{
    char text[PROTOCOL_TEXT];

    snprintf(text, sizeof(text), "%s", reason);
    state_notice(NOTICE_REFUSED, "CUTIN_PRIORITY=%s was not granted, running as %s: %s",
                 level_name(self.cfg.level), level_name(granted), printable(text));
}

/* Refused: this process, as another version or because its user has more clients than the daemon
 * allows; while the link is up, a device. */
static int on_done(const union message *m, int fd)
{
    if (self.link == LINK_UP && m->done.error == -EUSERS) {
        state_notice(NOTICE_FULL,
                     "no other process holds this one on a device: its user has too many clients "
                     "there already (clients_per_device in cutind.conf)");
        return 0;
    }
    if (self.link == LINK_UP && m->done.error == -EOPNOTSUPP)
        return 0; /* an earlier release, which does not know the message */
    if (self.link != LINK_HELLO || m->done.error == 0)
        return -EPROTO;
    state_notice(NOTICE_NO_DAEMON,
                 "the scheduler at %s refuses this process (%s): only streams of this process are "
                 "ordered",
                 self.socket,
                 m->done.error == -EPROTO   ? "it is another version"
                 : m->done.error == -EUSERS ? "its user has too many clients already"
                                            : strerror(-m->done.error));
    return m->done.error;
}

/* Sends what other threads of this process have to tell the daemon. */
static int send_due(void)
{
    union message m;
    int rc = 0;

    while (self.devices_due && rc == 0) {
        message_init(&m, MESSAGE_DEVICE);
        m.device.slot = (uint32_t)__builtin_ctz(self.devices_due);
        memcpy(m.device.uuid, self.page->device[m.device.slot].uuid, 16);
        self.devices_due &= self.devices_due - 1;
        rc = connection_send(&self.connection, &m);
    }
    if (self.lifted && rc == 0) {
        self.lifted = false;
        message_init(&m, MESSAGE_LIFTED);
        rc = connection_send(&self.connection, &m);
    }
    return rc;
}

void link_flush(void)
{
    if (self.own_table)
        bell_ring();
    else if (send_due() != 0)
        atomic_store(&self.broken, true); /* the thread drops it and registers again */
}

static int on_welcome(const union message *m, int fd)
{
    struct cutin_page old;
    int rc;

    if (self.link != LINK_HELLO || fd < 0 || m->welcome.level > self.cfg.level)
        return -EPROTO;
    page_copy(&old, self.page);
    rc = page_map(fd, self.page);
    if (rc == -EINVAL)
        return rc;
    if (rc != 0) { /* out of memory halfway: puts private memory here */
        page_make_private(self.page);
        refill(&old);
        return rc;
    }
    self.share_percent = m->welcome.share_percent;
    self.asks = m->welcome.asks;
    state_grant(m->welcome.level);
    refill(&old);
    self.link = LINK_UP;
    self.backoff_ns = BACKOFF_MIN_NS;
    if (m->welcome.refused)
        say_refused(m->welcome.level, m->welcome.reason);
    if (self.said[NOTICE_NO_DAEMON] || self.said[NOTICE_LOST])
        state_notice(NOTICE_BACK, "registered with the scheduler at %s", self.socket);
    for (uint32_t n = 0; n < self.devices; n++)
        self.devices_due |= 1u << state_slot(n);
    return send_due();
}

static int on_bit(const union message *m, int fd)
{
    bool none = m->bit.bit == PROTOCOL_NO_BIT;
    uint32_t old = atomic_load(&self.activity.preemptible.bit[m->bit.slot]);

    if (none)
        state_notice(
            NOTICE_NO_BIT,
            "this process cannot hold others on a device: others above best effort have all "
            "%u places there, or its user has half of them",
            PAGE_CLIENT_BITS);
    activity_set_bit(&self.activity, m->bit.slot, none ? 0 : 1u << m->bit.bit);
    if (!none || !old)
        return 0;
    /* A higher level gets the bit as soon as no thread of this process can write it any more. */
    return preemptible_quiesce(&self.activity.preemptible) ? connection_send(&self.connection, m)
                                                           : -EBUSY;
}

static int on_join(const union message *m, int fd)
{
    struct cutin_page *page = NULL;
    union message reply;
    int rc;

    if ((fd >= 0) != m->join.with_page)
        return -EPROTO;
    if (fd >= 0 && (rc = page_map_other(fd, &page)) != 0)
        return rc;
    rc = preemptible_join(&self.activity.preemptible, &m->join, page);
    if (rc != 0)
        return rc;
    activity_refresh_all(&self.activity);
    message_init(&reply, MESSAGE_JOINED);
    reply.joined.client = m->join.client;
    rc = connection_send(&self.connection, &reply);
    return rc == -EAGAIN ? 0 : rc; /* the daemon waits 20 ms for it at most */
}

static int on_leave(const union message *m, int fd)
{
    preemptible_leave(&self.activity.preemptible, m->leave.client);
    return 0;
}

static int on_level(const union message *m, int fd)
{
    if (m->level.refused)
        say_refused(m->level.level, m->level.reason);
    state_grant(m->level.level);
    activity_refresh_all(&self.activity);
    return 0;
}

/* Remembers orders that the daemon carries out, for the next daemon; passes on the others. */
static int on_remote(const union message *m, int fd)
{
    switch (m->remote.kind) {
    case CONTROL_LEVEL:
        self.remote_level = m->remote.value + 1;
        break;
    case CONTROL_WEIGHT:
        self.remote_weight = m->remote.value;
        break;
    case CONTROL_PAUSE:
    case CONTROL_RESUME:
        self.paused = m->remote.kind == CONTROL_PAUSE;
        break;
    default:
        defer_order(m->remote.kind, m->remote.value);
    }
    return 0;
}

/* The late beat has been written already: this thread beats whenever it wakes. */
static int on_beat(const union message *m, int fd)
{
    return 0;
}

static int (*const handlers[MESSAGE_TYPES])(const union message *m, int fd) = {
    [MESSAGE_WELCOME] = on_welcome, [MESSAGE_BIT] = on_bit,     [MESSAGE_JOIN] = on_join,
    [MESSAGE_LEAVE] = on_leave,     [MESSAGE_LEVEL] = on_level, [MESSAGE_DONE] = on_done,
    [MESSAGE_REMOTE] = on_remote,   [MESSAGE_BEAT] = on_beat,
};

/* Handles every message that has arrived. Returns 0, or why the connection is of no more use. */
static int link_receive(void)
{
    union message m;
    int fd, rc;

    for (;;) {
        if (!connection_ours(&self.connection))
            return -EBADF;
        rc = message_receive(self.connection.fd, TO_CLIENT, &m, &fd);
        if (rc == -EOPNOTSUPP)
            continue; /* of a later release; this one does not know it */
        if (rc != 0)
            break;
        bool expected =
            handlers[m.header.type] && (self.link == LINK_UP || m.header.type == MESSAGE_WELCOME ||
                                        m.header.type == MESSAGE_DONE);

        rc = expected ? handlers[m.header.type](&m, fd) : -EPROTO;
        if (fd >= 0)
            close(fd);
        if (rc != 0)
            return rc;
    }
    if (rc == -EPROTO && m.header.version != PROTOCOL_VERSION)
        state_notice(
            NOTICE_NO_DAEMON,
            "the scheduler at %s speaks version %u of the protocol and this library version "
            "%u: install the same cutin on both sides and start the daemon and this process "
            "again; only streams of this process are ordered",
            self.socket, m.header.version, PROTOCOL_VERSION);
    return rc == -EAGAIN ? 0 : rc;
}

/* Handles everything that has arrived and everything that is due. */
static void link_service(uint64_t now)
{
    int rc = 0;

    if (self.link == LINK_REAP)
        link_reap();
    if (self.link == LINK_NONE && now >= self.due_ns)
        link_connect();
    if (self.link == LINK_HELLO || self.link == LINK_UP) {
        rc = link_receive();
        if (rc == 0 && self.link == LINK_UP)
            rc = send_due();
        if (rc == 0 && atomic_load(&self.broken))
            rc = -ECONNRESET;
        if (rc == 0 && self.link == LINK_HELLO && now >= self.due_ns)
            rc = -ETIMEDOUT;
        if (rc != 0)
            link_down(rc);
    }
    /* Unmaps what LEAVE messages took out of the list. */
    if (self.link == LINK_UP && self.activity.preemptible.dead &&
        preemptible_reap(&self.activity.preemptible))
        activity_refresh_all(&self.activity);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool beats_alone; /* only this thread has beaten since beat_ns, its last time */
static uint64_t beat_ns;

/* Beats with the client's thread or, while that one waits in the driver, alone: then this thread
 * ends holds of this process, too. */
static void beat(void)
{
    _Atomic uint64_t *at = &self.page->heartbeat_ns;

    if (calm_is_on()) {
        beats_alone = false;
        return;
    }
    beats_alone = atomic_load_explicit(at, memory_order_relaxed) == beat_ns;
    beat_ns = clock_ns();
    atomic_store_explicit(at, beat_ns, memory_order_relaxed);
    if (beats_alone) {
        preemptible_clear_dead(self.page);
        hold_limit_tick(&self.hold_limit, self.page, beat_ns);
    }
}

static uint64_t sleep_ns(void)
{
    uint64_t now = clock_ns(), by = self.link == LINK_UP ? now + CALM_LOOK_NS : self.due_ns;
    uint64_t most = calm_is_on() && bell.name[0] ? CALM_LOOK_NS : LOOK_NS;

    if (!self.own_table || self.link == LINK_REAP || self.activity.preemptible.dead || beats_alone)
        return OFTEN_NS;
    return by <= now ? 0 : by - now < most ? by - now : most;
}

/* Also wakes for the end, of which link_end tells. True: something has come. */
static bool sleep_until_news(uint64_t ns)
{
    const struct timespec limit = clock_timespec(ns);
    struct pollfd p[] = {{.fd = -1, .events = POLLIN}, {.fd = bell.fd, .events = POLLIN}};
    char rings[64];
    bool came;

    /* A descriptor that the program closed answers POLLNVAL at once: do not spin on it. */
    if (connection_ours(&self.connection))
        p[0].fd = self.connection.fd;
    if (p[0].fd < 0 && p[1].fd < 0) {
        futex_wait_change(&self.stop, 0, clock_ns() + ns);
        return false;
    }
    came = ppoll(p, 2, &limit, NULL) > 0;
    while (p[1].revents && read(bell.fd, rings, sizeof(rings)) > 0)
        ;
    return came;
}

static void *link_main(void *unused)
{
    thread_name("cutin-link");
    pthread_mutex_lock(&self.lock);
    preemptible_begin(&self.activity.preemptible);
    self.own_table = !MUTANT(table_shared) && thread_unshare_fds();
    if (self.own_table)
        bell_open();
    link_connect();
    state_wake();
    while (!atomic_load(&self.stop)) {
        enum link_state before = self.link;
        uint64_t ns = sleep_ns();
        bool came;

        pthread_mutex_unlock(&self.lock);
        came = sleep_until_news(ns);
        pthread_mutex_lock(&self.lock);
        beat();
        if (!atomic_load(&self.stop))
            link_service(clock_ns());
        if (came || self.link != before)
            state_wake();
    }
    self.said[NOTICE_LOST] = self.said[NOTICE_NO_DAEMON] = true; /* no messages about leaving */
    if (self.link == LINK_UP || self.link == LINK_HELLO)
        link_down(-ECONNRESET);
    for (int i = 0; i < 1000 && self.link == LINK_REAP; i++) {
        sched_yield();
        link_reap();
    }
    self.link = LINK_NONE;
    self.due_ns = 0;
    if (bell.fd >= 0) {
        close(bell.fd);
        close(bell.end);
    }
    bell.fd = -1;
    bell.name[0] = '\0';
    pthread_mutex_unlock(&self.lock);
    atomic_store(&self.link_ended, 1);
    futex_wake(&self.link_ended);
    return NULL;
}

int link_start(void)
{
    int rc;

    self.backoff_ns = BACKOFF_MIN_NS;
    atomic_store(&self.link_ended, 0);
    rc = thread_new(&self.link_thread, link_main, NULL);
    self.linked = rc == 0;
    self.link = self.linked ? LINK_NEW : LINK_NONE;
    return rc;
}

bool link_end(uint64_t by_ns)
{
    if (!self.linked)
        return true;
    pthread_mutex_lock(&self.lock);
    if (self.own_table)
        bell_ring();
    else if (connection_ours(&self.connection))
        shutdown(self.connection.fd, SHUT_RDWR); /* wakes the thread if it polls */
    pthread_mutex_unlock(&self.lock);
    if (!futex_wait_change(&self.link_ended, 0, by_ns))
        return false;
    thread_join(self.link_thread);
    self.linked = false;
    return true;
}
