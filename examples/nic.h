/*
 * nic.h - a small network card in memory that processes share: as much of one as a program needs
 * whose GPU communicates by itself. A port has descriptors, a doorbell and completion words. The
 * sender (a CPU, a stream or a kernel) writes how many messages it has posted so far, first to the
 * record in memory, then to the doorbell. The card moves the message to the other port, and counts
 * there what has arrived. All counts begin at 0 and wrap.
 *
 * The loop nic_run does what a real card does by itself. It occupies a processor while messages
 * come.
 */
#ifndef CUTIN_EXAMPLES_NIC_H
#define CUTIN_EXAMPLES_NIC_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    NIC_PORTS = 2,
    NIC_RING = 64,    /* descriptors, and slots of both buffers; message k is in k % NIC_RING */
    NIC_WORDS = 1024, /* of 32 bits; the most of a message */
    NIC_PAGE = 4096,
};

/* Each part is on pages of its own, because each is registered with the GPU by itself. */
struct nic_port {
    alignas(NIC_PAGE) _Atomic uint32_t doorbell; /* as in a card's BAR: alone on its page */
    alignas(NIC_PAGE) struct {
        _Atomic uint32_t posted;   /* the record: written before the doorbell */
        _Atomic uint32_t received; /* messages that are in `in` */
    } words;
    alignas(NIC_PAGE) uint32_t out[NIC_RING][NIC_WORDS];
    uint32_t in[NIC_RING][NIC_WORDS];
    alignas(NIC_PAGE) _Atomic uint32_t descriptors[NIC_RING]; /* words of each message */
};

struct nic {
    struct nic_port port[NIC_PORTS];
};

/* What the card has seen. */
struct nic_seen {
    uint64_t messages[NIC_PORTS];
    uint64_t disorder; /* doorbells that came before their record, or without a descriptor */
    /* How much earlier the other port had posted its message of the same number: for so long it
     * waited for this port. 0 if this port was the first. `most` entries each. */
    uint64_t *late_ns[NIC_PORTS];
    uint64_t *gap_ns; /* at port 0, since the previous doorbell */
    uint64_t most;
};

/* Makes a card that is shared with children forked later. NULL: no memory. */
struct nic *nic_new(void);
/* Describes message number `k`, the next to be posted. The CPU calls this before it is posted. */
void nic_describe(struct nic_port *port, uint64_t k, uint32_t words);
/* Moves messages, each `wire_ns` after its doorbell, until `over` returns true. */
void nic_run(struct nic *nic, uint64_t wire_ns, bool (*over)(void), struct nic_seen *seen);

#endif
