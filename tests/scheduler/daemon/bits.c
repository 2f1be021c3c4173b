/*
 * bits.c - who has a device's client bits, whom a higher level takes them from, and what becomes of
 * bits that no owner set. Needs root, for a second user.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/bare.h"
#include "tests/scheduler/place.h"
#include "scheduler/wire/query.h"

enum { OTHER = 65534, DEVICE = 7 };

static struct place place;

static void set_up(void)
{
    if (geteuid() != 0)
        cr_skip("only root can become a second user");
    place_new(&place);
}

/* LeakSanitizer, if there is one, reports by the daemon's status. */
static void tear_down(void)
{
    if (geteuid() != 0)
        return;
    if (place.daemon)
        cr_assert_eq(place_stop(&place), 0);
    cr_assert(place_free(&place));
}

TestSuite(bits, .init = set_up, .fini = tear_down);

static int join_as(uid_t uid, uint32_t level, uint32_t slot)
{
    return bare_join(place.socket, uid, level, slot, DEVICE);
}

/* Makes clients until all bits of the device are taken. */
static void take_bits(int fds[PAGE_CLIENT_BITS], uid_t uid, uint32_t level)
{
    union message m;

    for (uint32_t i = 0; i < PAGE_CLIENT_BITS; i++) {
        fds[i] = join_as(uid, level, 0);
        cr_assert_eq(bare_wait(fds[i], MESSAGE_BIT, &m), 0);
        cr_assert_neq(m.bit.bit, PROTOCOL_NO_BIT);
    }
}

static void actor_join(struct actor *a, int64_t level)
{
    actor_do(a, DO_OPEN, level, level);
    WAIT_UNTIL(actor_do(a, DO_CONNECTED, 0, 0) == 1);
    actor_do(a, DO_DEVICE, DEVICE, 0);
}

static void open_actor(struct actor *a, int64_t level)
{
    actor_new(a, place.socket);
    actor_join(a, level);
}

/* These clients do not even give them back. */
Test(bits, higher_level_takes_bits_from_lower_level)
{
    int fds[PAGE_CLIENT_BITS];
    struct actor rt, be;

    place_configure(&place, "[allow]\n1 = uid:65534\n");
    place_start(&place);
    take_bits(fds, OTHER, 1);
    open_actor(&be, 0);
    open_actor(&rt, 3);
    WAIT_UNTIL((actor_do(&rt, DO_ACTIVE, 0, 3), actor_do(&be, DO_HOLD, 0, 0) != 0) ||
               (actor_do(&rt, DO_IDLE, 0, 3), false));
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    bare_close(fds, PAGE_CLIENT_BITS);
    actor_kill(&rt);
    actor_kill(&be);
}

/* How many of them have had no message. */
static uint32_t untold(struct actor *actors, uint32_t n)
{
    uint32_t untold = 0;

    while (n-- > 0)
        untold += actor_do(&actors[n], DO_LOGGED, 0, 0) == -1;
    return untold;
}

