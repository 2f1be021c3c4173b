/*
 * newcomer.c - a new client is held until those above it can hold it; with pages of the test's own.
 */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "scheduler/peers/topology.h"
#include "common/clock.h"

enum { PEERS = 4, NEW = PEERS - 1, SLOT = 2 /* of every peer */, LEAST_MS = 5, MOST_MS = 100 };
static const uint64_t now = 1000 * NS_PER_MS;

static struct cutin_page page[PEERS];
static struct shared_page shared[PEERS];
static struct peer peer[PEERS]; /* two services, one of the newcomer's level, and the newcomer */
static uint32_t joins;

void peer_send(struct peer *p, const union message *m, struct shared_page *with)
{
    joins += m->header.type == MESSAGE_JOIN;
}

static void device(struct peer *p)
{
    static const uint8_t gpu[16] = {1};

    cr_assert_eq(topology_device(p, SLOT, gpu), 0);
    topology_update(peer, p);
}

static void set_up(void)
{
    static const uint32_t levels[PEERS] = {3, 2, 0, 0};

    for (uint32_t i = 0; i < PEERS; i++) {
        shared[i].page = &page[i];
        peer[i] = (struct peer){.client = i != NEW,
                                .id = 10 + i,
                                .flat = true,
                                .level = levels[i],
                                .lowest = levels[i],
                                .page = &shared[i],
                                .next = i + 1 < PEERS ? &peer[i + 1] : NULL};
        for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
            peer[i].device[slot] = (struct peer_device){
                .bit = PROTOCOL_NO_BIT, .revoked = PROTOCOL_NO_BIT, .told = true};
        if (i != NEW)
            device(&peer[i]);
    }
    joins = 0;
}

TestSuite(newcomer, .init = set_up);

static void comes(void)
{
    peer[NEW].client = true;
    topology_expect(peer, &peer[NEW], now);
}

static uint32_t held(uint32_t i, uint32_t slot)
{
    return page[i].device[slot].hold[0];
}

static void joined(uint32_t i)
{
    topology_joined(&peer[i], peer[NEW].id);
}

Test(newcomer, is_held_on_every_device_until_clients_above_join)
{
    comes();
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        cr_assert_eq(held(NEW, slot), PAGE_BIT_NEW, "whichever it will use");
    device(&peer[NEW]);
    topology_settle(&peer[NEW]);
    cr_assert_eq(joins, 2);
    joined(1);
    cr_assert_eq(held(NEW, SLOT), PAGE_BIT_NEW, "one of them cannot hold it yet");
    joined(1);
    cr_assert_eq(held(NEW, SLOT), PAGE_BIT_NEW, "however often the other one says so");
    joined(2);
    cr_assert_eq(held(NEW, SLOT), PAGE_BIT_NEW, "nor who is not above it");
    joined(0);
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        cr_assert_eq(held(NEW, slot), 0);
    cr_assert_eq(topology_expire(peer, now), -1);
}

Test(newcomer, is_released_after_timeout_if_clients_above_stay_silent)
{
    int due;

    comes();
    device(&peer[NEW]);
    topology_settle(&peer[NEW]);
    due = topology_expire(peer, now);
    cr_assert(due > LEAST_MS && due < MOST_MS, "%d", due);
    cr_assert_eq(held(NEW, SLOT), PAGE_BIT_NEW);
    cr_assert_eq(topology_expire(peer, now + (uint64_t)due * NS_PER_MS), -1);
    cr_assert_eq(held(NEW, SLOT), 0);
    joined(0);
    joined(1);
    cr_assert_eq(held(NEW, SLOT), 0);
}

Test(newcomer, does_not_wait_for_stalled_or_removed_clients)
{
    peer[0].stopped = true;
    comes();
    device(&peer[NEW]);
    topology_settle(&peer[NEW]);
    cr_assert_eq(held(NEW, SLOT), PAGE_BIT_NEW);
    topology_remove(peer, &peer[1]);
    cr_assert_eq(held(NEW, SLOT), 0);
}

Test(newcomer, is_not_held_without_clients_above)
{
    topology_remove(peer, &peer[0]);
    topology_remove(peer, &peer[1]);
    peer[0].client = peer[1].client = false;
    comes();
    cr_assert_eq(held(NEW, SLOT), 0);
    cr_assert_eq(topology_expire(peer, now), -1);
}

Test(newcomer, is_released_on_device_without_clients_above)
{
    static const uint8_t gpu[16] = {2};

    comes();
    cr_assert_eq(topology_device(&peer[NEW], SLOT, gpu), 0);
    topology_update(peer, &peer[NEW]);
    cr_assert_eq(held(NEW, SLOT), PAGE_BIT_NEW, "it may name another one");
    topology_settle(&peer[NEW]);
    cr_assert_eq(held(NEW, SLOT), 0);
}

Test(newcomer, is_not_held_again_when_another_client_rises)
{
    comes();
    device(&peer[NEW]);
    topology_settle(&peer[NEW]);
    joined(0);
    joined(1);
    peer[2].level = peer[2].lowest = 3; /* it has risen */
    topology_update(peer, &peer[2]);
    cr_assert_eq(joins, 3 + 1, "the other one of its level is below it too: %u", joins);
    cr_assert_eq(held(NEW, SLOT), 0);
}
