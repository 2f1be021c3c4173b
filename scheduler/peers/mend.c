/*
 * mend.c - hold words with bits that a process wrote without owning them.
 *
 * A process above a client has its page, and may write any bit of its words: bits that hold for
 * ever, or that end another's hold. The daemon knows the owner of each bit. Twice a second, and
 * when a client goes, it clears bits without an owner and writes its own anew. If an owner says at
 * two scans in a row that its bit should be otherwise, it is told its bit once more, and so writes
 * it as it should be. The daemon logs all of that, with the processes that could have done it.
 */
#include "scheduler/peers/scan.h"

#include <string.h>

enum { SCAN_MS = 500, SOON_MS = 50 };
#define LEVELS PAGE_HOLD((1u << PAGE_LEVELS) - 1)

static uint64_t due_ns;

static uint32_t words_with(const struct page_device *page, uint32_t bit)
{
    uint32_t words = 0;

    for (uint32_t level = 0; level < PAGE_LEVELS; level++) {
        words |= atomic_load(&page->hold[level]) & bit ? PAGE_HOLD(1u << level) : 0;
        words |= atomic_load(&page->want[level]) & bit ? 1u << (PAGE_LEVELS + level) : 0;
    }
    return words;
}

/* Whether the bit differs from what its owner's activity says, which holds `words` by level. Words
 * that a bound opens and closes are left out, and so are words that no stream looks at. Reads
 * several times, because an owner may be about to write the bit. */
static bool is_wrong(const struct peer_device *mine, uint32_t bit, const uint8_t *words)
{
    const struct peer_device *its = mine->device->owner[bit];
    const struct peer *owner = its->peer;
    bool wrong = !owner->stopped && /* else the daemon clears it */
                 its->bit != PROTOCOL_NO_BIT;

    for (int i = 0; wrong && i < 8; i++) {
        uint32_t is = words_with(device_page(mine), 1u << bit);
        uint32_t level = atomic_load(&device_page(its)->active);

        level = level < owner->level ? level : owner->level;
        if (words)
            is = (is ^ words[level]) & (uint32_t)(words[0] | words[1] | words[2] | words[3]) &
                 (mine->peer->bounded ? PAGE_WORDS & ~LEVELS : LEVELS);
        wrong = is != 0;
    }
    return wrong;
}

/* Logs it, with the processes that have the page and do not own the bits. */
static void say(struct peer *peers, const struct peer_device *mine, uint32_t bits)
{
    const struct peer_device *its =
        bits & (bits - 1) ? NULL : mine->device->owner[__builtin_ctz(bits)];
    const struct peer *p = mine->peer;
    char who[256] = "";
    size_t used = 0;

    PEER_CLIENTS (peers, other)
        if (!(its && its->peer == other) && topology_words(other, p) && used < sizeof(who) - 64)
            used += (size_t)snprintf(who + used, sizeof(who) - used, "process %d of user %u, ",
                                     (int)other->who.pid, (unsigned)other->who.uid);
    log_about(p->user, LOG_WARN,
              "repaired hold bits 0x%x in the page of process %d, which did not match their "
              "owners: %sthe process itself or one that has ended wrote them",
              bits, (int)p->who.pid, who);
}

/* `seen`: the bits that were wrong at the scan before. Returns those that were put right. */
static uint32_t mend(struct peer_device *mine, uint32_t seen)
{
    uint32_t said = 0;

    mine->wrong = 0;
    for (uint32_t bit = 0; bit < PAGE_CLIENT_BITS; bit++) {
        struct peer_device *its = mine->device->owner[bit];
        const uint8_t *words = its ? topology_words(its->peer, mine->peer) : NULL;

        if (its ? its->peer == mine->peer || !is_wrong(mine, bit, words)
                : !words_with(device_page(mine), 1u << bit))
            continue;
        if (its && !(seen >> bit & 1)) {
            mine->wrong |= 1u << bit;
            continue;
        }
        said |= 1u << bit;
        if (words)
            topology_resend_bits(its->peer);
        else /* it has no owner, or one without a link to that page */
            page_write_bit(device_page(mine), 1u << bit, 0, PAGE_WORDS, 0);
    }
    return said;
}

static void owners_find(struct peer *peers)
{
    PEER_DEVICES (peers, p, mine)
        memset(mine->device->owner, 0, sizeof(mine->device->owner));
    PEER_DEVICES (peers, p, mine) {
        uint32_t bit = mine->bit != PROTOCOL_NO_BIT ? mine->bit : mine->revoked;

        if (bit != PROTOCOL_NO_BIT)
            mine->device->owner[bit] = mine;
    }
}

void mend_client(struct peer *peers, struct peer *p)
{
    owners_find(peers);
    PEER_SLOTS (p, mine)
        mend(mine, PAGE_BITS_CLIENTS);
}

int mend_scan(struct peer *peers, bool policed, uint64_t now_ns)
{
    bool any = false;

    if (now_ns < due_ns)
        return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
    owners_find(peers);
    PEER_DEVICES (peers, p, mine) {
        struct page_device *page = device_page(mine);

        page_write_bit(page, PAGE_BIT_PAUSED, p->paused ? PAGE_WORDS : 0, PAGE_WORDS, now_ns);
        if (!p->new_till_ns)
            page_write_bit(page, PAGE_BIT_NEW, 0, PAGE_WORDS, now_ns);
        if (!policed)
            page_write_bit(page, PAGE_BIT_POLICY, 0, PAGE_WORDS, now_ns);
        uint32_t said = mend(mine, mine->wrong);
        if (said)
            say(peers, mine, said);
        any |= p->above > 0;
    }
    due_ns = now_ns + SCAN_MS * NS_PER_MS;
    return any ? SCAN_MS : -1;
}

void mend_soon(void)
{
    uint64_t soon = clock_ns() + SOON_MS * NS_PER_MS;

    due_ns = due_ns < soon ? due_ns : soon;
}
