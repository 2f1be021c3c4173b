/*
 * client.c - this process as the scheduler sees it.
 *
 * One thread, "cutin-link", owns the connection (link.c). Another one, "cutin-client", keeps
 * bounds, clears the bits of dead holders, and gives the owner its ticks. Both write the heartbeat.
 */
#include "scheduler/client/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "common/clock.h"
#include "common/futex.h"
#include "common/mutant.h"
#include "common/text.h"
#include "common/thread.h"
#include "scheduler/client/state.h"

#define TICK_NS       (CLIENT_TICK_MS * NS_PER_MS)
#define FAST_NS       NS_PER_MS
#define QUIET_NS      (1000 * NS_PER_MS)  /* without a call, after a second that is not watched */
#define PROMISE_NS    (10000 * NS_PER_MS) /* it beats again by then, on the busiest machine */
#define CALM_SLEEP_NS (2000 * NS_PER_MS)
#define OPEN_WAIT_NS  (400 * NS_PER_MS) /* client_open, for WELCOME; the link waits longer */
#define CLOSE_WAIT_NS (50 * NS_PER_MS)
#define LATE_WAIT_NS  (5000 * NS_PER_MS)

struct client_state self = {.lock = PTHREAD_MUTEX_INITIALIZER, .connection.fd = -1};

static bool usable(int dev, uint32_t level)
{
    return dev >= 0 && dev < (int)PAGE_DEVICES && level < PAGE_LEVELS &&
           atomic_load_explicit(&self.open, memory_order_acquire) &&
           !atomic_load_explicit(&self.forked, memory_order_relaxed);
}

void state_notice(enum notice kind, const char *format, ...)
{
    va_list args;

    if (self.said[kind] || self.texts == NOTICES)
        return;
    self.said[kind] = true;
    va_start(args, format);
    vsnprintf(self.text[self.texts++], sizeof(self.text[0]), format, args);
    va_end(args);
}

/* Logs the warnings that were kept; from a thread with the program's descriptors. */
static void log_notices(void)
{
    for (uint32_t i = 0; i < self.texts && self.cfg.log; i++)
        self.cfg.log(LOG_WARN, self.text[i]);
    self.texts = 0;
}

void state_wake(void)
{
    atomic_fetch_add(&self.news, 1);
    futex_wake(&self.news);
}

/* ---- calm: a process that does nothing is left alone -----------------------------------------
 *
 * The client's thread looks every CLIENT_TICK_MS, because no call tells of most of what it looks
 * for. If no call has come for a second and nothing of the process is under way, it sleeps for
 * CALM_SLEEP_NS at a time, until a call comes (client_note_call), and the link's thread for half as
 * long.
 *
 * Meanwhile its beat lies in the future, so that no daemon of any release takes it for a stopped
 * process. The thread that ends the calm writes the present time. The link's thread, which beats
 * while the client's waits in the driver, may then still sleep for a while. So a process is calm
 * only without a daemon, or under one that asks for late beats (MESSAGE_BEAT). */

/* Most calls only look at the word: so it is WATCHED for only one second of two. */
enum { UNWATCHED, WATCHED, CALM };

_Atomic uint32_t client_calm_word;

/* Of the client's thread: the word at its last look, and since when it has had that value. */
static uint32_t calm_seen;
static uint64_t calm_since_ns;

bool calm_is_on(void)
{
    return atomic_load(&client_calm_word) == CALM;
}

/* Any thread. True: the process was calm, so the caller must wake the client's thread. The beat is
 * written first: from then on the process may hold others, and may be stopped. */
static bool calm_end(void)
{
    bool was_on = calm_is_on(), was_calm;

    if (was_on)
        atomic_store(&self.page->heartbeat_ns, clock_ns());
    was_calm = atomic_exchange(&client_calm_word, UNWATCHED) == CALM;
    if (was_calm && !was_on) /* the calm began just now */
        atomic_store(&self.page->heartbeat_ns, clock_ns());
    return was_calm;
}

