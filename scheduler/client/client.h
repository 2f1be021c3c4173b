/*
 * client.h - this process as the scheduler sees it: its page, its connection, its activity.
 *
 * There is at most one client per process. Without a daemon it has a private page, through which
 * streams of different levels in the process still hold each other. With a daemon the page is
 * shared, at the same address, so pointers to hold words stay valid. Real-time activity sets hold
 * bits in the pages of the clients below.
 *
 * Thread safety: any thread may call all but client_open. client_work_begin and client_work_end are
 * the real-time path: no lock, no allocation, no system call but one futex_wake after a pause
 * (client_note_call).
 */
#ifndef CUTIN_SCHEDULER_CLIENT_CLIENT_H
#define CUTIN_SCHEDULER_CLIENT_CLIENT_H

#include "scheduler/wire/protocol.h"

enum { CLIENT_TICK_MS = 10 };

struct client_config {
    uint32_t level;  /* asked for, 0..3 */
    uint32_t lowest; /* lowest level any stream of the process may have (CUTIN_STREAM_PRIORITY) */
    uint32_t weight; /* among processes of one level, 1..1000; 0 = 1 */
    uint32_t max_hold_ms; /* the longest hold, 0 = no bound */
    uint32_t linger_us;   /* how long after its last work the process still counts as active */
    uint32_t deadline_ms; /* how long after its begin a request is to be done; 0 = not given */
    uint32_t first_slot;  /* the slot of its first device in the page, see page_first_slot */
    bool direct;          /* streams of level 3 have no queues: the time that any of them is active
                             counts as GPU time */
    const char *socket;   /* path, or NULL: no daemon */
    /* Called from the client's thread about every CLIENT_TICK_MS, and once when activity begins
     * after a pause. Lets the owner find finished work (client_work_end). May be NULL. */
    void (*tick)(void *user);
    /* From the same thread. Returns for how many nanoseconds no tick will find anything, unless a
     * call comes (client_note_call). 0: the next tick may find something. NULL: any tick may. */
    uint64_t (*idle)(void *user);
    /* From the same thread, each time that it wakes. Returns after how many nanoseconds the owner
     * wants to look again; 0: whenever that thread wakes next. May be NULL. */
    uint64_t (*look)(void *user);
    void *user;
    /* From the client's thread, without a lock, for an order to this running process.
     * CONTROL_LEVEL: its level is now `value`, as client_level() says, and its streams' work counts
     * so. CONTROL_BUDGET_US, CONTROL_DEPTH, CONTROL_RESET: the owner carries it out. May be
     * NULL. */
    void (*remote)(void *user, enum control_kind kind, uint32_t value);
    /* Reports to the user, at most once per kind; severity as in CUTIN_LOG. */
    void (*log)(int severity, const char *text);
};

/* Creates the page and starts two threads with signals blocked: "cutin-link", which connects to the
 * daemon if there is one, and "cutin-client". An absent daemon is no error: it is tried again in
 * the background. Returns 0 or -errno (no memory; -EAGAIN: the threads from before a client_close
 * have not ended in five seconds), and then the caller runs without scheduling. */
int client_open(const struct client_config *cfg);
/* Drops the connection and clears every bit that this process has set. Takes at most 50 ms. */
void client_close(void);

struct cutin_page *client_page(void); /* NULL before client_open */
/* Counts how often the page at that address was replaced by other memory. */
uint32_t client_page_generation(void);
/* A second mapping of the page that the daemon shares, for the GPU to read. It stays that memory
 * when the page is replaced. *generation is that of the mapping. Its first PAGE_LEAST bytes may be
 * used. NULL: the page is not shared now, or no memory. To be freed by munmap. Not for the launch
 * path (takes a lock). */
struct cutin_page *client_page_alias(uint32_t *generation);
uint32_t client_level(void); /* granted level, never above the one asked for */

/* Index of a device in the page by UUID; registers it with the daemon. -ENOSPC: not scheduled. */
int client_device(const uint8_t uuid[16]);

