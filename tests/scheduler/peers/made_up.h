/*
 * made_up.h - PEERS clients of one device, with pages and a clock of a test's own. Define PEERS
 * before the include; a test's program includes this once.
 */
#ifndef TESTS_SCHEDULER_PEERS_MADE_UP_H
#define TESTS_SCHEDULER_PEERS_MADE_UP_H

#include <criterion/criterion.h>

#include "scheduler/peers/scan.h"

enum { SLOT = 2 /* of every peer */, MS = 1000000 };

static struct cutin_page page[PEERS];
static struct shared_page shared[PEERS];
static struct peer peer[PEERS];
static uint64_t now = 1000ull * MS;

void peer_send(struct peer *p, const union message *m, struct shared_page *with)
{
}

/* Makes all of them like `like`. */
static void peers_make(struct peer like)
{
    static const uint8_t gpu[16] = {1};

    for (uint32_t i = 0; i < PEERS; i++) {
        shared[i].page = &page[i];
        peer[i] = like;
        peer[i].page = &shared[i];
        peer[i].next = i + 1 < PEERS ? &peer[i + 1] : NULL;
        cr_assert_eq(topology_device(&peer[i], SLOT, gpu), 0);
    }
}

#endif