void client_calm_end(void)
{
    if (self.page && !MUTANT(calm_unended) &&
        !atomic_load_explicit(&self.forked, memory_order_relaxed) && calm_end())
        state_wake();
}

/* One look, at every tick. How long to sleep if no call has come for a second, nothing is under
 * way, and nothing will be until a call comes; else 0. A later call finds the word watched, and
 * changes it. `held`: a hold needs no bound as long as nothing waits for its end. */
static uint64_t calm_try(uint64_t now, bool held, bool looks)
{
    uint32_t word = atomic_load(&client_calm_word);
    uint64_t ns = 0;
    bool may;

    if (word != calm_seen || !calm_since_ns)
        calm_since_ns = now;
    calm_seen = word;
    if (word == UNWATCHED && now - calm_since_ns >= QUIET_NS) {
        atomic_store(&client_calm_word, WATCHED);
        calm_seen = WATCHED;
        calm_since_ns = now;
    }
    if (word == UNWATCHED || (word == WATCHED && now - calm_since_ns < QUIET_NS))
        return 0;
    looks |= MUTANT(ticks_for_ever) || (held && MUTANT(held_looks));
    may = !looks && !activity_any(&self.activity);
    /* A daemon that takes a process with a late beat for a stopped one must not find it calm. */
    pthread_mutex_lock(&self.lock);
    may = may && self.remote_count == 0 &&
          (self.link == LINK_UP ? self.asks && self.own_table : self.link == LINK_NONE);
    pthread_mutex_unlock(&self.lock);
    if (may && self.cfg.idle)
        ns = self.cfg.idle(self.cfg.user);
    pthread_mutex_lock(&self.lock);
    if (held && (ns != UINT64_MAX || hold_limit_is_open(&self.hold_limit)))
        ns = 0;
    if (ns) {
        uint32_t watched = WATCHED;

        atomic_store(&self.page->heartbeat_ns, now + PROMISE_NS);
        if (atomic_compare_exchange_strong(&client_calm_word, &watched, CALM) || watched == CALM) {
            calm_seen = CALM;
            hold_limit_rebase(&self.hold_limit);
        } else { /* a call has come since the look */
            atomic_store(&self.page->heartbeat_ns, now);
            ns = 0;
        }
    }
    pthread_mutex_unlock(&self.lock);
    if (!ns)
        calm_end();
    return ns < CALM_SLEEP_NS ? ns : CALM_SLEEP_NS;
}

/* ---- the thread ------------------------------------------------------------------------------ */

static void *client_main(void *unused)
{
    uint64_t next_tick = 0, interval = TICK_NS;
    uint32_t ticks = 0, news = 0;

    thread_name("cutin-client");
    while (!atomic_load(&self.stop)) {
        struct message_remote remote[REMOTES];
        uint32_t n;
        uint64_t now;
        bool held;

        futex_wait_change(&self.news, news, clock_ns() + interval);
        if (atomic_load(&self.stop))
            break;
        news = atomic_load(&self.news);
        now = clock_ns();
        pthread_mutex_lock(&self.lock);
        log_notices();
        preemptible_clear_dead(self.page);
        held = hold_limit_tick(&self.hold_limit, self.page, now);
        n = self.remote_count;
        memcpy(remote, self.remote, n * sizeof(remote[0]));
        self.remote_count = 0;
        pthread_mutex_unlock(&self.lock);
        /* Without the lock, because the owner may call the client from there. */
        for (uint32_t i = 0; i < n && self.cfg.remote; i++)
            self.cfg.remote(self.cfg.user, remote[i].kind, remote[i].value);
        activity_tick(&self.activity, now);
        atomic_store_explicit(&self.page->heartbeat_ns, now, memory_order_relaxed);
        if (now >= next_tick) {
            if (self.cfg.tick)
                self.cfg.tick(self.cfg.user);
            /* If no call tells of an end, the tick asks. Requests at a pace that divides the tick's
             * would be at work at every tick: a hold without end. So no tick is as long as the one
             * before: 7.5 to 10 ms, by multiples of the golden ratio, which spread evenly. */
            next_tick =
                now + (TICK_NS - ((TICK_NS / 4 * ((++ticks) * UINT32_C(0x9e3779b9))) >> 32));
        }
        interval = next_tick - now;
        if (interval > FAST_NS && (held || activity_lingering(&self.activity)))
            interval = FAST_NS;
        uint64_t look = self.cfg.look ? self.cfg.look(self.cfg.user) : 0;

        interval = look && look < interval ? look : interval;
        uint64_t calm = calm_try(now, held, look != 0);

        interval = calm ? calm : interval;
    }
    atomic_store(&self.ended, 1);
    futex_wake(&self.ended);
    return NULL;
}

