/*
 * client.c - this process as the scheduler sees it.
 *
 * One thread, "cutin-client", owns the connection: it registers, takes in the pages of clients
 * below, and puts private memory back when the daemon goes. `lock` guards the connection, the
 * device table and the stream counts against the few other threads that use them; the real-time
 * path (activity.c) takes no lock.
 */
#include "scheduler/client.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/activity.h"
#include "scheduler/bound.h"
#include "scheduler/clock.h"
#include "scheduler/connection.h"
#include "scheduler/socket.h"

#define TICK_NS        (10 * NS_PER_MS)
#define FAST_NS        NS_PER_MS
#define OPEN_WAIT_NS   (200 * NS_PER_MS)     /* client_open, for the daemon's welcome */
#define WELCOME_NS     (2000ull * NS_PER_MS) /* later attempts */
#define BACKOFF_MIN_NS (50 * NS_PER_MS)
#define BACKOFF_MAX_NS (1000 * NS_PER_MS)
#define CLOSE_WAIT_NS  (50 * NS_PER_MS)

enum { ORDERS = 32 }; /* waiting; more than that are lost, the last ones first */

enum { SAY_ERROR, SAY_WARN, SAY_INFO, SAY_DEBUG }; /* as CUTIN_LOG */

enum link_state {
    LINK_NONE,  /* no daemon, or not now: next attempt at retry_ns */
    LINK_HELLO, /* connected, waiting for WELCOME */
    LINK_UP,    /* registered */
    LINK_DRAIN, /* disconnected, pages below not all given back yet */
};

/* What is said to the user, each once per process. */
enum notice { NOTICE_NO_DAEMON, NOTICE_LOST, NOTICE_BACK, NOTICE_REFUSED, NOTICE_NO_BIT, NOTICES };

static struct {
    pthread_mutex_t lock;
    struct client_config cfg;
    char socket[SOCKET_PATH_MAX];
    struct cutin_page *page;
    struct activity activity;
    struct bound bound;
    struct connection connection;
    enum link_state link;
    uint64_t retry_ns, backoff_ns, welcome_by_ns;
    uint64_t id;
    uint32_t asked;                      /* the level, in HELLO */
    struct message_order orders[ORDERS]; /* to be carried out once `lock` is given back */
    uint32_t order_count;
    /* What was ordered and is in force, to be told to a daemon that does not know it. */
    uint32_t ordered_level, ordered_weight; /* the level + 1; 0 = not ordered */
    bool paused;
    _Atomic uint32_t generation; /* of the page's memory */
    uint32_t share_percent;      /* least share of best effort, as the daemon said */
    uint32_t devices;
    uint32_t streams[PAGE_LEVELS], above_own;
    bool said[NOTICES];
    pthread_t thread;
    struct waker waker;
    _Atomic uint32_t level; /* granted */
    _Atomic bool open, stop, forked, up, broken;
} self = {.lock = PTHREAD_MUTEX_INITIALIZER, .connection.fd = -1};

static void __attribute__((format(printf, 3, 4)))
say(enum notice kind, int severity, const char *format, ...)
{
    char text[640];
    va_list args;

    if (self.said[kind] || !self.cfg.log)
        return;
    self.said[kind] = true;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    self.cfg.log(severity, text);
}

static void order_later(uint32_t order, uint32_t value)
{
    if (self.order_count < ORDERS)
        self.orders[self.order_count++] = (struct message_order){.order = order, .value = value};
}

/* The level whose words streams of `level` look at. */
static uint32_t word_of(uint32_t level)
{
    return atomic_load_explicit(&self.activity.flat, memory_order_relaxed) ? 0 : level;
}

/* Nothing above the level granted is done to other processes. The share is best effort's. */
static void set_granted(uint32_t level)
{
    self.bound.share_percent = word_of(level) == level ? self.share_percent : 0;
    if (atomic_exchange(&self.level, level) != level)
        order_later(CONTROL_LEVEL, level);
    atomic_store(&self.activity.ceiling, level);
    atomic_fetch_add(&self.activity.below.generation, 1);
}

