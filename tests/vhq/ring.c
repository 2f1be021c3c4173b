/* ring.c - the byte ring: order, wrap, limits. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/vhq/fake.h"
#include "vhq/internal.h"

static void push(struct ring *r, uint32_t bytes, uint64_t ticket)
{
    struct slot *slot = ring_reserve(r, bytes);
    slot->flags = 0;
    slot->ticket = ticket;
    memset(slot + 1, (int)(ticket & 0xff), bytes);
    slot->load = bytes;
    ring_publish(r);
}

static void pop_and_check(struct ring *r, uint64_t ticket)
{
    struct slot *slot = ring_head(r);
    cr_assert_not_null(slot);
    cr_assert_eq(slot->ticket, ticket);
    cr_assert_eq((uintptr_t)(slot + 1) % VHQ_PAYLOAD_ALIGN, 0);
    unsigned char *p = (unsigned char *)(slot + 1);
    for (uint32_t i = 0; i < slot->load; i++)
        cr_assert_eq(p[i], ticket & 0xff);
    ring_pop(r);
}

Test(ring, keeps_order_and_contents_over_many_wraps)
{
    struct ring r = {.max_commands = 1000};
    cr_assert(ring_alloc(&r));
    uint64_t in = 0, out = 0;
    uint32_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        uint32_t bytes = rnd(&seed, 10) == 0 ? rnd(&seed, VHQ_MAX_PAYLOAD) : rnd(&seed, 400);
        if (rnd(&seed, 2) && ring_fits(&r, bytes))
            push(&r, bytes, in++);
        else if (ring_head(&r))
            pop_and_check(&r, out++);
    }
    while (out < in)
        pop_and_check(&r, out++);
    cr_assert(ring_empty(&r));
    cr_assert(in > 1000);
    ring_free(&r);
}

Test(ring, holds_as_many_commands_as_configured)
{
    struct ring r = {.max_commands = 4096};
    cr_assert(ring_alloc(&r));
    for (uint64_t i = 0; i < 4096; i++) {
        cr_assert(ring_fits(&r, 128));
        push(&r, 128, i);
    }
    cr_assert_not(ring_fits(&r, 0));
    pop_and_check(&r, 0);
    cr_assert(ring_fits(&r, 0));
    ring_free(&r);
}

Test(ring, takes_the_largest_payload_whenever_it_is_empty)
{
    for (uint32_t first = 0; first < 150 * 1024; first += 1000) {
        struct ring r = {.max_commands = 4};
        cr_assert(ring_alloc(&r));
        for (uint32_t left = first; left > 0; left -= left < 60000 ? left : 60000) {
            push(&r, left < 60000 ? left : 60000, 1);
            pop_and_check(&r, 1);
        }
        cr_assert(ring_fits(&r, VHQ_MAX_PAYLOAD));
        push(&r, VHQ_MAX_PAYLOAD, 2);
        pop_and_check(&r, 2);
        ring_free(&r);
    }
}

static void fill(struct ring *r, uint64_t ticket)
{
    for (uint32_t i = 0; i < 4096; i++) {
        cr_assert(ring_fits(r, 128), "only %u", i);
        push(r, 128, ticket + i);
    }
    for (uint32_t i = 0; i < 4096; i++)
        pop_and_check(r, ticket + i);
}

Test(ring, keeps_capacity_wherever_it_became_empty)
{
    struct ring r = {.max_commands = 4096};
    cr_assert(ring_alloc(&r));
    uint64_t ticket = 0;
    for (uint32_t between = 670; between < 700; between++) { /* 683 fill the hot part */
        fill(&r, ticket);
        for (uint32_t i = 0; i < between; i++) {
            push(&r, 128, i);
            pop_and_check(&r, i);
        }
        ticket += 4096;
    }
    ring_free(&r);
}

Test(ring, stays_in_its_hot_part_while_it_is_often_empty)
{
    struct ring r = {.max_commands = 4096};
    cr_assert(ring_alloc(&r));
    for (uint64_t i = 0; i < 100000; i++) {
        push(&r, 200, i);
        cr_assert((unsigned char *)ring_head(&r) < r.base + 129 * 1024);
        pop_and_check(&r, i);
    }
    ring_free(&r);
}

Test(ring, is_at_most_a_mebibyte_with_its_vhq)
{
    struct ring r = {.max_commands = VHQ_DEFAULT_QUEUE};
    cr_assert(ring_alloc(&r));
    cr_assert(r.size + sizeof(struct vhq) <= 1 << 20);
    ring_free(&r);
}
