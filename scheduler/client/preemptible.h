/*
 * preemptible.h - the pages of the clients below this one, where it sets its hold bits.
 *
 * The link's thread adds and removes pages; the real-time path walks them without a lock. A removed
 * page stays mapped until no thread walks the list. A walker adds itself to a counter before it
 * reads the list, and the link's thread unmaps a page only after it has seen that counter at 0 once
 * since the removal.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_PREEMPTIBLE_H
#define CUTIN_SCHEDULER_CLIENT_PREEMPTIBLE_H

#include <linux/futex.h>

#include "scheduler/wire/protocol.h"

/* What set_robust_list(2) takes. */
struct robust {
    struct robust_list_head head; /* of a ring */
    uint32_t thread;              /* which keeps the bits; 0: the kernel has no such lists */
};

struct preemptible_page {
    _Atomic(struct preemptible_page *) next;
    struct preemptible_page *next_dead;
    uint64_t client;
    struct cutin_page *page;
    uint8_t words[PAGE_LEVELS];               /* see message_join */
    uint8_t among;                            /* all words that may have this client's bit */
    bool moved;                               /* removed, but a newer entry uses the mapping */
    struct page_device *device[PAGE_DEVICES]; /* by this client's devices; NULL: not on that one */
};

struct preemptible {
    _Atomic(struct preemptible_page *) head;
    _Alignas(64) _Atomic uint32_t walkers;
    /* Changes with the list and with the bits: a walker that sees a change walks again. */
    _Alignas(64) _Atomic uint32_t generation;
    _Atomic uint32_t bit[PAGE_DEVICES]; /* this client's, as a mask; 0 = the daemon gave none */
    struct preemptible_page *dead;
    struct robust robust;
    /* The level that was written last on a device: words that differ from it are written without a
     * read first. If it is wrong, as when two threads write, that costs time and nothing else. */
    _Alignas(64) _Atomic uint8_t written[PAGE_DEVICES];
};

/* Real-time path, any thread, if this client has a bit on its device `dev`: sets it in the words of
 * the pages below that work of `level` holds, and clears it in the others. Holds that begin by this
 * began at `now_ns`. */
void preemptible_write(struct preemptible *b, uint32_t dev, uint32_t level, uint64_t now_ns);

/* Clears, in the process's own page, the bits of holders that have died. Any thread. */
void preemptible_clear_dead(struct cutin_page *own);

/* Only the link's thread calls the rest. Each change ends with a new generation. */

/* From now on the calling thread keeps the bits: they end with it. */
void preemptible_begin(struct preemptible *b);
/* Bits have changed: the kernel is told in which pages they must end with this process. */
void preemptible_rearm(struct preemptible *b);
/* Adds a page of page_map_other, which then belongs to the list, even on error. With `page` NULL,
 * gives new slots or another level to a page that is in the list. Returns 0, -ENOMEM, or -ENOENT:
 * there is no such page. */
int preemptible_join(struct preemptible *b, const struct message_join *join,
                     struct cutin_page *page);
void preemptible_leave(struct preemptible *b, uint64_t client);
void preemptible_leave_all(struct preemptible *b);
/* Waits until every walker has seen the last change; false: one may still not have. */
bool preemptible_quiesce(struct preemptible *b);
/* Clears the bits in what was removed and unmaps it; false while a thread is still walking. */
bool preemptible_reap(struct preemptible *b);

#endif