Test(bits, lower_level_returns_bit_before_higher_level_gets_it)
{
    struct actor low[PAGE_CLIENT_BITS], rt, be;

    place_start(&place);
    open_actor(&be, 0);
    for (uint32_t i = 0; i < PAGE_CLIENT_BITS; i++) {
        open_actor(&low[i], 1);
        actor_do(&low[i], DO_ACTIVE, 0, 1);
    }
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == PAGE_BITS_CLIENTS);
    open_actor(&rt, 3);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == PAGE_CLIENT_BITS);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != PAGE_BITS_CLIENTS);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == PAGE_BITS_CLIENTS);
    /* One is told that it no longer holds others: it may be cut off before it runs and says so. */
    WAIT_UNTIL(untold(low, PAGE_CLIENT_BITS) < PAGE_CLIENT_BITS);
    cr_assert_eq(untold(low, PAGE_CLIENT_BITS), PAGE_CLIENT_BITS - 1);
    for (uint32_t i = 0; i < PAGE_CLIENT_BITS; i++) {
        WAIT_UNTIL(actor_do(&low[i], DO_CONNECTED, 0, 0) == 1);
        actor_do(&low[i], DO_IDLE, 0, 1);
    }
    WAIT_UNTIL(__builtin_popcountll((uint64_t)actor_do(&be, DO_HOLD, 0, 0)) == 1);
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    for (uint32_t i = 0; i < PAGE_CLIENT_BITS; i++)
        actor_kill(&low[i]);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(bits, user_holding_all_bits_yields_one_to_equal_level)
{
    int fds[PAGE_CLIENT_BITS], other;
    union message m;

    place_configure(&place, "[allow]\n1 = uid:65533-65534\n");
    place_start(&place);
    take_bits(fds, OTHER, 1);
    other = join_as(65533, 1, 0);
    cr_assert_eq(bare_wait(other, MESSAGE_BIT, &m), 0);
    cr_assert_neq(m.bit.bit, PROTOCOL_NO_BIT);
    close(other);
    bare_close(fds, PAGE_CLIENT_BITS);
}

static uint64_t cut_ins_of(pid_t pid)
{
    struct message_row *rows;
    uint64_t n = UINT64_MAX;
    size_t count;

    cr_assert_eq(query_clients(place.socket, &rows, &count), 0);
    for (size_t i = 0; i < count; i++)
        if (rows[i].pid == pid && rows[i].devices == 1)
            n = rows[i].device[0].cut_ins;
    free(rows);
    return n;
}

Test(bits, owner_without_bit_counts_no_cut_ins)
{
    int fds[PAGE_CLIENT_BITS];
    struct actor rt;

    place_start(&place);
    actor_new(&rt, place.socket); /* before there are connections that it would inherit */
    take_bits(fds, 0, 3);
    actor_join(&rt, 3);
    WAIT_UNTIL(actor_do(&rt, DO_LOGGED, 0, 0) >= 0);
    cr_assert(strstr(rt.said, "cannot hold others on a device"), "%s", rt.said);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    actor_do(&rt, DO_IDLE, 0, 3);
    cr_assert_eq(cut_ins_of(rt.pid), 0);
    bare_close(fds, 1); /* and the client gets the first bit that is free */
    WAIT_UNTIL(
        (actor_do(&rt, DO_ACTIVE, 0, 3), actor_do(&rt, DO_IDLE, 0, 3), cut_ins_of(rt.pid) > 0));
    bare_close(fds + 1, PAGE_CLIENT_BITS - 1);
    actor_kill(&rt);
}

/* A client of level 1 has the pages of all clients below, and may write anything to them. */
static struct cutin_page *page_below(int fd, struct page_device **device)
{
    struct cutin_page *page = NULL;
    union message m;
    int got;

    cr_assert_eq(bare_wait_page(fd, MESSAGE_JOIN, &m, &got), 0);
    cr_assert_eq(page_map_other(got, &page), 0);
    close(got);
    for (uint32_t slot = 0; slot < PAGE_DEVICES; slot++)
        if (m.join.slot[slot] != PROTOCOL_NO_SLOT)
            *device = &page->device[m.join.slot[slot]];
    return page;
}

Test(bits, ownerless_bits_are_cleared_and_logged)
{
    struct page_device *device = NULL;
    struct cutin_page *page;
    struct actor be;
    int log, fd;

    place_configure(&place, "[allow]\n1 = uid:65534\n");
    log = place_start_logged(&place);
    open_actor(&be, 0);
    fd = join_as(OTHER, 1, 0);
    page = page_below(fd, &device);
    cr_assert_not_null(device);
    atomic_fetch_or(&device->hold[0],
                    0x0ffffff0u | PAGE_BIT_PAUSED | PAGE_BIT_POLICY | PAGE_BIT_NEW);
    close(fd);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    WAIT_UNTIL(place_logged(log, "did not match their owners") > 0);
    page_unmap_other(page);
    close(log);
    actor_kill(&be);
}