static bool usable(int dev, uint32_t level)
{
    return dev >= 0 && dev < (int)PAGE_DEVICES && level < PAGE_LEVELS &&
           atomic_load_explicit(&self.open, memory_order_acquire) &&
           !atomic_load_explicit(&self.forked, memory_order_relaxed);
}

/* ---- the page ------------------------------------------------------------------------------ */

static uint32_t slot_of(uint32_t nth)
{
    return (self.cfg.first_slot + nth) % PAGE_DEVICES;
}

static void page_identify(void)
{
    struct cutin_page *page = self.page;

    page->client = self.id;
    page->pid = getpid();
    page->uid = getuid();
    atomic_store(&page->level, atomic_load(&self.level));
    atomic_store(&page->lowest, self.cfg.lowest);
    snprintf(page->name, sizeof(page->name), "%.15s", program_invocation_short_name);
}

/* The page's memory has just been replaced: put back what is this process's own. Bits of others are
 * gone, which opens their holds. */
static void page_refill(const struct cutin_page *old)
{
    atomic_fetch_add(&self.generation, 1);
    for (uint32_t n = 0; n < self.devices; n++) {
        uint32_t d = slot_of(n);

        memcpy(self.page->device[d].uuid, old->device[d].uuid, 16);
        atomic_store_explicit(&self.page->device[d].used, 1, memory_order_release);
    }
    atomic_fetch_add(&self.page->above, self.above_own);
    page_add_counters(self.page, old);
    bound_reset(&self.bound);
    activity_refresh_all(&self.activity);
}

/* Only the mapping failed, for lack of memory: the old page stays, without anybody else's bits. */
static void page_open_holds(void)
{
    for (uint32_t d = 0; d < PAGE_DEVICES; d++)
        for (uint32_t l = 0; l < PAGE_LEVELS; l++) {
            atomic_fetch_and(&self.page->device[d].want[l], PAGE_BIT_SELF);
            atomic_fetch_and(&self.page->device[d].hold[l], PAGE_BIT_SELF);
        }
    atomic_store(&self.page->above, self.above_own);
}

static void page_leave_daemon(void)
{
    struct cutin_page old;

    page_copy(&old, self.page);
    self.id = 0;
    if (page_make_private(self.page) != 0) {
        page_open_holds();
        return;
    }
    page_identify();
    page_refill(&old);
}

/* ---- the connection (lock held) -------------------------------------------------------------- */

static int send_device(uint32_t slot)
{
    union message m;

    message_init(&m, MESSAGE_DEVICE);
    m.device.slot = slot;
    memcpy(m.device.uuid, self.page->device[slot].uuid, 16);
    return connection_send(&self.connection, &m);
}

static void retry_later(void)
{
    self.link = LINK_NONE;
    self.retry_ns = clock_ns() + self.backoff_ns;
    if ((self.backoff_ns *= 2) > BACKOFF_MAX_NS)
        self.backoff_ns = BACKOFF_MAX_NS;
}

/* Bits are cleared and pages unmapped once no thread can be writing to them any more; only then may
 * this process register again. */
static void link_drain(void)
{
    if (!below_reap(&self.activity.below, self.activity.bit))
        return;
    for (uint32_t d = 0; d < PAGE_DEVICES; d++)
        atomic_store(&self.activity.bit[d], 0);
    retry_later();
}

static void link_down(int why)
{
    bool was_up = self.link == LINK_UP;

    connection_close(&self.connection);
    if (was_up) {
        say(NOTICE_LOST, SAY_WARN,
            "the scheduler at %s is gone (%s): nothing is held by other processes until it is back",
            self.socket, strerror(-why));
        page_leave_daemon();
        self.share_percent = self.bound.share_percent = 0;
    }
    atomic_store(&self.up, false);
    below_leave_all(&self.activity.below);
    self.link = LINK_DRAIN;
    link_drain();
}

