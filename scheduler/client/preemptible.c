/*
 * preemptible.c - the pages of the clients below this one, where it sets its hold bits.
 */
#include "scheduler/client/preemptible.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

/* Writes `want` before `hold`, like page_write_bit. */
static void write_page(const struct preemptible_page *p, uint32_t dev, uint32_t bit, uint32_t level,
                       uint32_t before, uint64_t now_ns)
{
    uint32_t words = p->words[level], differ = words ^ p->words[before];
    uint32_t same = p->among & ~differ;

    /* Nearly all pages: the fewer instructions between two writes, the more cache lines are on
     * their way at once. */
    if (differ == PAGE_HOLD(1u) && !same) {
        page_assign_bit(p->device[dev], bit, 0, words, now_ns);
        return;
    }
    while (differ) {
        uint32_t word = 31u - (uint32_t)__builtin_clz(differ);

        differ ^= 1u << word;
        page_assign_bit(p->device[dev], bit, word, words >> word & 1, now_ns);
    }
    if (same)
        page_write_bit(p->device[dev], bit, words, same, now_ns);
}

void preemptible_write(struct preemptible *b, uint32_t dev, uint32_t level, uint64_t now_ns)
{
    struct preemptible_page *p;
    uint32_t before, mine;

    if (!atomic_load(&b->bit[dev]) || !atomic_load(&b->head))
        return;
    before = atomic_load_explicit(&b->written[dev], memory_order_relaxed);
    atomic_store_explicit(&b->written[dev], (uint8_t)level, memory_order_relaxed);
    /* Sequentially consistent. Partners: preemptible_reap and preemptible_quiesce. Either they see
     * this walker, or this walker sees neither a page that was removed nor a bit that was taken. */
    atomic_fetch_add(&b->walkers, 1);
    mine = atomic_load(&b->bit[dev]);
    for (p = atomic_load(&b->head); p; p = atomic_load(&p->next))
        if (p->device[dev])
            write_page(p, dev, mine, level, before, now_ns);
    atomic_fetch_sub(&b->walkers, 1);
}

static struct preemptible_page *find(struct preemptible *b, uint64_t client)
{
    struct preemptible_page *p = atomic_load(&b->head);

    while (p && p->client != client)
        p = atomic_load(&p->next);
    return p;
}

/* Takes `p` out of the list. It keeps its own `next`, for walkers that are at it. */
static void unlink_page(struct preemptible *b, struct preemptible_page *p)
{
    _Atomic(struct preemptible_page *) *at = &b->head;

    while (atomic_load(at) != p)
        at = &atomic_load(at)->next;
    atomic_store(at, atomic_load(&p->next));
    p->next_dead = b->dead;
    b->dead = p;
}

void preemptible_rearm(struct preemptible *b)
{
    robust_clear(&b->robust);
    for (struct preemptible_page *p = atomic_load(&b->head); p; p = atomic_load(&p->next))
        for (uint32_t d = 0; d < PAGE_DEVICES; d++)
            if (p->device[d] && atomic_load(&b->bit[d]))
                robust_add(&b->robust, p->page, (uint32_t)(p->device[d] - p->page->device),
                           atomic_load(&b->bit[d]));
}

int preemptible_join(struct preemptible *b, const struct message_join *join,
                     struct cutin_page *page)
{
    struct preemptible_page *old = find(b, join->client), *new;

    if (!page && !old)
        return -ENOENT;
    new = calloc(1, sizeof(*new));
    if (!new) {
        page_unmap_other(page);
        return -ENOMEM;
    }
    new->client = join->client;
    new->page = page ? page : old->page;
    new->among = old ? old->among : 0;
    for (uint32_t l = 0; l < PAGE_LEVELS; l++)
        new->among |= new->words[l] = join->words[l];
    for (uint32_t d = 0; d < PAGE_DEVICES; d++)
        new->device[d] = join->slot[d] < PAGE_DEVICES ? &new->page->device[join->slot[d]] : NULL;
    atomic_store(&new->next, atomic_load(&b->head));
    atomic_store(&b->head, new);
    if (old) {
        old->moved = !page;
        unlink_page(b, old);
    }
    atomic_fetch_add(&b->generation, 1);
    preemptible_rearm(b);
    return 0;
}

void preemptible_leave(struct preemptible *b, uint64_t client)
{
    struct preemptible_page *p = find(b, client);

    if (!p)
        return;
    unlink_page(b, p);
    atomic_fetch_add(&b->generation, 1);
    preemptible_rearm(b);
}

void preemptible_leave_all(struct preemptible *b)
{
    struct preemptible_page *p;

    while ((p = atomic_load(&b->head)))
        unlink_page(b, p);
    atomic_fetch_add(&b->generation, 1);
    preemptible_rearm(b);
}

bool preemptible_quiesce(struct preemptible *b)
{
    for (int i = 0; i < 1000 && atomic_load(&b->walkers); i++)
        sched_yield();
    return !atomic_load(&b->walkers);
}

bool preemptible_reap(struct preemptible *b)
{
    struct preemptible_page *p;

    if (!b->dead)
        return true;
    if (atomic_load(&b->walkers) != 0)
        return false;
    while ((p = b->dead)) {
        b->dead = p->next_dead;
        if (!p->moved) {
            for (uint32_t d = 0; d < PAGE_DEVICES; d++)
                if (p->device[d] && atomic_load(&b->bit[d]))
                    page_write_bit(p->device[d], atomic_load(&b->bit[d]), 0, PAGE_WORDS, 0);
            page_unmap_other(p->page);
        }
        free(p);
    }
    /* The same page may be in the list again already: its bits must be looked at again. */
    atomic_fetch_add(&b->generation, 1);
    return true;
}
