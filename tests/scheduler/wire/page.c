/*
 * page.c - the shared page: its layout, what may be mapped, and which client holds which.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler/wire/page.h"

Test(page, hot_words_have_their_own_cache_lines)
{
    static struct cutin_page page;

    for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
        cr_assert_eq((uintptr_t)&page.device[d].hold % 64, 0);
        cr_assert_eq((uintptr_t)&page.device[d].uuid % 64, 0);
        cr_assert_eq((uintptr_t)&page.device[d].counters % 64, 0);
    }
    cr_assert_eq((uintptr_t)&page.above % 64, 0);
    cr_assert_eq((uintptr_t)&page.heartbeat_ns % 64, 0);
}

Test(page, bits_of_clients_self_and_administrator_do_not_overlap)
{
    cr_assert_eq(
        PAGE_BITS_CLIENTS & (PAGE_BIT_NEW | PAGE_BIT_POLICY | PAGE_BIT_SELF | PAGE_BIT_PAUSED), 0);
    cr_assert_eq(PAGE_BITS_CLIENTS | PAGE_BIT_NEW | PAGE_BIT_POLICY | PAGE_BIT_SELF |
                     PAGE_BIT_PAUSED,
                 UINT32_MAX);
    cr_assert_eq(PAGE_BITS_CLIENTS, (1u << PAGE_CLIENT_BITS) - 1);
}

Test(page, active_level_holds_lower_and_refused_levels)
{
    static const struct {
        uint32_t level, granted, mask;
    } cases[] = {
        {0, 3, 0x0}, {1, 3, 0x1}, {2, 3, 0x3}, {3, 3, 0x7}, {3, 2, 0xf}, {2, 2, 0x3},
        {2, 1, 0xf}, {1, 1, 0x1}, {1, 0, 0xf}, {3, 0, 0xf}, {0, 0, 0x0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        cr_assert_eq(page_held_levels(cases[i].level, cases[i].granted), cases[i].mask,
                     "level %u over granted %u", cases[i].level, cases[i].granted);
}

Test(page, write_bit_changes_only_that_bit_in_given_words)
{
    struct cutin_page *page = page_new();
    struct page_device *d = &page->device[3];

    atomic_store(&d->want[1], PAGE_BIT_PAUSED);
    atomic_store(&d->hold[1], PAGE_BIT_PAUSED);
    page_write_bit(d, 1u << 4, PAGE_BOTH(0x7), PAGE_WORDS, 5);
    page_write_bit(d, 1u << 9, PAGE_BOTH(0x2), PAGE_WORDS, 5);
    cr_assert_eq(d->hold[0], 1u << 4);
    cr_assert_eq(d->hold[1], PAGE_BIT_PAUSED | 1u << 4 | 1u << 9);
    cr_assert_eq(d->want[1], d->hold[1]);
    cr_assert_eq(d->hold[3], 0);
    page_write_bit(d, 1u << 4, PAGE_HOLD(0x1), PAGE_WORDS, 5);
    cr_assert_eq(d->hold[0], 1u << 4);
    cr_assert_eq(d->want[0], 0, "where the bound is not enforced it is not written");
    cr_assert_eq(d->hold[1], PAGE_BIT_PAUSED | 1u << 9);
    cr_assert_eq(d->want[2], 0);
    page_unmap(page);
}

Test(page, hold_start_time_lasts_until_next_hold_begins)
{
    struct cutin_page *page = page_new();
    struct page_device *d = &page->device[0];

    page_write_bit(d, 1u << 4, PAGE_HOLD(0x1), PAGE_WORDS, 100);
    page_write_bit(d, 1u << 5, PAGE_HOLD(0x3), PAGE_WORDS, 200);
    cr_assert_eq(d->hold_since_ns[0], 100, "the second holder came later");
    cr_assert_eq(d->hold_since_ns[1], 200);
    page_write_bit(d, 1u << 4, PAGE_HOLD(0), PAGE_WORDS, 0);
    page_write_bit(d, 1u << 4, PAGE_HOLD(0x1), PAGE_WORDS, 300);
    cr_assert_eq(d->hold_since_ns[0], 100, "it was never open");
    page_write_bit(d, 1u << 4, PAGE_HOLD(0), PAGE_WORDS, 0);
    page_write_bit(d, 1u << 5, PAGE_HOLD(0), PAGE_WORDS, 0);
    page_write_bit(d, 1u << 4, PAGE_HOLD(0x1), PAGE_WORDS, 400);
    cr_assert_eq(d->hold_since_ns[0], 400);
    page_unmap(page);
}

/* 64 processes whose seeds are `step` apart. L1 caches have eight to twelve lines for one place. */
Test(page, first_slots_are_spread_over_processes)
{
    for (uint32_t step = 1; step < 100; step++) {
        uint32_t used[PAGE_DEVICES] = {0};

        for (uint32_t i = 0; i < 64; i++)
            cr_assert_leq(++used[page_first_slot(1000 + i * step)], 12, "step %u", step);
    }
}