static void link_connect(uint64_t wait_ns)
{
    union message m;
    int rc = connection_open(&self.connection, self.socket);

    if (rc == 0) {
        message_init(&m, MESSAGE_HELLO);
        m.hello.level = self.asked = self.cfg.level;
        m.hello.flat = atomic_load(&self.activity.flat);
        m.hello.lowest = m.hello.flat ? self.cfg.level : self.cfg.lowest;
        m.hello.bounded = self.cfg.max_hold_ms > 0;
        m.hello.weight = self.ordered_weight ? self.ordered_weight
                         : self.cfg.weight   ? self.cfg.weight
                                             : 1;
        m.hello.ordered_level = self.ordered_level;
        m.hello.paused = self.paused;
        m.hello.deadline_ms = self.cfg.deadline_ms;
        memcpy(m.hello.name, self.page->name, sizeof(m.hello.name) - 1);
        rc = connection_send(&self.connection, &m);
    }
    if (rc != 0) {
        say(NOTICE_NO_DAEMON, SAY_WARN,
            "no scheduler at %s (%s): only streams of this process are ordered until there is one",
            self.socket, strerror(-rc));
        connection_close(&self.connection);
        retry_later();
        return;
    }
    atomic_store(&self.broken, false);
    self.link = LINK_HELLO;
    self.welcome_by_ns = clock_ns() + wait_ns;
}

/* The daemon may be another user's: only what a terminal takes as text. */
static void say_refused(uint32_t granted, const char *reason)
{
    static const char *const names[PAGE_LEVELS] = {"be", "1", "2", "rt"};
    char text[PROTOCOL_TEXT];
    size_t i;

    for (i = 0; i + 1 < sizeof(text) && reason[i]; i++)
        text[i] = reason[i] >= ' ' && reason[i] <= '~' ? reason[i] : '?';
    text[i] = '\0';
    say(NOTICE_REFUSED, SAY_WARN, "CUTIN_PRIORITY=%s was not granted, running as %s: %s",
        names[self.cfg.level], names[granted], text);
}

/* Not taken in: another version, or more clients of this user than the daemon allows. */
static int on_done(const union message *m, int fd)
{
    if (self.link != LINK_HELLO || m->done.error == 0)
        return -EPROTO;
    say(NOTICE_NO_DAEMON, SAY_WARN,
        "the scheduler at %s does not take this process (%s): only "
        "streams of this process are ordered",
        self.socket,
        m->done.error == -EPROTO   ? "it is of another version"
        : m->done.error == -EUSERS ? "this user has too many clients already"
                                   : strerror(-m->done.error));
    return m->done.error;
}

static int send_level(uint32_t level)
{
    union message m;

    message_init(&m, MESSAGE_LEVEL);
    m.level.level = level;
    return connection_send(&self.connection, &m);
}

static int on_welcome(const union message *m, int fd)
{
    struct cutin_page old, *page;
    int rc;

    if (self.link != LINK_HELLO || fd < 0 || m->welcome.level > self.asked)
        return -EPROTO;
    page_copy(&old, self.page);
    rc = page_map(fd, self.page, &page);
    if (rc == -EINVAL)
        return rc;
    if (rc != 0) { /* out of memory halfway: whatever happened, there is a page here again */
        page_make_private(self.page);
        page_identify();
        page_refill(&old);
        return rc;
    }
    self.id = m->welcome.client;
    self.share_percent = m->welcome.share_percent;
    set_granted(m->welcome.level);
    page_refill(&old);
    self.link = LINK_UP;
    self.backoff_ns = BACKOFF_MIN_NS;
    atomic_store(&self.up, true);
    if (m->welcome.refused)
        say_refused(m->welcome.level, m->welcome.reason);
    if (self.said[NOTICE_NO_DAEMON] || self.said[NOTICE_LOST])
        say(NOTICE_BACK, SAY_INFO, "registered with the scheduler at %s", self.socket);
    for (uint32_t n = 0; n < self.devices && rc == 0; n++)
        rc = send_device(slot_of(n));
    if (rc == 0 && self.cfg.level != self.asked) /* client_set_level, since HELLO */
        rc = send_level(self.cfg.level);
    return rc;
}