/* Whether this process may hold others: a client below, or a stream of its own. */
bool client_may_hold(void);
bool client_is_active(void); /* on any device */

/* Work of `level` on device `dev` begins or ends; calls are counted. 0 -> 1 sets this client's bit
 * for every lower level in every page below; 1 -> 0 clears it after the linger. */
void client_work_begin(int dev, uint32_t level);
void client_work_end(int dev, uint32_t level);

/* How many clients share the device's time, this one included, while its least share has the hold
 * of level 0 open; 0: it is not open. As of the last look, and only from the client's thread. */
uint32_t client_share_open(int dev);
/* Whether the process has a least share. From any thread. */
bool client_has_share(void);

/* The word that holds streams of `level` on `dev` while it is not 0. Its address is stable from
 * client_open on. */
const _Atomic uint32_t *client_hold_word(int dev, uint32_t level);
/* Whether they are held now. False for a device that has no number (`dev` < 0). */
static inline bool client_held(int dev, uint32_t level)
{
    const _Atomic uint32_t *word = dev < 0 ? NULL : client_hold_word(dev, level);

    return word && atomic_load_explicit(word, memory_order_acquire) != 0;
}
/* Sets that word to 0 for a moment, for a reader that looks at it alone, such as a gate. Bits that
 * come meanwhile count. Bits of a client that ends its hold meanwhile come back, until the daemon,
 * which is told, has asked it to write them once more. From one thread; takes a lock. */
struct client_lifted {
    int dev;
    uint32_t level, bits, generation;
};
struct client_lifted client_hold_lift(int dev, uint32_t level);
void client_hold_restore(const struct client_lifted *lifted);
/* When the latest holder by that word began to hold, CLOCK_MONOTONIC. Its address is stable. */
const _Atomic uint64_t *client_hold_since(int dev, uint32_t level);
/* The shifts of this client on `dev`, see PAGE_SHIFT_WORD. Its address is stable. */
const _Atomic uint32_t *client_shift_word(int dev);
/* Number of clients above this one that are connected on any device it uses (0 with no daemon),
 * plus streams of higher levels in this process. Its address is stable. */
_Atomic uint32_t *client_above_word(void);
/* Number of other clients of its level or below on a device of this client, at most. */
const _Atomic uint32_t *client_beside_word(void);

/* A stream of `level` begins or ceases to exist; counts for client_above_word. Any thread; not for
 * the launch path (takes a lock). */
void client_note_stream(uint32_t level, bool begins);

/* A stream of `level` begins or ends to wait for something outside this process (IPC event, memop
 * wait, external semaphore). What it waits for may itself be held. So if such waits are pending on
 * `dev` and none begins or ends for 20 ms, the process does not count as active there. */
void client_note_wait(int dev, uint32_t level, bool begins);

/* Announces work of `level` on device `dev` within `us` microseconds: holds what is below from now
 * on, until that work is done, for `us` at most if it does not come. 0 takes it back. The first
 * call starts a thread. */
void client_announce(int dev, uint32_t level, uint32_t us);
/* The request under way on any device, or else the next one, is to be done `us` microseconds from
 * now. 0 takes back a hint for the next one. No lock, no system call. */
void client_hint_deadline(uint32_t us);

/* Notes a call of the program that may give the owner's ticks something to look for. Any thread,
 * launch path. Looks at one word; the first call after a pause of a second or more also wakes the
 * client's thread. */
extern _Atomic uint32_t client_calm_word;
void client_calm_end(void);
static inline void client_note_call(void)
{
    if (__builtin_expect(atomic_load_explicit(&client_calm_word, memory_order_relaxed) != 0, 0))
        client_calm_end();
}

/* True while the process is registered with a daemon, or about to be: there may be clients above
 * that it does not know yet. Takes a lock. */
bool client_is_connected(void);

/* In a forked child: forgets the connection and threads, closes the descriptor, clears nothing. */
void client_after_fork(void);

#endif