Test(page, shared_page_replaces_private_page_and_back)
{
    struct cutin_page *mine = page_new(), *daemons;
    int fd;

    atomic_store(&mine->device[0].hold[0], 1);
    cr_assert_eq(page_new_shared(&daemons, &fd), 0);
    cr_assert_eq(page_map(fd, mine), 0);
    cr_assert_eq(mine->device[0].hold[0], 0);
    atomic_store(&daemons->device[0].hold[0], 42);
    cr_assert_eq(mine->device[0].hold[0], 42);
    cr_assert_eq(page_make_private(mine), 0);
    cr_assert_eq(mine->device[0].hold[0], 0);
    cr_assert_eq(mine->magic, PAGE_MAGIC);
    atomic_store(&mine->device[0].hold[0], 7);
    cr_assert_eq(daemons->device[0].hold[0], 42);
    close(fd);
    page_unmap(mine);
    page_unmap(daemons);
}

Test(page, unsealed_or_malformed_memory_is_refused)
{
    struct cutin_page *mine = page_new();
    int plain = memfd_create("plain", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int small = memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    atomic_store(&mine->device[0].hold[0], 1);
    cr_assert_eq(ftruncate(plain, sizeof(struct cutin_page)), 0);
    cr_assert_eq(page_map(plain, mine), -EINVAL, "not sealed");
    cr_assert_eq(fcntl(plain, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    cr_assert_eq(page_map(plain, mine), -EINVAL, "no header");
    cr_assert_eq(ftruncate(small, 4096), 0);
    cr_assert_eq(fcntl(small, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    cr_assert_eq(page_map(small, mine), -EINVAL, "too small");
    cr_assert_eq(page_map(null, mine), -EINVAL);
    cr_assert_eq(page_map(-1, mine), -EINVAL);
    cr_assert_eq(mine->device[0].hold[0], 1);
    close(plain);
    close(small);
    close(null);
    page_unmap(mine);
}

/* A page as long as a daemon of another release makes it. */
static int page_of(size_t bytes)
{
    int fd = memfd_create("other", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    const uint32_t header[] = {PAGE_MAGIC, PAGE_VERSION, (uint32_t)bytes, PAGE_DEVICES};

    cr_assert_eq(ftruncate(fd, (off_t)bytes), 0);
    cr_assert_eq(write(fd, header, sizeof(header)), sizeof(header));
    cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    return fd;
}

static bool untouched(const char *from, const char *to)
{
    while (from < to && !*from)
        from++;
    return from == to;
}

Test(page, longer_or_shorter_page_of_other_release_is_shared)
{
    static const size_t sizes[] = {PAGE_LEAST, sizeof(struct cutin_page), 1 << 20};

    for (int i = 0; i < 3; i++) {
        size_t both = sizes[i] < sizeof(struct cutin_page) ? sizes[i] : sizeof(struct cutin_page);
        struct cutin_page *mine = page_new(), *others;
        int fd = page_of(sizes[i]);
        char *all = mmap(NULL, sizes[i], PROT_READ, MAP_SHARED, fd, 0);

        cr_assert_eq(page_map(fd, mine), 0);
        cr_assert_eq(page_map_other(fd, &others), 0);
        memset((char *)mine + 4096, 0x5a, sizeof(*mine) - 4096);
        cr_assert_eq(memcmp(mine, all, both), 0);
        cr_assert_eq(memcmp(others, all, both), 0);
        cr_assert(untouched(all + both, all + sizes[i]));
        cr_assert(untouched((char *)others + both, (char *)(others + 1)));
        munmap(all, sizes[i]);
        cr_assert_eq(page_make_private(mine), 0);
        page_unmap(mine);
        page_unmap_other(others);
        close(fd);
    }
}

Test(page, shared_page_cannot_shrink_or_be_write_sealed)
{
    struct cutin_page *page;
    int fd;

    cr_assert_eq(page_new_shared(&page, &fd), 0);
    cr_assert_neq(ftruncate(fd, 0), 0);
    cr_assert_neq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
    page_unmap(page);
    close(fd);
}

Test(page, counters_and_times_are_carried_over)
{
    struct cutin_page *a = page_new(), *b = page_new();
    struct cutin_page *copy = aligned_alloc(4096, sizeof(*copy));

    atomic_store(&a->device[2].counters.submitted, 40);
    atomic_store(&a->device[2].counters.dropped, 1);
    atomic_store(&b->device[2].counters.submitted, 2);
    atomic_store(&a->times.hold[7], 3);
    atomic_store(&b->times.hold[7], 4);
    atomic_store(&a->times.preemption[HISTOGRAM_BUCKETS - 1], 5);
    page_copy(copy, a);
    page_add_counters(b, copy);
    cr_assert_eq(b->device[2].counters.submitted, 42);
    cr_assert_eq(b->device[2].counters.dropped, 1);
    cr_assert_eq(b->times.hold[7], 7);
    cr_assert_eq(b->times.preemption[HISTOGRAM_BUCKETS - 1], 5);
    free(copy);
    page_unmap(a);
    page_unmap(b);
}
