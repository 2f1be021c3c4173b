/* topology.c - see topology.h. */
#include "scheduler/peers/topology.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"

enum {
    NEW_MS = 20,     /* an owner that does not answer holds up a new client no longer */
    RETURN_MS = 100, /* nor a bit; an owner that has gone may write its bit for so long */
};

struct link {
    struct link_key {
        uint64_t owner, other;
    } key;
    struct peer *owner, *other;
    struct link_told {
        uint8_t words[PAGE_LEVELS], slot[PAGE_DEVICES];
    } told;       /* to the owner */
    bool strange; /* one of other's `strangers` */
    UT_hash_handle hh;
};

static struct device *devices;
static struct link *links;

/* ---- links ----------------------------------------------------------------------------------- */

static struct link *link_find(uint64_t owner, uint64_t other)
{
    struct link_key key = {owner, other};
    struct link *link;

    HASH_FIND(hh, links, &key, sizeof(key), link);
    return link;
}

const uint8_t *topology_words(const struct peer *owner, const struct peer *other)
{
    const struct link *link = link_find(owner->id, other->id);

    return link ? link->told.words : NULL;
}

/* Fills in which words of `other` work of each level holds. */
static void words_of(const struct peer *other, uint8_t words[PAGE_LEVELS])
{
    for (uint32_t level = 0; level < PAGE_LEVELS; level++) {
        uint32_t levels =
            other->flat ? level > other->level : page_held_levels(level, other->level);

        words[level] = (uint8_t)(other->bounded ? PAGE_BOTH(levels) : PAGE_HOLD(levels));
    }
}

/* Fills in what `owner` is to know of `other`; false: it may hold it nowhere. */
static bool match(const struct peer *owner, const struct peer *other, struct link_told *told)
{
    bool any = false;

    words_of(other, told->words);
    memset(told->slot, PROTOCOL_NO_SLOT, PAGE_DEVICES);
    if (owner->level <= other->lowest)
        return false;
    for (uint32_t mine = 0; mine < PAGE_DEVICES; mine++) {
        const struct peer_device *at = &owner->device[mine];

        for (uint32_t its = 0; at->bit != PROTOCOL_NO_BIT && its < PAGE_DEVICES; its++)
            if (other->device[its].device == at->device && other->device[its].told) {
                told->slot[mine] = (uint8_t)its;
                any = true;
            }
    }
    return any;
}

static void link_tell(const struct link *link, bool page)
{
    union message m;

    message_init(&m, MESSAGE_JOIN);
    m.join.client = link->key.other;
    link->owner->joins++;
    m.join.with_page = page;
    memcpy(m.join.words, link->told.words, sizeof(m.join.words));
    memcpy(m.join.slot, link->told.slot, sizeof(m.join.slot));
    peer_send(link->owner, &m, page ? link->other->page : NULL);
}

/* ---- new clients ----------------------------------------------------------------------------- */

static void new_write(const struct peer *p, uint32_t words, uint64_t now)
{
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        page_write_bit(&p->page->page->device[slot], PAGE_BIT_NEW, words, PAGE_WORDS, now);
}

/* If it is held as new: ends that when it has met all above it, or is too `late`. */
static void new_end(struct peer *p, bool late)
{
    if (!p->new_till_ns || (!late && (p->expects || p->strangers)))
        return;
    new_write(p, 0, 0);
    p->new_till_ns = 0;
}

static void link_meet(struct link *link)
{
    link->other->strangers -= link->strange;
    link->strange = false;
    new_end(link->other, false);
}

int topology_joined(struct peer *p, uint64_t client)
{
    struct link *link = link_find(p->id, client);

    if (!p->joins)
        return -EPROTO;
    p->joins--;
    if (link)
        link_meet(link);
    return 0;
}

static void link_add(struct peer *owner, struct peer *other, const struct link_told *told)
{
    struct link *link = malloc(sizeof(*link));

    if (!link) {
        owner->dead = true; /* better to register again later than to hold only some */
        return;
    }
    *link = (struct link){.key = {owner->id, other->id}, owner, other, *told};
    HASH_ADD(hh, links, key, sizeof(link->key), link);
    link->strange = other->expects && !owner->stopped;
    other->strangers += link->strange;
    owner->below++;
    other->above++;
    atomic_fetch_add(&other->page->page->above, 1);
    link_tell(link, true);
}

static void link_remove(struct link *link)
{
    union message m;

    HASH_DEL(links, link);
    link_meet(link);
    link->owner->below--;
    link->other->above--;
    atomic_fetch_sub(&link->other->page->page->above, 1);
    message_init(&m, MESSAGE_LEAVE);
    m.leave.client = link->key.other;
    peer_send(link->owner, &m, NULL);
    free(link);
}

static void link_update(struct peer *owner, struct peer *other)
{
    struct link *link = link_find(owner->id, other->id);
    struct link_told told;
    bool any = match(owner, other, &told);

    if (!link && any) {
        link_add(owner, other, &told);
    } else if (link && !any) {
        link_remove(link);
    } else if (link && memcmp(&link->told, &told, sizeof(told)) != 0) {
        link->told = told;
        link_tell(link, false);
    }
}

