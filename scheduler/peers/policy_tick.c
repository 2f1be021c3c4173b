/*
 * policy_tick.c - asks the policy which clients to hold, and writes its answer into pages.
 */
#include "scheduler/peers/scan.h"

#include "common/mutant.h"

enum {
    MEMBERS = 1024 + 64,     /* all clients that the daemon accepts */
    APART_NS = 20000000,     /* how far apart the figures of one tick were published */
    STALLED_NS = 2000000000, /* longer than most kernels */
    COUNTED_NS = 100000000,
};

static uint64_t due_ns;

struct members {
    struct policy_member members[MEMBERS];
    struct page_device *pages[MEMBERS];
    uint64_t unsure_ns[MEMBERS]; /* of used_ns */
    uint32_t n;
};

static void add(struct members *r, struct peer_device *mine, uint64_t now)
{
    struct peer *p = mine->peer;
    struct page_device *page = device_page(mine);
    uint64_t gpu_ns = figure_read(&page->counters.gpu_ns);
    uint64_t unsure_ns = figure_read(&page->counters.unsure_ns);
    uint64_t stalled_ns = stall_measure(mine, now), more = 0;
    /* A client whose work stalls wants nothing, until its work makes progress. */
    bool stalled = stalled_ns >= STALLED_NS && !MUTANT(stalled_has_quantum);

    /* No estimate knows of work that makes no progress for longer than figures lie apart (a kernel
     * of a second). It has had what the clock says; others' figures take back what they had. */
    if (stalled_ns > COUNTED_NS && stalled_ns > mine->stalled_ns && !MUTANT(long_uncounted))
        more = stalled_ns - mine->stalled_ns;
    mine->stalled_ns = stalled_ns;
    if (r->n == MEMBERS)
        return;
    /* What it used at another level does not count at its new level. */
    if (mine->policy_level != p->level && !MUTANT(use_at_other_level))
        mine->memory = 0;
    mine->policy_level = p->level;
    r->pages[r->n] = page;
    r->unsure_ns[r->n] = unsure_ns > mine->unsure_ns ? unsure_ns - mine->unsure_ns : more;
    r->members[r->n++] = (struct policy_member){
        .level = p->level,
        .weight = p->weight,
        .used_ns = mine->gpu_ns && gpu_ns > mine->gpu_ns ? gpu_ns - mine->gpu_ns : more,
        .wants = !p->stopped && !p->paused && !stalled &&
                 (device_has_work(page) || gpu_ns != mine->gpu_ns),
        .gives_deadlines = p->deadline_ms > 0,
        .deadline_ns = p->stopped || p->paused ? 0 : figure_read(&page->deadline_ns),
        .can_be_held = p->queues,
        .memory = &mine->memory,
    };
    mine->gpu_ns = gpu_ns;
    mine->unsure_ns = unsure_ns;
}

/* All together cannot have used the device for longer than the time that has passed. The excess
 * comes off what they are not sure of. */
static void take_back(struct members *r, struct device_excess *e, uint64_t now)
{
    uint64_t sum = 0, unsure = 0, back;

    for (uint32_t i = 0; i < r->n; i++) {
        uint64_t used = r->members[i].used_ns;

        r->unsure_ns[i] = r->unsure_ns[i] < used ? r->unsure_ns[i] : used;
        sum += used;
        unsure += r->unsure_ns[i];
    }
    e->ns += (int64_t)sum - (int64_t)(e->at_ns ? now - e->at_ns : sum);
    e->at_ns = now;
    e->ns = e->ns < -APART_NS ? -APART_NS : e->ns > APART_NS ? APART_NS : e->ns;
    back = e->ns <= 0 ? 0 : (uint64_t)e->ns < unsure ? (uint64_t)e->ns : unsure;
    for (uint32_t i = 0; back && i < r->n; i++)
        r->members[i].used_ns -= back * r->unsure_ns[i] / unsure;
    e->ns -= (int64_t)back;
}

int policy_tick(struct peer *peers, const struct policy *policy, uint64_t now_ns)
{
    static struct members r;
    int next = -1;

    if (!policy->decide || !peers)
        return -1;
    if (now_ns < due_ns)
        return (int)((due_ns - now_ns) / NS_PER_MS) + 1;
    /* Chains the clients of each device. With a walk through all for each, one user's sixteen
     * devices of 128 clients would keep the daemon busy. */
    PEER_DEVICES (peers, p, mine)
        mine->device->clients = NULL;
    PEER_DEVICES (peers, p, mine)
        DL_APPEND(mine->device->clients, mine);
    PEER_DEVICES (peers, p, first) {
        struct peer_device *mine;
        int after;

        if (first->device->clients != first)
            continue;
        r.n = 0;
        DL_FOREACH (first, mine)
            add(&r, mine, now_ns);
        take_back(&r, &first->device->excess, now_ns);
        after = r.n >= 2 ? (int)policy->decide(r.members, r.n) : -1;
        for (uint32_t i = 0; i < r.n; i++)
            page_write_bit(r.pages[i], PAGE_BIT_POLICY, r.members[i].hold ? PAGE_WORDS : 0,
                           PAGE_WORDS, now_ns);
        if (after >= 0 && (next < 0 || after < next))
            next = after;
    }
    due_ns = next < 0 ? 0 : now_ns + (uint64_t)next * NS_PER_MS;
    return next;
}

void policy_tick_reset(struct peer *peers)
{
    due_ns = 0;
    PEER_DEVICES (peers, p, mine) {
        page_write_bit(device_page(mine), PAGE_BIT_POLICY, 0, PAGE_WORDS, 0);
        mine->memory = 0;
    }
}
