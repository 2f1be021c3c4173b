/*
 * robust.h - holds end with their holder, even if there is no daemon to see it.
 *
 * A process that holds another one writes a bit into that one's page and, beside it, the number of
 * the thread that keeps its bits: `owner`. That thread registers these words with the kernel as
 * robust futexes (set_robust_list(2)). The thread ends with its process, however that ends, and
 * then the kernel marks each of the words FUTEX_OWNER_DIED. The held process looks at the words of
 * its holders and clears the bits of the dead.
 *
 * The kernel walks a list of entries, each at the same distance from its word. They lie in private
 * memory behind each mapping of a page (page_map_other), where the page's owner cannot break the
 * list. The kernel begins with the latest entry and stops after 2,048. Holds of more devices end
 * when the daemon looks.
 */
#ifndef CUTIN_SCHEDULER_CLIENT_ROBUST_H
#define CUTIN_SCHEDULER_CLIENT_ROBUST_H

#include <stdint.h>

#include "scheduler/wire/page.h"

/* Like struct robust_list_head, but entries need not be aligned. */
struct robust_entry {
    struct robust_entry *next;
} __attribute__((packed, aligned(4)));
struct robust {
    struct robust_entry first __attribute__((aligned(8))); /* the head of a ring */
    long distance;
    struct robust_entry *pending;
    uint32_t thread; /* 0: the kernel has no such lists, and all below does nothing */
};

/* From now on the calling thread keeps the bits. Only it may call the next two functions. */
void robust_begin(struct robust *r);
/* Empties the list. */
void robust_clear(struct robust *r);
/* This thread keeps `bit`, a mask, of the device at `slot` in a page of page_map_other. Not twice
 * between two robust_clear. */
void robust_add(struct robust *r, struct cutin_page *page, uint32_t slot, uint32_t bit);

/* Clears, in the process's own page, the bits of holders that have died. Any thread. */
void robust_reap(struct cutin_page *page);

#endif
