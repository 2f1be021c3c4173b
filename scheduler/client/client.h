/*
 * client.h - this process as the scheduler sees it: its page, its connection, its activity.
 *
 * There is at most one client per process. Without a daemon it has a private page, and streams of
 * different levels inside the process still hold each other through it. With a daemon the page is
 * shared (at the same address: hold-word pointers stay valid), and real-time activity sets hold
 * bits in the pages of the clients below.
 *
 * Thread safety: everything but client_open may be called from any thread. client_active and
 * client_idle are the real-time path: no lock, no allocation, and no system call but one futex_wake
 * after a pause (client_note_call).
 */
#ifndef CUTIN_SCHEDULER_CLIENT_CLIENT_H
#define CUTIN_SCHEDULER_CLIENT_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "scheduler/wire/page.h"
#include "scheduler/wire/protocol.h"

enum { CLIENT_TICK_MS = 10 };

struct client_config {
    uint32_t level;  /* asked for, 0..3 */
    uint32_t lowest; /* lowest level any stream of the process may have (CUTIN_STREAM_PRIORITY) */
    uint32_t weight; /* among processes of one level, 1..1000; 0 = 1 */
    uint32_t max_hold_ms; /* starvation bound, 0 = none */
    uint32_t linger_us;   /* how long after its last work the process still counts as active */
    uint32_t deadline_ms; /* a request is to be done that long after it began; 0 = not given */
    uint32_t first_slot;  /* where in the page its devices begin, see page_first_slot */
    bool direct;          /* streams of level 3 have no queues: the time that any of them is active
                             counts as GPU time */
    const char *socket;   /* path, or NULL: no daemon */
    /* Called from the client's thread about every CLIENT_TICK_MS, and once when activity begins
     * after a pause: lets the owner find finished work (client_idle). May be NULL. */
    void (*tick)(void *user);
    /* From the same thread: for how long no tick would find anything, unless a call comes, which
     * says so by client_note_call; in nanoseconds. 0: the next one may. NULL: it always may. */
    uint64_t (*idle)(void *user);
    /* From the same thread, as often as it wakes. Returns when it wants to look again, in
     * nanoseconds; 0: no sooner than that thread comes by itself. May be NULL. */
    uint64_t (*look)(void *user);
    void *user;
    /* Called from the client's thread, with no lock held, when somebody changed something about
     * this process while it runs. CONTROL_LEVEL: its level is `value` now; client_level() says so,
     * too, and what its streams do counts so. CONTROL_BUDGET_US, CONTROL_DEPTH, CONTROL_RESET: the
     * owner's to carry out. May be NULL. */
    void (*remote)(void *user, enum control_kind kind, uint32_t value);
    /* Reports to the user, at most once per kind: severity as in CUTIN_LOG. */
    void (*log)(int severity, const char *text);
};

/* Creates the page, starts the thread that connects to the daemon if there is one ("cutin-link")
 * and the client's ("cutin-client"), both with signals blocked. A daemon that is absent is not an
 * error: connection is retried in the background. Returns 0 or -errno (no memory; -EAGAIN: threads
 * of before a client_close have not ended in five seconds; the caller then runs without
 * scheduling). */
int client_open(const struct client_config *cfg);
/* Drops the connection, clears every bit this process has set. Bounded: 50 ms. */
void client_close(void);

struct cutin_page *client_page(void); /* NULL before client_open */
/* Counts how often the page at that address was replaced by other memory. */
uint32_t client_page_generation(void);
/* A second mapping of the page that the daemon shares with others, for the GPU to look at: it stays
 * that memory when the page itself is replaced. Says of which generation it is. NULL: the page is
 * not shared now, or no memory. For munmap; not for the launch path (takes a lock). */
struct cutin_page *client_page_alias(uint32_t *generation);
uint32_t client_level(void); /* granted level: never above the one asked for */

/* Index of a device in the page by UUID; registers it with the daemon. -ENOSPC: not scheduled. */
int client_device(const uint8_t uuid[16]);