static int on_bit(const union message *m, int fd)
{
    bool none = m->bit.bit == PROTOCOL_NO_BIT;

    if (none)
        say(NOTICE_NO_BIT, SAY_WARN,
            "%u processes above best effort share this device already: this one holds none",
            PAGE_CLIENT_BITS);
    atomic_store(&self.activity.bit[m->bit.slot], none ? 0 : 1u << m->bit.bit);
    atomic_fetch_add(&self.activity.below.generation, 1);
    activity_refresh(&self.activity, m->bit.slot);
    return 0;
}

static int on_join(const union message *m, int fd)
{
    struct cutin_page *page = NULL;
    union message reply;
    int rc;

    if ((fd >= 0) != m->join.with_page)
        return -EPROTO;
    if (fd >= 0 && (rc = page_map(fd, NULL, &page)) != 0)
        return rc;
    rc = below_join(&self.activity.below, &m->join, page);
    if (rc != 0)
        return rc;
    activity_refresh_all(&self.activity);
    message_init(&reply, MESSAGE_JOINED);
    reply.joined.client = m->join.client;
    return connection_send(&self.connection, &reply);
}

static int on_leave(const union message *m, int fd)
{
    below_leave(&self.activity.below, m->leave.client);
    return 0;
}

static void set_changed(uint32_t level)
{
    set_granted(level);
    activity_refresh_all(&self.activity);
}

static int on_level(const union message *m, int fd)
{
    if (m->level.refused)
        say_refused(m->level.level, m->level.reason);
    set_changed(m->level.level);
    return 0;
}

/* The daemon carries some out by itself; of those it is told to remember. */
static int on_order(const union message *m, int fd)
{
    switch (m->order.order) {
    case CONTROL_LEVEL:
        self.ordered_level = m->order.value + 1;
        break;
    case CONTROL_WEIGHT:
        self.ordered_weight = m->order.value;
        break;
    case CONTROL_PAUSE:
    case CONTROL_RESUME:
        self.paused = m->order.order == CONTROL_PAUSE;
        break;
    default:
        order_later(m->order.order, m->order.value);
    }
    return 0;
}

static int (*const handlers[MESSAGE_TYPES])(const union message *m, int fd) = {
    [MESSAGE_WELCOME] = on_welcome, [MESSAGE_BIT] = on_bit,     [MESSAGE_JOIN] = on_join,
    [MESSAGE_LEAVE] = on_leave,     [MESSAGE_LEVEL] = on_level, [MESSAGE_DONE] = on_done,
    [MESSAGE_ORDER] = on_order,
};

/* Everything that has arrived. Returns 0, or why the connection is of no more use. */
static int link_receive(void)
{
    union message m;
    int fd, rc;

    while ((rc = connection_receive(&self.connection, &m, &fd)) == 0) {
        bool expected = handlers[m.header.type] != NULL &&
                        (self.link == LINK_UP || m.header.type == MESSAGE_WELCOME ||
                         m.header.type == MESSAGE_DONE);

        rc = expected ? handlers[m.header.type](&m, fd) : -EPROTO;
        if (fd >= 0)
            close(fd);
        if (rc != 0)
            return rc;
    }
    return rc == -EAGAIN ? 0 : rc;
}

