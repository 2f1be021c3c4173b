/*
 * list.c - the answer to LIST: a row for each client.
 */
#include "scheduler/daemon/list.h"

#include <string.h>
#include <sys/epoll.h>
#include <utlist.h>

#include "common/clock.h"
#include "scheduler/peers/hold.h"
#include "scheduler/peers/topology.h"
#include "scheduler/peers/usage.h"

static void row_device(struct message_row_device *row, const struct peer *p, uint32_t slot,
                       const struct page_device *device, uint64_t now)
{
    struct hold hold;

    memcpy(row->uuid, p->device[slot].device->uuid, sizeof(row->uuid));
    row->active = atomic_load_explicit(&device->active, memory_order_relaxed);
    row->bit = p->device[slot].bit;
    row->held_ns = hold_read(p, slot, now, &hold) ? hold.ns : 0;
    memcpy(row->io_kernel, device->io_kernel, sizeof(row->io_kernel) - 1);
    for (uint32_t l = 0; l < PAGE_LEVELS; l++)
        row->held[l] = atomic_load_explicit(&device->hold[p->flat ? 0 : l], memory_order_relaxed);
#define COPY(field, help) row->field = page_count(&device->counters.field);
    PAGE_COUNTERS(COPY)
#undef COPY
    row->gpu_ns = usage_ns(p, slot);
}

static void send_row(struct peer *to, const struct peer *p, uint64_t now)
{
    const struct cutin_page *page = p->page->page;
    uint64_t beat = page_read(&page->heartbeat_ns), since = page_read(&page->counted_since_ns);
    union message m;

    message_init(&m, MESSAGE_ROW);
    m.row.client = p->id;
    m.row.pid = p->who.pid;
    m.row.uid = p->who.uid;
    m.row.asked = p->asked;
    m.row.level = p->level;
    m.row.lowest = p->lowest;
    m.row.above = p->above;
    m.row.below = p->below;
    m.row.heartbeat_age_ms = beat && beat < now ? (now - beat) / NS_PER_MS : 0;
    m.row.weight = p->weight;
    m.row.state = (p->paused ? ROW_PAUSED : 0) | (p->stalled ? ROW_STOPPED : 0) |
                  (p->queues ? ROW_QUEUES : 0) |
                  (atomic_load_explicit(&page->stuck, memory_order_relaxed) ? ROW_STUCK : 0);
    /* Counters are older than the connection where there was another daemon before, or none. */
    m.row.age_ms =
        (now - (since && since < p->client_since_ns ? since : p->client_since_ns)) / NS_PER_MS;
    memcpy(m.row.name, p->name, sizeof(m.row.name));
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        if (p->device[slot].device)
            row_device(&m.row.device[m.row.devices++], p, slot, &page->device[slot], now);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
#define COPY(field, help)                                                                          \
    m.row.field##_times[i] = atomic_load_explicit(&page->times.field[i], memory_order_relaxed);
        PAGE_TIMES(COPY)
#undef COPY
    }
    peer_send(to, &m, NULL);
}

void list_go_on(struct peer *p)
{
    uint64_t now = clock_ns();

    while (p->listing && !p->first && !p->dead) {
        const struct peer *other = p->row;

        if (!other) {
            p->listing = false;
            peer_send_done(p, 0, p->rows);
        } else {
            p->row = other->next;
            if (other->client && !other->dead) {
                send_row(p, other, now);
                p->rows++;
            }
        }
    }
    peer_watch_output(p, p->first && (p->socket_watch.events & EPOLLOUT));
}

void list_begin(struct peer *p, struct peer *peers)
{
    p->listing = true;
    p->row = peers;
    p->rows = 0;
    p->since_ns = clock_ns();
    list_go_on(p);
}

void list_skip(struct peer *peers, const struct peer *gone)
{
    struct peer *p;

    DL_FOREACH (peers, p)
        if (p->row == gone)
            p->row = gone->next;
}