/* Somebody may be held by this process: a client below, or a stream of its own. */
bool client_may_hold(void);
/* It is active on some device. */
bool client_is_active(void);

/* Work of `level` on device `dev` begins or ends; calls nest by counting. 0 -> 1 sets this client's
 * bit for every lower level in every page below, 1 -> 0 clears it after linger. */
void client_active(int dev, uint32_t level);
void client_idle(int dev, uint32_t level);

/* Clients that take turns on the device while its least share has the hold of level 0 open, this
 * one among them, as of the thread's last look; 0: it has not. From that thread alone. */
uint32_t client_share_open(int dev);
/* It has a least share. From any thread. */
bool client_shares(void);

/* The word whose nonzero value holds streams of `level` on `dev`. Address is stable from
 * client_open on. */
const _Atomic uint32_t *client_hold_word(int dev, uint32_t level);
/* Somebody holds them now. False for a device that has no number (`dev` < 0). */
static inline bool client_held(int dev, uint32_t level)
{
    const _Atomic uint32_t *word = dev < 0 ? NULL : client_hold_word(dev, level);

    return word && atomic_load_explicit(word, memory_order_acquire) != 0;
}
/* Takes from that word, for a moment, whatever holds by it: for who looks at the word alone. What
 * comes meanwhile counts. The bits of a client that ends to hold meanwhile come back until the
 * daemon, which is told, has asked it to write them once more. From one thread; takes a lock. */
struct client_lifted {
    int dev;
    uint32_t level, bits, generation;
};
struct client_lifted client_hold_lift(int dev, uint32_t level);
void client_hold_return(const struct client_lifted *lifted);
/* When the latest of those who hold by that word began to, CLOCK_MONOTONIC. Address is stable. */
const _Atomic uint64_t *client_hold_since(int dev, uint32_t level);
/* Shifts among clients of this level on `dev`: PAGE_SHIFT. Address is stable. */
const _Atomic uint32_t *client_shift_word(int dev);
/* Number of clients above this one now connected on any device it uses (0 with no daemon), counting
 * streams of higher levels in this process. Address is stable. */
_Atomic uint32_t *client_above_word(void);
/* Other clients of this one's level or below on a device of this one, at most. */
const _Atomic uint32_t *client_beside_word(void);

/* A stream of `level` exists, or ceases to: feeds client_above_word. Any thread; not for the launch
 * path (takes a lock). */
void client_note_stream(uint32_t level, bool begins);

/* A stream of `level` begins or ends to wait for something outside this process (IPC event, memop
 * wait, external semaphore). What it waits for may itself be held: while such waits are pending on
 * `dev` and none begins or ends for 20 ms, the process does not count as active there. */
void client_external_wait(int dev, uint32_t level, bool begins);

/* Work of `level` will come on device `dev` within `us` microseconds: hold what is below from now
 * on, until what comes is done, and no longer than that; 0 takes it back. The first call starts a
 * thread. */
void client_soon(int dev, uint32_t level, uint32_t us);
/* The request under way on any device, or else the next one, is to be done `us` microseconds from
 * now; 0 takes a hint for the next one back. No lock, no system call. */
void client_hint_deadline(uint32_t us);

/* A call of the program that may give the owner's ticks something to look for. Any thread, and the
 * launch path: a look at one word, but for the first call after a pause of a second or more, which
 * wakes the client's thread (calm.h). */
extern _Atomic uint32_t client_calm;
void client_stir(void);
static inline void client_note_call(void)
{
    if (__builtin_expect(atomic_load_explicit(&client_calm, memory_order_relaxed) != 0, 0))
        client_stir();
}

/* True while registered with a daemon, or about to be: somebody above may be there, of whom nothing
 * is known yet. Takes a lock. */
bool client_introduces(void);

/* In a forked child: forget the connection and threads, close the descriptor, clear nothing. */
void client_after_fork(void);

#endif