static void join_pair(struct actor *rt, struct actor *be)
{
    open_actor(be, 0);
    open_actor(rt, 3);
    WAIT_UNTIL(actor_do(be, DO_ABOVE, 0, 0) == 1);
}

static void join_held(struct actor *rt, struct actor *be)
{
    join_pair(rt, be);
    actor_do(rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(be, DO_HOLD, 0, 0) != 0);
}

/* The daemon's own looks find a returned bit, too, and report it. One of them may come between the
 * return and the message of it, but not each time. */
enum { RETURNS = 20 };

/* When the daemon answers, it has also reported what it has cleared. */
static bool look_was_first(int log)
{
    int asks = bare_connect(place.socket, 0);

    cr_assert_eq(bare_settle(asks), 0);
    close(asks);
    return place_logged(log, "did not match their owners") > 0;
}

Test(bits, returned_bit_of_ended_hold_is_cleared)
{
    int log = place_start_logged(&place);
    struct actor rt, be;
    bool looked = true;

    join_pair(&rt, &be);
    for (int i = 0; looked && i < RETURNS; i++) {
        actor_do(&rt, DO_ACTIVE, 0, 3);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
        cr_assert_neq(actor_do(&be, DO_LIFT, 0, 0), 0);
        actor_do(&rt, DO_IDLE, 0, 3);
        actor_do(&be, DO_RETURN, 0, 0);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
        looked = look_was_first(log);
    }
    cr_expect_not(looked, "only the daemon's looks clear it");
    actor_kill(&rt);
    actor_kill(&be);
    close(log);
}

Test(bits, returned_bit_of_gone_owner_is_cleared)
{
    int log = place_start_logged(&place);
    bool looked = true;

    for (int i = 0; looked && i < RETURNS; i++) {
        struct actor rt, be;

        join_held(&rt, &be);
        cr_assert_neq(actor_do(&be, DO_LIFT, 0, 0), 0);
        actor_kill(&rt);
        WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 0);
        actor_do(&be, DO_RETURN, 0, 0);
        WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
        looked = look_was_first(log);
        actor_kill(&be);
    }
    cr_expect_not(looked, "only the daemon's looks clear it");
    close(log);
}

Test(bits, ongoing_hold_survives_lift_and_return_of_its_bit)
{
    struct actor rt, be;
    int64_t bits;

    place_start(&place);
    join_held(&rt, &be);
    /* The owner may write its bit once more, when it is told of it or of the client. */
    WAIT_UNTIL((bits = actor_do(&be, DO_LIFT, 0, 0), actor_do(&be, DO_HOLD, 0, 0) == 0));
    cr_assert_neq(bits, 0);
    actor_do(&be, DO_RETURN, 0, 0);
    cr_expect_eq(actor_do(&be, DO_HOLD, 0, 0), bits);
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    actor_kill(&rt);
    actor_kill(&be);
}

Test(bits, tampered_bits_are_restored_to_owners_state)
{
    struct page_device *device = NULL;
    struct cutin_page *page;
    struct actor rt, be;
    int64_t bit;
    int fd;

    place_configure(&place, "[allow]\n1 = uid:65534\n");
    place_start(&place);
    open_actor(&be, 0);
    open_actor(&rt, 3);
    WAIT_UNTIL(actor_do(&be, DO_ABOVE, 0, 0) == 1);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL((bit = actor_do(&be, DO_HOLD, 0, 0)) != 0);
    fd = join_as(OTHER, 1, 0);
    page = page_below(fd, &device);
    cr_assert_not_null(device);
    atomic_store(&device->hold[0], 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == bit);
    actor_do(&rt, DO_IDLE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    atomic_store(&device->hold[0], (uint32_t)bit);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) == 0);
    page_unmap_other(page);
    close(fd);
    actor_kill(&rt);
    actor_kill(&be);
}
