/*
 * hold.c - which client holds which, and since when, as the pages say.
 *
 * Pages are written by their clients and by those above them. So these are figures, by which
 * nothing is decided.
 *
 * A hold has no bound of its own: real-time work may rightly take long, and if its kernel hangs,
 * the GPU is not free for best effort either. But an administrator should know. So if work has
 * waited for hold_warning_s without a break, the daemon says so, with both names and the settings
 * that bound a hold.
 */
#include "scheduler/peers/scan.h"

#include "common/text.h"

enum { SCAN_MS = 500, SAY_AGAIN_S = 60, NAMES = 4 };

struct hold hold_read(const struct peer_device *at, uint64_t now_ns)
{
    const struct peer *p = at->peer;
    const struct page_device *device = device_page(at);
    uint32_t word = p->flat ? 0 : p->lowest;
    uint64_t since = figure_read(&device->hold_since_ns[word]);
    uint32_t bits = atomic_load_explicit(&device->hold[word], memory_order_relaxed);

    if (since < p->client_since_ns)
        since = p->client_since_ns;
    if (at->hold_began_ns && at->hold_began_ns < since &&
        at->holds_before == figure_read(&device->counters.holds))
        since = at->hold_began_ns;
    return (struct hold){bits & PAGE_BITS_CLIENTS, now_ns > since ? now_ns - since : 0};
}

const struct peer *hold_next_holder(const struct peer *peers, const struct device *device,
                                    const struct hold *hold, const struct peer *from)
{
    if (!(hold->bits & device->bits)) /* these bits have no owner: the client wrote them */
        return NULL;
    PEER_CLIENTS (from ? from->next : peers, p)
        for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
            if (p->device[slot].device == device && p->device[slot].bit < PAGE_CLIENT_BITS &&
                hold->bits >> p->device[slot].bit & 1)
                return p;
    return NULL;
}

/* Clients choose their names: they may have any bytes. */
static size_t name_print(char *out, size_t size, const struct peer *p)
{
    char name[PAGE_NAME + 1];

    snprintf(name, sizeof(name), "%.*s", (int)PAGE_NAME, p->name);
    return (size_t)snprintf(out, size, "process %d (%s)", (int)p->who.pid, printable(name));
}

static void say(const struct peer *peers, const struct peer_device *at, const struct hold *hold)
{
    char held[64], holders[NAMES * 64];
    size_t used = 0;
    uint32_t n = 0;

    name_print(held, sizeof(held), at->peer);
    for (const struct peer *h = NULL;
         (h = hold_next_holder(peers, at->device, hold, h)) && n < NAMES; n++) {
        used += (size_t)snprintf(holders + used, sizeof(holders) - used, "%s", n ? ", " : "");
        used += name_print(holders + used, sizeof(holders) - used, h);
    }
    if (n)
        log_about(
            at->peer->user, LOG_WARN,
            "%s: work has waited for %llu s, held by %s; to bound holds, set CUTIN_MAX_HOLD_MS of "
            "the held process or min_share_percent in cutind.conf",
            held, (unsigned long long)(hold->ns / 1000 / NS_PER_MS), holders);
}

int hold_scan(struct peer *peers, const struct conf *conf, uint64_t now_ns)
{
    static uint64_t due_ns;
    bool any = false;

    PEER_CLIENTS (peers, p)
        any |= p->above > 0;
    if (!any || !conf->hold_warning_s)
        return -1;
    if (now_ns < due_ns)
        return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
    PEER_DEVICES (peers, p, at) {
        if (p->above == 0)
            continue;
        /* The page says only when the latest holder began. A hold is as long as the held process,
         * with work that waits, has seen no end of it, whichever clients hold it in turn. */
        const struct page_counters *c = &device_page(at)->counters;
        bool waits = figure_read(&c->waiting) > 0;
        uint64_t after = figure_read(&c->holds);
        struct hold hold = hold_read(at, now_ns);
        bool held = waits && hold.bits;

        at->hold_began_ns = held ? now_ns - hold.ns : 0;
        at->holds_before = after;
        /* Warns only of long holds, and not again too soon. */
        if (!held || now_ns < p->hold_warn_due_ns ||
            hold.ns < conf->hold_warning_s * 1000ull * NS_PER_MS)
            continue;
        say(peers, at, &hold);
        p->hold_warn_due_ns = now_ns + SAY_AGAIN_S * 1000ull * NS_PER_MS;
    }
    due_ns = now_ns + SCAN_MS * NS_PER_MS;
    return SCAN_MS;
}