/* ---- devices and bits ------------------------------------------------------------------------ */

/* The next free one behind the one that was taken last. */
static uint32_t bit_take(struct device *d)
{
    uint32_t left = ~d->bits & PAGE_BITS_CLIENTS, behind = left & ~0u << d->next_bit, bit;

    if (!left)
        return PROTOCOL_NO_BIT;
    bit = (uint32_t)__builtin_ctz(behind ? behind : left);
    d->bits |= 1u << bit;
    d->next_bit = bit + 1;
    return bit;
}

static void bit_tell(const struct peer_device *mine)
{
    union message m;

    message_init(&m, MESSAGE_BIT);
    m.bit.slot = device_slot(mine);
    m.bit.bit = mine->bit;
    peer_send(mine->peer, &m, NULL);
}

/* Whether its user has more than half of the device's bits. */
static bool has_many(const struct peer *peers, const struct peer_device *mine)
{
    uint32_t n = 0;

    PEER_DEVICES (peers, p, at)
        n +=
            p->user == mine->peer->user && at->device == mine->device && at->bit != PROTOCOL_NO_BIT;
    return n > PAGE_CLIENT_BITS / 2;
}

/* Of those with a bit there that give way to `to`, the one of the lowest level; NULL: none. */
static struct peer_device *lowest_with_bit(struct peer *peers, const struct peer_device *to)
{
    struct peer_device *lowest = NULL;
    uint32_t level = to->peer->level;

    PEER_DEVICES (peers, p, at)
        if (at->device == to->device && at->bit != PROTOCOL_NO_BIT &&
            (!lowest || p->level < lowest->peer->level) &&
            (p->level < level || (p->level == level && p->user != to->peer->user && !p->unlimited &&
                                  has_many(peers, at))))
            lowest = at;
    return lowest;
}

/* Clears it in every page with the device, not only where there is a link now: links come and go,
 * and a client that died in between may have left a bit behind. */
static void clear_bit(struct peer *peers, const struct peer_device *from, uint32_t bit)
{
    PEER_DEVICES (peers, p, at)
        if (p != from->peer && at->device == from->device) {
            page_write_bit(device_page(at), 1u << bit, 0, PAGE_WORDS, 0);
            /* The next client that gets the bit is not the one that died. */
            atomic_store(&p->page->page->owner[device_slot(at)][bit], 0);
        }
}

/* Best effort holds no other and gets no bit. A client that rises gets one then, and keeps it. */
static void bit_give(struct peer *peers, struct peer_device *mine)
{
    struct peer_device *lower;
    bool wanted = mine->wants;

    if (!mine->device || mine->bit != PROTOCOL_NO_BIT || mine->revoked != PROTOCOL_NO_BIT ||
        mine->peer->level == 0)
        return;
    mine->bit = bit_take(mine->device);
    mine->wants = mine->bit == PROTOCOL_NO_BIT;
    lower = mine->wants ? lowest_with_bit(peers, mine) : NULL;
    if (!lower) {
        if (!mine->wants || !wanted)
            bit_tell(mine);
        return;
    }
    PEER_DEVICES (peers, p, at)
        if (at->device == mine->device && at->revoked != PROTOCOL_NO_BIT)
            return; /* one is about to be returned */
    lower->revoked = lower->bit;
    lower->revoked_at_ns = clock_ns();
    lower->bit = PROTOCOL_NO_BIT;
    lower->wants = true;
    bit_tell(lower);
    PEER_CLIENTS (peers, other)
        if (other != lower->peer)
            link_update(lower->peer, other);
}

/* The client of the highest level that wants a bit there; NULL: none. */
static struct peer *highest_wanting(struct peer *peers, const struct device *device)
{
    struct peer *highest = NULL;

    PEER_DEVICES (peers, p, at)
        if (at->device == device && at->wants && p->level > 0 && at->revoked == PROTOCOL_NO_BIT &&
            (!highest || p->level > highest->level))
            highest = p;
    return highest;
}

static void bit_offer(struct peer *peers, const struct device *device)
{
    struct peer *p = device->bits == PAGE_BITS_CLIENTS ? NULL : highest_wanting(peers, device);

    if (p)
        topology_update(peers, p);
}

int topology_bit_returned(struct peer *peers, struct peer *p, uint32_t slot)
{
    struct peer_device *mine = &p->device[slot];

    if (!mine->device || mine->revoked == PROTOCOL_NO_BIT)
        return -EPROTO;
    clear_bit(peers, mine, mine->revoked);
    mine->device->bits &= ~(1u << mine->revoked);
    mine->revoked = PROTOCOL_NO_BIT;
    bit_offer(peers, mine->device);
    return 0;
}

void topology_resend_bits(struct peer *p)
{
    PEER_SLOTS (p, at)
        if (at->bit != PROTOCOL_NO_BIT)
            bit_tell(at);
}

