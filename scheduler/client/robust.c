/*
 * robust.c - holds end with their holder, even if there is no daemon to see it.
 */
#include "scheduler/client/robust.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static_assert(sizeof(struct robust_entry) == sizeof(struct robust_list) &&
                  offsetof(struct robust, distance) ==
                      offsetof(struct robust_list_head, futex_offset) &&
                  offsetof(struct robust, pending) ==
                      offsetof(struct robust_list_head, list_op_pending),
              "robust_list_head");
/* An entry is longer than a word, but the next device's bits begin behind it, and a client has one
 * bit of each device. */
static_assert(PAGE_DEVICES * PAGE_OWNERS * sizeof(uint32_t) + sizeof(struct robust_entry) <=
                  PAGE_TAIL,
              "entries");
static_assert(PAGE_OWNERS - PAGE_CLIENT_BITS >= 2, "entries overlap");

void robust_begin(struct robust *r)
{
    r->distance = (long)offsetof(struct cutin_page, owner) - (long)page_tail();
    robust_clear(r);
    /* This replaces glibc's list for this thread, which holds no robust mutex. */
    r->thread = syscall(SYS_set_robust_list, &r->first, sizeof(struct robust_list_head)) == 0
                    ? (uint32_t)syscall(SYS_gettid)
                    : 0;
}

void robust_clear(struct robust *r)
{
    r->first.next = &r->first;
}

void robust_add(struct robust *r, struct cutin_page *page, uint32_t slot, uint32_t bit)
{
    _Atomic uint32_t *owner = &page->owner[slot][__builtin_ctz(bit)];
    struct robust_entry *entry = (void *)((char *)owner - r->distance);

    if (!r->thread)
        return;
    atomic_store(owner, r->thread);
    entry->next = r->first.next;
    r->first.next = entry;
}

void robust_reap(struct cutin_page *page)
{
    for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
        struct page_device *device = &page->device[d];
        uint32_t bits = 0;

        if (!atomic_load_explicit(&device->used, memory_order_relaxed))
            continue;
        for (uint32_t level = 0; level < PAGE_LEVELS; level++)
            bits |= atomic_load(&device->hold[level]) | atomic_load(&device->want[level]);
        for (bits &= PAGE_BITS_CLIENTS; bits; bits &= bits - 1) {
            uint32_t bit = (uint32_t)__builtin_ctz(bits), dead = FUTEX_OWNER_DIED;

            /* Only if the bit has no new owner by now. An owner that comes between the two steps
             * writes its bit again when the daemon finds it missing (scheduler/peers/mend.c). */
            if (atomic_compare_exchange_strong(&page->owner[d][bit], &dead, 0))
                page_write_bit(device, 1u << bit, 0, PAGE_WORDS, 0);
        }
    }
}
