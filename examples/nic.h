/*
 * nic.h - a network card in small, in memory that processes share: what a program whose GPU does
 * its own communication needs of one. A port has descriptors, a doorbell and completion words. Who
 * sends, a CPU, a stream or a kernel, writes how many messages it has posted so far, first to the
 * record in memory, then to the doorbell; the card moves the message to the other port and counts
 * there what has come. All counts begin at 0 and wrap.
 *
 * What a real card does by itself is a loop here, nic_run: it takes a processor while messages
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
    NIC_WORDS = 1024, /* of 32 bits, that a message may have */
    NIC_PAGE = 4096,
};

/* Each part has pages of its own, because each is registered with the GPU by itself. */
struct nic_port {
    alignas(NIC_PAGE) _Atomic uint32_t doorbell; /* as in a card's BAR: nothing else is here */
    alignas(NIC_PAGE) struct {
        _Atomic uint32_t posted;   /* the record: written before the doorbell */
        _Atomic uint32_t received; /* messages that lie in `in` */
    } words;
    alignas(NIC_PAGE) uint32_t out[NIC_RING][NIC_WORDS];
    uint32_t in[NIC_RING][NIC_WORDS];
    alignas(NIC_PAGE) _Atomic uint32_t descriptors[NIC_RING]; /* words of the message */
};

struct nic {
    struct nic_port port[NIC_PORTS];
};

/* What the card saw. */
struct nic_seen {
    uint64_t messages[NIC_PORTS];
    uint64_t disorder; /* doorbells that came before their record, or without a descriptor */
    /* How long the other port had posted its message of the same number, when this one did: what
     * its peer waited for it. 0 where it was the first. `most` entries each. */
    uint64_t *late_ns[NIC_PORTS];
    uint64_t *gap_ns; /* at port 0, from the doorbell before */
    uint64_t most;
};

/* Shared with children that are forked later; NULL: no memory. */
struct nic *nic_new(void);
/* The message that will be posted next as number `k`. By the CPU, before it is posted. */
void nic_describe(struct nic_port *port, uint64_t k, uint32_t words);
/* Moves messages, each `wire_ns` after its doorbell, until `over` says so. */
void nic_run(struct nic *nic, uint64_t wire_ns, bool (*over)(void), struct nic_seen *seen);

#endif