/* ---- public ---------------------------------------------------------------------------------- */

/* Called with the lock; other threads have it meanwhile. */
static void wait_for_welcome(void)
{
    uint64_t by = clock_ns() + OPEN_WAIT_NS;
    bool in_time = true;

    while ((self.link == LINK_NEW || self.link == LINK_HELLO) && in_time) {
        uint32_t seen = atomic_load(&self.news);

        pthread_mutex_unlock(&self.lock);
        in_time = futex_wait_change(&self.news, seen, by);
        pthread_mutex_lock(&self.lock);
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
        state_notice(
            NOTICE_NO_DAEMON,
            "the socket path %.40s... is too long: %zu bytes of at most %d; only streams of this "
            "process are ordered",
            cfg->socket, strlen(cfg->socket), SOCKET_PATH_MAX - 1);
    self.activity.direct = cfg->direct;
    self.activity.linger_ns = cfg->linger_us * 1000ull;
    self.activity.deadline_ns = cfg->deadline_ms * (uint64_t)NS_PER_MS;
    atomic_store(&self.activity.hint_due_ns, 0);
    calm_seen = UNWATCHED;
    calm_since_ns = 0;
    calm_end();
    self.hold_limit.max_ns = cfg->max_hold_ms * (uint64_t)NS_PER_MS;
    atomic_store(&self.activity.flat, self.cfg.lowest == self.cfg.level);
    state_grant(self.cfg.level);
    self.remote_count = self.devices_due = 0;
    self.remote_level = self.remote_weight = 0;
    self.paused = false;
}

int client_open(const struct client_config *cfg)
{
    int rc = 0;

    if (atomic_load(&self.forked))
        return -ECHILD;
    if (!atomic_load(&self.open)) {
        /* Threads that got no processor at client_close may still run: no second ones then. */
        uint64_t by = clock_ns() + LATE_WAIT_NS;

        if ((self.linked && !futex_wait_change(&self.link_ended, 0, by)) ||
            (self.late && !futex_wait_change(&self.ended, 0, by)))
            return -EAGAIN;
        self.linked = self.late = false;
    }
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
    self.texts = 0;
    configure(cfg);
    if (!self.counted_since_ns)
        self.counted_since_ns = clock_ns();
    self.activity.page = self.page;
    atomic_store(&self.stop, 0);
    atomic_store(&self.ended, 0);
    if (self.socket[0] && (rc = link_start()) == 0)
        wait_for_welcome();
    log_notices();
    if (rc == 0)
        rc = thread_new(&self.thread, client_main, NULL);
    if (rc == 0 && cfg->linger_us)
        waker_start(&self.activity.waker, activity_expire, &self.activity);
    if (rc == 0)
        atomic_store_explicit(&self.open, true, memory_order_release);
    else
        atomic_store(&self.stop, 1);
out:
    pthread_mutex_unlock(&self.lock);
    if (rc != 0 && rc != -EALREADY)
        link_end(clock_ns() + CLOSE_WAIT_NS);
    return rc;
}

void client_close(void)
{
    if (!usable(0, 0))
        return;
    pthread_mutex_lock(&self.lock);
    atomic_store(&self.open, false);
    waker_stop(&self.activity.waker);
    pthread_mutex_unlock(&self.lock);
    activity_clear(&self.activity);
    /* A process that lives for a few milliseconds should not end with a tick's sleep of a thread.
     * The client's thread can be late only inside the owner's tick. */
    uint64_t by = clock_ns() + CLOSE_WAIT_NS;

    atomic_store(&self.stop, 1);
    futex_wake(&self.stop);
    state_wake();
    if (!link_end(by)) /* the daemon repairs when the process ends */
        pthread_detach(self.link_thread);
    self.late = !futex_wait_change(&self.ended, 0, by);
    if (self.late)
        pthread_detach(self.thread);
    else
        thread_join(self.thread);
    pthread_mutex_lock(&self.lock);
    log_notices();
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
    void *alias = MAP_FAILED;

    if (!usable(0, 0))
        return NULL;
    pthread_mutex_lock(&self.lock);
    /* mremap(2): with an old size of 0 it maps shared memory once more, and keeps the old
     * mapping. */
    if (self.link == LINK_UP)
        alias = mremap(self.page, 0, sizeof(*self.page), MREMAP_MAYMOVE);
    *generation = atomic_load(&self.generation);
    pthread_mutex_unlock(&self.lock);
    return alias == MAP_FAILED ? NULL : alias;
}

uint32_t client_level(void)
{
    return atomic_load_explicit(&self.activity.ceiling, memory_order_relaxed);
}

bool client_is_connected(void)
{
    bool connected;

    pthread_mutex_lock(&self.lock);
    connected = self.link == LINK_HELLO || self.link == LINK_UP;
    pthread_mutex_unlock(&self.lock);
    return connected;
}

int client_device(const uint8_t uuid[16])
{
    uint32_t n = 0;
    int dev;

    if (!usable(0, 0))
        return -ECHILD;
    pthread_mutex_lock(&self.lock);
    while (n < self.devices && memcmp(self.page->device[state_slot(n)].uuid, uuid, 16) != 0)
        n++;
    dev = n < PAGE_DEVICES ? (int)state_slot(n) : -ENOSPC;
    if (dev >= 0 && n == self.devices) {
        memcpy(self.page->device[dev].uuid, uuid, 16);
        atomic_store_explicit(&self.page->device[dev].used, 1, memory_order_release);
        self.devices++;
        if (self.link == LINK_UP) {
            self.devices_due |= 1u << dev;
            link_flush();
        }
    }
    pthread_mutex_unlock(&self.lock);
    client_note_call();
    return dev;
}

bool client_may_hold(void)
{
    bool own;

    pthread_mutex_lock(&self.lock);
    own = self.above_own;
    pthread_mutex_unlock(&self.lock);
    return own || atomic_load(&self.activity.preemptible.head);
}

bool client_is_active(void)
{
    uint32_t active = 0;

    for (uint32_t dev = 0; usable(0, 0) && dev < PAGE_DEVICES; dev++)
        active |= atomic_load_explicit(&self.page->device[dev].active, memory_order_relaxed);
    return active;
}

void client_work_begin(int dev, uint32_t level)
{
    /* The first call is before it holds others, so that its beat is recent if it is stopped then.
     * The last call is after the count: see calm_try. */
    client_note_call();
    if (usable(dev, level)) /* best effort holds no other, but its level may rise */
        activity_begin(&self.activity, (uint32_t)dev, level);
    client_note_call();
}

void client_work_end(int dev, uint32_t level)
{
    if (usable(dev, level))
        activity_end(&self.activity, (uint32_t)dev, level);
}

void client_announce(int dev, uint32_t level, uint32_t us)
{
    if (!usable(dev, level))
        return;
    if (us && !atomic_load(&self.activity.waker.running)) {
        pthread_mutex_lock(&self.lock);
        if (usable(dev, level)) /* without the waker, announcements end up to 10 ms late */
            waker_start(&self.activity.waker, activity_expire, &self.activity);
        pthread_mutex_unlock(&self.lock);
    }
    activity_announce(&self.activity, (uint32_t)dev, level, us ? clock_ns() + us * 1000ull : 0);
    client_note_call();
}

void client_hint_deadline(uint32_t us)
{
    if (usable(0, 0))
        activity_hint_due(&self.activity, us ? clock_ns() + us * 1000ull : 0);
}

void client_note_wait(int dev, uint32_t level, bool begins)
{
    if (level > 0 && usable(dev, level))
        activity_note_wait(&self.activity, (uint32_t)dev, begins);
    client_note_call();
}

uint32_t client_share_open(int dev)
{
    return dev < 0 || dev >= (int)PAGE_DEVICES ? 0 : self.hold_limit.share[dev].open;
}

bool client_has_share(void)
{
    return self.hold_limit.share_percent;
}

static bool has_place(int dev, uint32_t level)
{
    return self.page && dev >= 0 && dev < (int)PAGE_DEVICES && level < PAGE_LEVELS;
}

const _Atomic uint32_t *client_hold_word(int dev, uint32_t level)
{
    return has_place(dev, level) ? &self.page->device[dev].hold[state_word(level)] : NULL;
}

struct client_lifted client_hold_lift(int dev, uint32_t level)
{
    struct client_lifted l = {.dev = dev, .level = level};

    pthread_mutex_lock(&self.lock);
    self.hold_limit.lifted = true; /* hold_limit_tick may run in the link's thread meanwhile */
    l.generation = atomic_load(&self.generation);
    l.bits = atomic_exchange((_Atomic uint32_t *)client_hold_word(dev, level), 0);
    pthread_mutex_unlock(&self.lock);
    return l;
}

/* Puts nothing into a new page, which has its own holders, or after client_close, which opens
 * all. */
void client_hold_restore(const struct client_lifted *l)
{
    pthread_mutex_lock(&self.lock);
    self.hold_limit.lifted = false;
    if (l->generation == atomic_load(&self.generation) && atomic_load(&self.open)) {
        hold_limit_restore(&self.page->device[l->dev], state_word(l->level), l->bits);
        if (self.link == LINK_UP) {
            self.lifted = true;
            link_flush();
        }
    }
    pthread_mutex_unlock(&self.lock);
}

const _Atomic uint64_t *client_hold_since(int dev, uint32_t level)
{
    return has_place(dev, level) ? &self.page->device[dev].hold_since_ns[state_word(level)] : NULL;
}

const _Atomic uint32_t *client_shift_word(int dev)
{
    return has_place(dev, 0) ? &self.page->shift[dev] : NULL;
}

_Atomic uint32_t *client_above_word(void)
{
    return self.page ? &self.page->above : NULL;
}

const _Atomic uint32_t *client_beside_word(void)
{
    return self.page ? &self.page->beside : NULL;
}

void client_note_stream(uint32_t level, bool begins)
{
    uint32_t now = 0, lowest = 0;

    if (!usable(0, level))
        return;
    pthread_mutex_lock(&self.lock);
    if (begins)
        self.streams[level]++;
    else if (self.streams[level] > 0)
        self.streams[level]--;
    /* Streams above the lowest level that any stream of this process has now. */
    while (lowest < PAGE_LEVELS && self.streams[lowest] == 0)
        lowest++;
    for (uint32_t l = lowest + 1; l < PAGE_LEVELS; l++)
        now += self.streams[l];
    /* The daemon adds and subtracts its own share of the same word. */
    atomic_fetch_add(&self.page->above, now - self.above_own);
    self.above_own = now;
    pthread_mutex_unlock(&self.lock);
    client_note_call();
}

void client_after_fork(void)
{
    if (!self.page || atomic_load(&self.forked))
        return;
    atomic_store(&self.forked, true);
    if (!self.own_table)
        connection_close(&self.connection);
}