static void link_service(uint64_t now)
{
    int rc = 0;

    if (!self.socket[0])
        return;
    if (self.link == LINK_DRAIN)
        link_drain();
    if (self.link == LINK_NONE && now >= self.retry_ns)
        link_connect(WELCOME_NS);
    if (self.link == LINK_HELLO || self.link == LINK_UP) {
        rc = link_receive();
        if (rc == 0 && atomic_load(&self.broken))
            rc = -ECONNRESET;
        if (rc == 0 && self.link == LINK_HELLO && now >= self.welcome_by_ns)
            rc = -ETIMEDOUT;
        if (rc != 0)
            link_down(rc);
    }
    /* What LEAVE messages took out of the list. */
    if (self.link == LINK_UP && self.activity.below.dead &&
        below_reap(&self.activity.below, self.activity.bit))
        activity_refresh_all(&self.activity);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void sleep_until_news(uint64_t ns)
{
    struct timespec limit = {.tv_nsec = (long)ns};
    struct pollfd p = {.fd = self.connection.fd, .events = POLLIN};

    /* A descriptor that was closed under us answers POLLNVAL at once: do not spin on it. */
    if (p.fd >= 0 && connection_ours(&self.connection))
        ppoll(&p, 1, &limit, NULL);
    else
        ppoll(NULL, 0, &limit, NULL);
}

/* The owner may come back to us from there, so not under the lock. */
static void carry_out(const struct message_order *orders, uint32_t n)
{
    for (uint32_t i = 0; i < n && self.cfg.order; i++)
        self.cfg.order(self.cfg.user, orders[i].order, orders[i].value);
}

static void *client_main(void *unused)
{
    uint64_t next_tick = 0, interval = TICK_NS;

    while (!atomic_load(&self.stop)) {
        struct message_order orders[ORDERS];
        uint32_t n;
        uint64_t now;
        bool held;

        sleep_until_news(interval);
        now = clock_ns();
        pthread_mutex_lock(&self.lock);
        link_service(now);
        held = bound_tick(&self.bound, self.page, now);
        n = self.order_count;
        memcpy(orders, self.orders, n * sizeof(orders[0]));
        self.order_count = 0;
        pthread_mutex_unlock(&self.lock);
        carry_out(orders, n);
        activity_tick(&self.activity, now);
        atomic_store_explicit(&self.page->heartbeat_ns, now, memory_order_relaxed);
        if (now >= next_tick) {
            if (self.cfg.tick)
                self.cfg.tick(self.cfg.user);
            next_tick = now + TICK_NS;
        }
        interval = held || activity_lingering(&self.activity) ? FAST_NS : TICK_NS;
    }
    return NULL;
}

/* Signals are the application's: this thread takes none. */
static int thread_start(void)
{
    sigset_t all, old;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&self.thread, NULL, client_main, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (rc != 0)
        return -rc;
    pthread_setname_np(self.thread, "cutin-client");
    return 0;
}

/* ---- public ---------------------------------------------------------------------------------- */

static void wait_for_welcome(void)
{
    link_connect(OPEN_WAIT_NS);
    while (self.link == LINK_HELLO) {
        sleep_until_news(TICK_NS);
        link_service(clock_ns());
    }
}

static void configure(const struct client_config *cfg)
{
    self.cfg = *cfg;
    if (self.cfg.level >= PAGE_LEVELS)
        self.cfg.level = PAGE_LEVELS - 1;
    if (self.cfg.lowest > self.cfg.level)
        self.cfg.lowest = self.cfg.level;
    self.socket[0] = '\0';
    if (cfg->socket && strlen(cfg->socket) < sizeof(self.socket))
        memcpy(self.socket, cfg->socket, strlen(cfg->socket) + 1);
    else if (cfg->socket)
        say(NOTICE_NO_DAEMON, SAY_WARN,
            "the socket path %.40s... has %zu bytes, at most %d fit: only streams of this process "
            "are ordered",
            cfg->socket, strlen(cfg->socket), SOCKET_PATH_MAX - 1);
    self.activity.direct = cfg->direct;
    self.activity.linger_auto = cfg->linger_us == CLIENT_LINGER_AUTO;
    self.activity.linger_ns = self.activity.linger_auto ? 0 : cfg->linger_us * 1000ull;
    self.activity.deadline_ns = cfg->deadline_ms * (uint64_t)NS_PER_MS;
    atomic_store(&self.activity.hint_due_ns, 0);
    self.bound.max_ns = cfg->max_hold_ms * (uint64_t)NS_PER_MS;
    self.backoff_ns = BACKOFF_MIN_NS;
    atomic_store(&self.activity.flat, self.cfg.lowest == self.cfg.level);
    set_granted(self.cfg.level);
    self.order_count = 0;
    self.ordered_level = self.ordered_weight = 0;
    self.paused = false;
}

static uint64_t expire(void *activity, uint64_t now_ns)
{
    uint64_t ends = activity_expire(activity, now_ns), turns = activity_pause(activity, now_ns);

    return !ends || (turns && turns < ends) ? turns : ends;
}

int client_open(const struct client_config *cfg)
{
    int rc = 0;

    if (atomic_load(&self.forked))
        return -ECHILD;
    pthread_mutex_lock(&self.lock);
    if (atomic_load(&self.open)) {
        rc = -EALREADY;
        goto out;
    }
    if (!self.page && !(self.page = page_new())) {
        rc = -ENOMEM;
        goto out;
    }
    memset(self.said, 0, sizeof(self.said));
    configure(cfg);
    page_identify();
    self.activity.page = self.page;
    self.activity.waker = &self.waker;
    if (self.socket[0])
        wait_for_welcome();
    atomic_store(&self.stop, false);
    rc = thread_start();
    if (rc == 0 && cfg->linger_us)
        waker_start(&self.waker, expire, &self.activity);
    if (rc == 0)
        atomic_store_explicit(&self.open, true, memory_order_release);
    else if (self.link == LINK_UP)
        link_down(rc);
out:
    pthread_mutex_unlock(&self.lock);
    return rc;
}

/* The thread looks at `stop` every 10 ms; it can only be late inside the owner's tick. */
static bool thread_join(void)
{
    struct timespec by;

    atomic_store(&self.stop, true);
    clock_gettime(CLOCK_MONOTONIC, &by);
    by.tv_nsec += CLOSE_WAIT_NS;
    if (by.tv_nsec >= 1000000000) {
        by.tv_nsec -= 1000000000;
        by.tv_sec++;
    }
    return pthread_clockjoin_np(self.thread, NULL, CLOCK_MONOTONIC, &by) == 0;
}

void client_close(void)
{
    if (!usable(0, 0))
        return;
    pthread_mutex_lock(&self.lock);
    atomic_store(&self.open, false);
    waker_stop(&self.waker);
    pthread_mutex_unlock(&self.lock);
    activity_clear(&self.activity);
    if (!thread_join()) {
        /* It still owns the connection; the daemon repairs when the process ends. */
        pthread_detach(self.thread);
        return;
    }
    pthread_mutex_lock(&self.lock);
    self.said[NOTICE_LOST] = true; /* not news: we are leaving */
    if (self.link == LINK_UP || self.link == LINK_HELLO)
        link_down(-ECONNRESET);
    for (int i = 0; i < 1000 && self.link == LINK_DRAIN; i++) {
        sched_yield();
        link_drain();
    }
    self.link = LINK_NONE;
    self.retry_ns = 0;
    pthread_mutex_unlock(&self.lock);
}

struct cutin_page *client_page(void)
{
    return self.page;
}

uint32_t client_page_generation(void)
{
    return atomic_load(&self.generation);
}

struct cutin_page *client_page_alias(uint32_t *generation)
{
    struct cutin_page *alias = NULL;

    if (!usable(0, 0))
        return NULL;
    pthread_mutex_lock(&self.lock);
    if (self.link == LINK_UP)
        alias = page_alias(self.page);
    *generation = atomic_load(&self.generation);
    pthread_mutex_unlock(&self.lock);
    return alias;
}

uint32_t client_level(void)
{
    return atomic_load_explicit(&self.level, memory_order_relaxed);
}

bool client_connected(void)
{
    return atomic_load_explicit(&self.up, memory_order_relaxed);
}

int client_device(const uint8_t uuid[16])
{
    int dev;

    if (!usable(0, 0))
        return -ECHILD;
    pthread_mutex_lock(&self.lock);
    for (uint32_t n = 0; n < self.devices; n++)
        if (memcmp(self.page->device[slot_of(n)].uuid, uuid, 16) == 0) {
            dev = (int)slot_of(n);
            goto out;
        }
    if (self.devices == PAGE_DEVICES) {
        dev = -ENOSPC;
        goto out;
    }
    dev = (int)slot_of(self.devices);
    memcpy(self.page->device[dev].uuid, uuid, 16);
    atomic_store_explicit(&self.page->device[dev].used, 1, memory_order_release);
    self.devices++;
    if (self.link == LINK_UP && send_device((uint32_t)dev) != 0)
        atomic_store(&self.broken, true); /* the thread drops it and registers again */
out:
    pthread_mutex_unlock(&self.lock);
    return dev;
}

void client_active(int dev, uint32_t level)
{
    if (usable(dev, level)) /* best effort holds nobody, but it may rise */
        activity_begin(&self.activity, (uint32_t)dev, level);
}

void client_idle(int dev, uint32_t level)
{
    if (usable(dev, level))
        activity_end(&self.activity, (uint32_t)dev, level);
}

void client_soon(int dev, uint32_t level, uint32_t us)
{
    if (!usable(dev, level))
        return;
    if (us && !atomic_load(&self.waker.running)) {
        pthread_mutex_lock(&self.lock);
        if (usable(dev, level)) /* without it, what is due ends up to 10 ms late */
            waker_start(&self.waker, expire, &self.activity);
        pthread_mutex_unlock(&self.lock);
    }
    activity_soon(&self.activity, (uint32_t)dev, level, us ? clock_ns() + us * 1000ull : 0);
}

void client_hint_deadline(uint32_t us)
{
    if (usable(0, 0))
        activity_hint(&self.activity, us ? clock_ns() + us * 1000ull : 0);
}

void client_external_wait_begin(int dev, uint32_t level)
{
    if (level > 0 && usable(dev, level))
        activity_wait_begin(&self.activity, (uint32_t)dev);
}

void client_external_wait_end(int dev, uint32_t level)
{
    if (level > 0 && usable(dev, level))
        activity_wait_end(&self.activity, (uint32_t)dev);
}

const _Atomic uint32_t *client_hold_word(int dev, uint32_t level)
{
    if (!self.page || dev < 0 || dev >= (int)PAGE_DEVICES || level >= PAGE_LEVELS)
        return NULL;
    return &self.page->device[dev].hold[word_of(level)];
}

const _Atomic uint64_t *client_hold_since(int dev, uint32_t level)
{
    if (!self.page || dev < 0 || dev >= (int)PAGE_DEVICES || level >= PAGE_LEVELS)
        return NULL;
    return &self.page->device[dev].hold_since_ns[word_of(level)];
}

_Atomic uint32_t *client_above_word(void)
{
    return self.page ? &self.page->above : NULL;
}

/* Streams above the lowest level that any stream of this process has now. */
static uint32_t streams_above(void)
{
    uint32_t n = 0, lowest = 0;

    while (lowest < PAGE_LEVELS && self.streams[lowest] == 0)
        lowest++;
    for (uint32_t level = lowest + 1; level < PAGE_LEVELS; level++)
        n += self.streams[level];
    return n;
}

static void note(uint32_t level, uint32_t by)
{
    uint32_t now;

    if (!usable(0, level))
        return;
    pthread_mutex_lock(&self.lock);
    if (by == 1 || self.streams[level] > 0)
        self.streams[level] += by;
    now = streams_above();
    /* The daemon adds and subtracts its own share of the same word. */
    atomic_fetch_add(&self.page->above, now - self.above_own);
    self.above_own = now;
    pthread_mutex_unlock(&self.lock);
}

void client_note_stream(uint32_t level)
{
    note(level, 1);
}

void client_forget_stream(uint32_t level)
{
    note(level, UINT32_MAX);
}

void client_set_level(uint32_t level)
{
    if (!usable(0, level))
        return;
    pthread_mutex_lock(&self.lock);
    self.cfg.level = level;
    self.ordered_level = 0;
    if (self.cfg.lowest > level)
        self.cfg.lowest = level;
    if (self.link == LINK_UP) {
        if (send_level(level) != 0)
            atomic_store(&self.broken, true);
    } else {
        set_changed(level);
        atomic_store(&self.page->level, level);
    }
    pthread_mutex_unlock(&self.lock);
}

void client_after_fork(void)
{
    if (!self.page || atomic_load(&self.forked))
        return;
    atomic_store(&self.forked, true);
    atomic_store(&self.up, false);
    connection_close(&self.connection);
}
