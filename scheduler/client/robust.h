/*
 * robust.h - holds end with their holder, whether or not the daemon is there to see it.
 *
 * Whoever holds another process writes a bit into that one's page, and the number of the thread
 * that keeps those bits beside it: `owner`. That thread tells the kernel of these words as of
 * robust futexes (set_robust_list(2)): when it ends, and with it its process, however that ends,
 * the kernel marks each of them FUTEX_OWNER_DIED. The held process looks at the words of those who
 * hold it and clears the bits of the dead.
 *
 * The kernel walks a list of entries, each at the same distance from its word. They lie in private
 * memory behind each mapping of a page (page_map_other), where the page's owner cannot break the
 * list. It stops after 2,048, the latest first: holds of more devices than that end with the
 * daemon's look.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_ROBUST_H
#define CUTIN_SCHEDULER_CLIENT_ROBUST_H

#include <stdint.h>

#include "scheduler/wire/page.h"

/* As struct robust_list_head, whose entries need not be aligned. */
struct robust_entry {
    struct robust_entry *next;
} __attribute__((packed, aligned(4)));
struct robust {
    struct robust_entry first __attribute__((aligned(8))); /* of a ring: the last is this one */
    long distance;
    struct robust_entry *pending;
    uint32_t thread; /* 0: the kernel has no such lists, and all below does nothing */
};

/* The calling thread keeps the bits from now on; it alone calls the next two. */
void robust_begin(struct robust *r);
/* The list is empty again. */
void robust_clear(struct robust *r);
/* `bit`, as a mask, of the device at `slot` of a page that page_map_other mapped is this thread's.
 * Not twice between two robust_clear. */
void robust_add(struct robust *r, struct cutin_page *page, uint32_t slot, uint32_t bit);

/* In one's own page: clears the bits of those who have died, whichever thread looks. */
void robust_look(struct cutin_page *page);

#endif