int topology_device(struct peer *p, uint32_t slot, const uint8_t uuid[16])
{
    struct device *d;

    if (p->device[slot].device)
        return -EINVAL;
    PEER_SLOTS (p, at)
        if (memcmp(at->device->uuid, uuid, 16) == 0)
            return -EINVAL;
    LL_FOREACH (devices, d)
        if (memcmp(d->uuid, uuid, 16) == 0)
            break;
    if (!d) {
        if (!(d = calloc(1, sizeof(*d))))
            return -ENOMEM;
        memcpy(d->uuid, uuid, 16);
        LL_PREPEND(devices, d);
    }
    d->users++;
    p->device[slot].device = d;
    p->device[slot].peer = p;
    return 0;
}

/* Writes into each page how many others there are beside its client. */
static void topology_write_beside(struct peer *peers)
{
    struct device *d;

    LL_FOREACH (devices, d)
        memset(d->up_to, 0, sizeof(d->up_to));
    PEER_CLIENTS (peers, p)
        PEER_SLOTS (p, at)
            for (uint32_t l = p->level; l < PAGE_LEVELS; l++)
                at->device->up_to[l]++;
    PEER_CLIENTS (peers, p) {
        uint32_t most = 0;

        PEER_SLOTS (p, at)
            most = at->device->up_to[p->level] > most ? at->device->up_to[p->level] : most;
        if (most)
            atomic_store_explicit(&p->page->page->beside, most - 1, memory_order_relaxed);
    }
}

/* Between a client's first launch and its first link there is time for a thousand more launches,
 * and clients above cannot hold it until they have its page. So the daemon holds it meanwhile. */
void topology_expect(struct peer *peers, struct peer *p, uint64_t now_ns)
{
    uint8_t words[PAGE_LEVELS];
    uint32_t held = 0;

    words_of(p, words);
    PEER_CLIENTS (peers, other) {
        if (other == p || other->level <= p->lowest)
            continue;
        p->expects = true;
        held |= other->stopped ? 0 : words[other->level];
    }
    if (!p->expects)
        return;
    atomic_fetch_add(&p->page->page->above, 1);
    p->new_till_ns = now_ns + NEW_MS * NS_PER_MS;
    new_write(p, held, now_ns);
}

void topology_settle(struct peer *p)
{
    if (p->expects)
        atomic_fetch_sub(&p->page->page->above, 1);
    p->expects = false;
    new_end(p, false);
}

void topology_update(struct peer *peers, struct peer *p)
{
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        bit_give(peers, &p->device[slot]);
    PEER_CLIENTS (peers, other) {
        if (other == p)
            continue;
        link_update(p, other);
        link_update(other, p);
    }
    topology_write_beside(peers);
}

int topology_expire(struct peer *peers, uint64_t now_ns)
{
    uint64_t due = 0;
    bool more = false; /* is there more to come? */
    struct device *d;

    PEER_DEVICES (peers, p, at)
        if (at->revoked != PROTOCOL_NO_BIT) {
            p->dead |= now_ns > at->revoked_at_ns + RETURN_MS * NS_PER_MS;
            more = true;
        }
    LL_FOREACH (devices, d)
        if (d->freed_at_ns && now_ns > d->freed_at_ns + RETURN_MS * NS_PER_MS) {
            d->freed_at_ns = 0;
            bit_offer(peers, d);
        } else {
            more |= !!d->freed_at_ns;
        }
    if (more)
        due = now_ns + RETURN_MS * NS_PER_MS;
    PEER_CLIENTS (peers, p) {
        new_end(p, now_ns >= p->new_till_ns);
        if (p->new_till_ns && (!due || p->new_till_ns < due))
            due = p->new_till_ns;
    }
    return due ? (int)((due - now_ns) / NS_PER_MS) + 1 : -1;
}

void topology_open_holds(struct peer *peers, const struct peer *p)
{
    PEER_SLOTS (p, at)
        if (at->bit != PROTOCOL_NO_BIT)
            clear_bit(peers, at, at->bit);
}

void topology_remove(struct peer *peers, struct peer *p)
{
    struct link *link;

    PEER_CLIENTS (peers, other) {
        if (other == p)
            continue;
        if ((link = link_find(p->id, other->id)))
            link_remove(link);
        if ((link = link_find(other->id, p->id)))
            link_remove(link);
    }
    PEER_SLOTS (p, mine) {
        if (mine->revoked != PROTOCOL_NO_BIT)
            mine->bit = mine->revoked;
        if (mine->bit != PROTOCOL_NO_BIT) {
            clear_bit(peers, mine, mine->bit);
            mine->device->bits &= ~(1u << mine->bit);
            if (highest_wanting(peers, mine->device))
                mine->device->freed_at_ns = clock_ns();
        }
        if (--mine->device->users == 0) {
            LL_DELETE(devices, mine->device);
            free(mine->device);
        }
        mine->device = NULL;
    }
    topology_write_beside(peers);
}
