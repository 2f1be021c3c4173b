/*
 * nic.c - a small network card (see nic.h).
 */
#include "nic.h"
#include "common.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

enum {
    IDLE_SPIN_NS = 50000, /* time without a message after which the card begins to nap */
    NAP_NS = 2000,
};

/* A port as the card sees it: `taken` of its messages are on the wire, `moved` have arrived. */
struct lane {
    uint32_t taken, moved;
    uint64_t rang_ns[NIC_RING];
};

struct nic *nic_new(void)
{
    struct nic *nic =
        mmap(NULL, sizeof(*nic), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return nic == MAP_FAILED ? NULL : nic;
}

void nic_describe(struct nic_port *port, uint64_t k, uint32_t words)
{
    atomic_store_explicit(&port->descriptors[k % NIC_RING], words, memory_order_release);
}

/* Once both ports have posted message k, notes how long the later port kept the other waiting. */
static void note_late(const struct lane *lane, int late, uint32_t k, struct nic_seen *seen)
{
    const struct lane *early = &lane[1 - late];

    if (k < seen->most && (int32_t)(early->taken - k) > 0)
        seen->late_ns[late][k] = lane[late].rang_ns[k % NIC_RING] - early->rang_ns[k % NIC_RING];
}

static void note_gap(const struct lane *own, struct nic_seen *seen)
{
    uint32_t k = own->taken;

    if (k > 0 && k < seen->most)
        seen->gap_ns[k] = own->rang_ns[k % NIC_RING] - own->rang_ns[(k - 1) % NIC_RING];
}

static bool take(struct nic *nic, struct lane *lane, int from, struct nic_seen *seen)
{
    struct nic_port *port = &nic->port[from];
    struct lane *own = &lane[from];
    uint32_t rung = atomic_load_explicit(&port->doorbell, memory_order_acquire);
    bool news = own->taken != rung;

    if (news &&
        (int32_t)(atomic_load_explicit(&port->words.posted, memory_order_acquire) - rung) < 0)
        seen->disorder++;
    while (own->taken != rung) {
        own->rang_ns[own->taken % NIC_RING] = now_ns();
        seen->disorder += port->descriptors[own->taken % NIC_RING] == 0;
        note_late(lane, from, own->taken, seen);
        if (from == 0)
            note_gap(own, seen);
        own->taken++;
    }
    return news;
}

static bool move(struct nic *nic, struct lane *own, int from, uint64_t wire_ns)
{
    struct nic_port *source = &nic->port[from], *target = &nic->port[1 - from];
    uint32_t slot = own->moved % NIC_RING;

    if (own->moved == own->taken || now_ns() - own->rang_ns[slot] < wire_ns)
        return false;
    uint32_t words = atomic_load_explicit(&source->descriptors[slot], memory_order_acquire);
    memcpy(target->in[slot], source->out[slot], words * sizeof(uint32_t));
    atomic_store_explicit(&source->descriptors[slot], 0, memory_order_relaxed);
    own->moved++;
    atomic_store_explicit(&target->words.received, own->moved, memory_order_release);
    return true;
}

void nic_run(struct nic *nic, uint64_t wire_ns, bool (*over)(void), struct nic_seen *seen)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    struct lane lane[NIC_PORTS] = {0};
    uint64_t news_ns = now_ns();

    prctl(PR_SET_TIMERSLACK, 1ul);
    while (!over()) {
        bool news = false, flying = false;
        for (int p = 0; p < NIC_PORTS; p++) {
            news |= take(nic, lane, p, seen);
            news |= move(nic, &lane[p], p, wire_ns);
            flying |= lane[p].moved != lane[p].taken;
            seen->messages[p] = lane[p].moved;
        }
        if (news)
            news_ns = now_ns();
        else if (!flying && now_ns() - news_ns > IDLE_SPIN_NS)
            nanosleep(&nap, NULL);
    }
}
