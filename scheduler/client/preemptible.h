/*
 * preemptible.h - the pages of the clients below this one, where it sets its hold bits.
 *
 * The link's thread adds and removes pages; the real-time path walks them without a lock. A page
 * that was removed stays mapped until nobody is walking: a walker announces itself in a counter
 * before it reads the list, and the link's thread unmaps only after it has seen that counter at
 * zero once since the removal.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_PREEMPTIBLE_H
#define CUTIN_SCHEDULER_CLIENT_PREEMPTIBLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "scheduler/client/robust.h"
#include "scheduler/wire/page.h"
#include "scheduler/wire/protocol.h"

struct preemptible_page {
    _Atomic(struct preemptible_page *) next;
    struct preemptible_page *next_dead;
    uint64_t client;
    struct cutin_page *page;
    uint8_t words[PAGE_LEVELS];               /* see message_join */
    uint8_t among;                            /* all that may have my bit */
    bool moved;                               /* dead: the mapping lives on in its successor */
    struct page_device *device[PAGE_DEVICES]; /* of mine; NULL: it has not */
};

struct preemptible {
    _Atomic(struct preemptible_page *) head;
    _Alignas(64) _Atomic uint32_t walkers;
    /* Changes with the list and with the bits: a walker that sees it move walks again. */
    _Alignas(64) _Atomic uint32_t generation;
    struct preemptible_page *dead;
    struct robust robust;
    /* The level that was written last on a device: what differs from it is written without a look
     * before. Where it is wrong, as when two threads write, that costs time and nothing else. */
    _Alignas(64) _Atomic uint8_t written[PAGE_DEVICES];
};

/* Real-time path, any thread: makes *bit (0: this client has none) present in the words of the
 * pages below that work of `level` on my device `dev` holds, and absent in the others. Holds that
 * begin by it began at `now_ns`. */
void preemptible_write(struct preemptible *b, uint32_t dev, const _Atomic uint32_t *bit,
                       uint32_t level, uint64_t now_ns);

/* The rest is for the link's thread alone. Each change ends with a new generation. */

/* My bits, or the pages that have them, are others than before: the kernel is told, too, in whose
 * pages they end with this process. */
void preemptible_own(struct preemptible *b, const _Atomic uint32_t bits[PAGE_DEVICES]);
/* A page of page_map_other joins (then `page` becomes the list's, even on error), or, with `page`
 * NULL, one that is there has new slots or another level. Returns 0, -ENOMEM, or -ENOENT: nothing
 * to change. */
int preemptible_join(struct preemptible *b, const struct message_join *join,
                     struct cutin_page *page);
void preemptible_leave(struct preemptible *b, uint64_t client);
void preemptible_leave_all(struct preemptible *b);
/* Waits until nobody walks who may not have seen the last change; false: somebody still does. */
bool preemptible_settle(struct preemptible *b);
/* Unmaps what was removed, `bits[dev]` cleared in it first; false while somebody is still walking.
 */
bool preemptible_reap(struct preemptible *b, const _Atomic uint32_t bits[PAGE_DEVICES]);

#endif
