/* preemptible.c - see preemptible.h. */
#include "scheduler/client/preemptible.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

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

    if (!atomic_load(&b->head))
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

/* ---- holds end with their holder, even if there is no daemon to see it -----------------------
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
 * when the daemon looks. */

/* A struct robust_list that need not be aligned. */
struct robust_entry {
    struct robust_list *next;
} __attribute__((packed, aligned(4)));
/* An entry is longer than a word, but the next device's bits begin behind it, and a client has one
 * bit of each device. */
static_assert(PAGE_DEVICES * PAGE_OWNERS * sizeof(uint32_t) + sizeof(struct robust_entry) <=
                  PAGE_TAIL,
              "entries");
static_assert(PAGE_OWNERS - PAGE_CLIENT_BITS >= 2, "entries overlap");

void preemptible_begin(struct preemptible *b)
{
    struct robust *r = &b->robust;

    r->head.futex_offset = (long)offsetof(struct cutin_page, owner) - (long)page_tail();
    r->head.list.next = &r->head.list;
    /* This replaces glibc's list for this thread, which holds no robust mutex. */
    r->thread = syscall(SYS_set_robust_list, &r->head, sizeof(r->head)) == 0
                    ? (uint32_t)syscall(SYS_gettid)
                    : 0;
}

void preemptible_rearm(struct preemptible *b)
{
    struct robust *r = &b->robust;

    r->head.list.next = &r->head.list;
    for (struct preemptible_page *p = atomic_load(&b->head); p && r->thread;
         p = atomic_load(&p->next))
        for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
            uint32_t bit = atomic_load(&b->bit[d]);

            if (!p->device[d] || !bit)
                continue;
            _Atomic uint32_t *owner =
                &p->page->owner[p->device[d] - p->page->device][__builtin_ctz(bit)];
            void *entry = (char *)owner - r->head.futex_offset;

            atomic_store(owner, r->thread);
            ((struct robust_entry *)entry)->next = r->head.list.next;
            r->head.list.next = entry;
        }
}

void preemptible_clear_dead(struct cutin_page *own)
{
    for (uint32_t d = 0; d < PAGE_DEVICES; d++) {
        struct page_device *device = &own->device[d];
        uint32_t bits = 0;

        if (!atomic_load_explicit(&device->used, memory_order_relaxed))
            continue;
        for (uint32_t level = 0; level < PAGE_LEVELS; level++)
            bits |= atomic_load(&device->hold[level]) | atomic_load(&device->want[level]);
        for (bits &= PAGE_BITS_CLIENTS; bits; bits &= bits - 1) {
            uint32_t bit = (uint32_t)__builtin_ctz(bits), dead = FUTEX_OWNER_DIED;

            /* Only if the bit has no new owner by now. An owner that comes between the two steps
             * writes its bit again when the daemon finds it missing (scheduler/peers/mend.c). */
            if (atomic_compare_exchange_strong(&own->owner[d][bit], &dead, 0))
                page_write_bit(device, 1u << bit, 0, PAGE_WORDS, 0);
        }
    }
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
