/*
 * policy.c - what policies decide about made-up clients, and that the daemon enforces it.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/scheduler/actor.h"
#include "tests/scheduler/place.h"
#include "scheduler/policy/policy.h"
#include "scheduler/wire/query.h"

enum { N = 3, MS = 1000000 };

struct fake {
    struct policy_member member;
    uint64_t memory, total_ns;
};

/* Makes `rounds` decisions; between two, the GPU runs 10 ms for clients that are not held. */
static void run(const struct policy *policy, struct fake f[N], int rounds)
{
    for (int r = 0; r < rounds; r++) {
        struct policy_member m[N];
        uint64_t running = 0;

        for (int i = 0; i < N; i++) {
            m[i] = f[i].member;
            m[i].memory = &f[i].memory;
            m[i].hold = false;
        }
        policy->decide(m, N);
        for (int i = 0; i < N; i++)
            running += m[i].wants && !m[i].hold;
        cr_assert(running > 0 || !(m[0].wants || m[1].wants || m[2].wants), "all are held");
        for (int i = 0; i < N; i++) {
            f[i].member.used_ns = m[i].wants && !m[i].hold ? 10 * MS / running : 0;
            f[i].member.hold = m[i].hold;
            f[i].total_ns += f[i].member.used_ns;
        }
    }
}

static void make(struct fake f[N], uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t weights[N] = {a, b, c};

    memset(f, 0, N * sizeof(*f));
    for (int i = 0; i < N; i++)
        f[i].member = (struct policy_member){
            .weight = weights[i] ? weights[i] : 1, .wants = weights[i] > 0, .can_be_held = true};
}

static void expect_share(const struct fake f[N], int i, double percent)
{
    double total = (double)(f[0].total_ns + f[1].total_ns + f[2].total_ns);
    double share = 100.0 * (double)f[i].total_ns / total;

    cr_assert(share > percent - 3 && share < percent + 3, "client %d: %.1f %%, not %.1f", i, share,
              percent);
}

Test(policy, fair_shares_by_weight)
{
    struct fake f[N];

    make(f, 1, 1, 0);
    run(&policy_fair, f, 1000);
    expect_share(f, 0, 50);
    make(f, 1, 3, 0);
    run(&policy_fair, f, 1000);
    expect_share(f, 0, 25);
    make(f, 1, 2, 7);
    run(&policy_fair, f, 4000);
    expect_share(f, 0, 10);
    expect_share(f, 1, 20);
    expect_share(f, 2, 70);
}

/* What the one before has in flight at the beginning of a quantum counts for no client. */
Test(policy, fair_quantum_lasts_three_decisions)
{
    struct fake f[N];
    int changes = 0;

    make(f, 1, 1, 1);
    for (int i = 0; i < 300; i++) {
        int held = f[0].member.hold + 2 * f[1].member.hold + 4 * f[2].member.hold;

        run(&policy_fair, f, 1);
        cr_assert_eq(f[0].member.hold + f[1].member.hold + f[2].member.hold, 2, "one has it");
        changes += held != f[0].member.hold + 2 * f[1].member.hold + 4 * f[2].member.hold;
    }
    cr_expect(changes >= 90 && changes <= 101, "%d", changes);
}

Test(policy, returning_process_gets_only_its_share)
{
    struct fake f[N];
    uint64_t before[2];

    make(f, 1, 0, 0);
    run(&policy_fair, f, 500);
    f[1].member.wants = true;
    before[0] = f[0].total_ns;
    run(&policy_fair, f, 1000);
    before[0] = f[0].total_ns - before[0];
    cr_assert(before[0] > 4700ull * MS && before[0] < 5300ull * MS, "%llu ms",
              (unsigned long long)(before[0] / MS));
}

Test(policy, idle_process_keeps_no_other_waiting)
{
    struct fake f[N];
    uint64_t before;

    make(f, 1, 1, 0);
    run(&policy_fair, f, 100);
    f[1].member.wants = false;
    run(&policy_fair, f, 20);
    before = f[0].total_ns;
    run(&policy_fair, f, 100);
    cr_assert_eq(f[0].total_ns - before, 1000ull * MS);
}

Test(policy, fair_holds_within_one_level_and_only_holdable_clients)
{
    struct fake f[N];

    make(f, 1, 1, 1);
    f[1].member.level = 1;
    f[2].member.can_be_held = false;
    for (int i = 0; i < 200; i++) {
        run(&policy_fair, f, 1);
        cr_assert_not(f[1].member.hold, "alone at its level");
        cr_assert_not(f[2].member.hold);
    }
}

/* What edf decides about three clients of one level, 0 = no request with a deadline under way. */
static uint32_t edf(struct fake f[N], uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t due[N] = {a, b, c};
    struct policy_member m[N];
    uint32_t after;

    for (int i = 0; i < N; i++) {
        m[i] = f[i].member;
        m[i].memory = &f[i].memory;
        m[i].deadline_ns = due[i];
        m[i].hold = false;
    }
    after = policy_edf.decide(m, N);
    for (int i = 0; i < N; i++)
        f[i].member.hold = m[i].hold;
    return after;
}

static void expect_held(const struct fake f[N], bool a, bool b, bool c)
{
    cr_expect_eq(f[0].member.hold, a);
    cr_expect_eq(f[1].member.hold, b);
    cr_expect_eq(f[2].member.hold, c);
}

static void make_real_time(struct fake f[N])
{
    make(f, 1, 1, 1);
    for (int i = 0; i < N; i++)
        f[i].member.level = 3;
}

Test(policy, edf_holds_the_later_deadlines)
{
    struct fake f[N];

    make_real_time(f);
    edf(f, 30, 20, 10);
    expect_held(f, true, true, false);
    edf(f, 30, 20, 0);
    expect_held(f, true, false, false);
    edf(f, 30, 0, 0);
    expect_held(f, false, false, false);
    edf(f, 20, 20, 30);
    expect_held(f, false, false, true);
}

Test(policy, edf_spares_clients_without_deadline_or_not_holdable)
{
    struct fake f[N];

    make_real_time(f);
    f[0].member.can_be_held = false;
    edf(f, 30, 20, 10);
    expect_held(f, false, true, false);
    edf(f, 10, 20, 0);
    expect_held(f, false, true, false);
}

Test(policy, edf_compares_within_a_level_above_best_effort)
{
    struct fake f[N];

    make_real_time(f);
    f[0].member.level = 2;
    edf(f, 30, 20, 0);
    expect_held(f, false, false, false);
    f[0].member.level = f[1].member.level = 0;
    edf(f, 30, 20, 0);
    expect_held(f, false, false, false);
}

Test(policy, edf_asks_often_only_while_deadlines_compete)
{
    struct fake f[N];
    int rounds = 0;

    make_real_time(f);
    cr_assert_eq(edf(f, 0, 0, 0), POLICY_LATER_MS, "nobody gives deadlines");
    cr_assert_eq(edf(f, 10, 0, 0), POLICY_LATER_MS, "one does");
    cr_assert_eq(edf(f, 10, 20, 0), POLICY_NOW_MS);
    while (edf(f, 0, 0, 0) == POLICY_NOW_MS)
        cr_assert_lt(rounds++, 1000);
    cr_assert_gt(rounds, 10);
    f[0].member.gives_deadlines = f[1].member.gives_deadlines = true;
    cr_assert_eq(edf(f, 0, 0, 0), POLICY_SOON_MS, "two may at any time");
    f[1].member.level = 2;
    cr_assert_eq(edf(f, 0, 0, 0), POLICY_LATER_MS, "each alone at its level");
}

Test(policy, names_are_found)
{
    cr_assert_eq(policy_find("edf"), &policy_edf);
    cr_assert_eq(policy_find("fair"), &policy_fair);
    cr_assert_eq(policies[0], &policy_fixed, "the default");
    cr_assert_null(policy_find("nothing"));
    cr_assert_null(policy_find(""));
}

static void join(struct actor *a, const char *socket, int64_t weight)
{
    actor_new(a, socket);
    actor_do(a, DO_WEIGHT, weight, 0);
    cr_assert_eq(actor_do(a, DO_OPEN, 0, 0), 0);
    cr_assert_eq(actor_do(a, DO_DEVICE, 0x11, 0), 0);
}

/* Reports 20 ms of GPU time until it is held for that. */
static bool used_and_held(struct actor *a)
{
    actor_do(a, DO_GPU, 0, 20 * MS);
    usleep(5000);
    return actor_do(a, DO_HOLD, 0, 0) == PAGE_BIT_POLICY;
}

Test(policy, daemon_holds_client_ahead_of_share_and_switches_policy)
{
    struct place place;
    struct actor a, b;
    char now[PAGE_NAME];

    place_new(&place);
    place_configure(&place, "[policy]\nname = fair\n");
    place_start(&place);
    join(&a, place.socket, 2);
    join(&b, place.socket, 1);
    actor_do(&b, DO_GPU, 0, 0);
    WAIT_UNTIL(used_and_held(&a));
    cr_assert_eq(actor_do(&b, DO_HOLD, 0, 0), 0);
    WAIT_UNTIL(used_and_held(&b));
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 0) == 0);
    cr_assert_eq(control_policy(place.socket, NULL, now), 0);
    cr_assert_str_eq(now, "fair");
    cr_assert_eq(control_policy(place.socket, "none", now), -ENOENT);
    cr_assert_eq(control_policy(place.socket, "fixed", now), 0);
    cr_assert_str_eq(now, "fixed");
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 0) == 0);
    actor_kill(&a);
    actor_kill(&b);
    cr_assert(place_free(&place));
}

/* The client that is behind has work that makes no progress: it may wait for the other. */
Test(policy, client_without_progress_keeps_no_other_waiting)
{
    struct place place;
    struct actor a, b;

    place_new(&place);
    place_configure(&place, "[policy]\nname = fair\n");
    place_start(&place);
    join(&a, place.socket, 1);
    join(&b, place.socket, 1);
    actor_do(&b, DO_GPU, 0, 0);
    WAIT_UNTIL(used_and_held(&a));
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 0) == 0);
    actor_do(&b, DO_GPU, 0, 1 * MS); /* it has made progress */
    WAIT_UNTIL(used_and_held(&a));
    actor_kill(&a);
    actor_kill(&b);
    cr_assert(place_free(&place));
}

static void join_real_time(struct actor *a, const char *socket, int64_t deadline_ms)
{
    actor_new(a, socket);
    actor_do(a, DO_DEADLINE, deadline_ms, 0);
    cr_assert_eq(actor_do(a, DO_OPEN, 3, 3), 0);
    cr_assert_eq(actor_do(a, DO_DEVICE, 0x11, 0), 0);
}

/* Both want the device, and the one that is behind has been stopped. */
Test(policy, stopped_client_keeps_no_other_waiting)
{
    struct place place;
    struct actor a, b, c;

    place_new(&place);
    place_configure(&place, "[policy]\nname = edf\n");
    place_start(&place);
    join(&c, place.socket, 1);
    join_real_time(&a, place.socket, 60000);
    join_real_time(&b, place.socket, 120000);
    actor_kill(&c); /* no client is below them */
    actor_do(&a, DO_ACTIVE, 0, 3);
    actor_do(&b, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 3) == PAGE_BIT_POLICY);
    cr_assert_eq(kill(a.pid, SIGSTOP), 0);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 3) == 0);
    cr_assert_eq(kill(a.pid, SIGCONT), 0);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 3) == PAGE_BIT_POLICY);
    actor_kill(&a);
    actor_kill(&b);
    cr_assert(place_free(&place));
}

/* It always has work, which runs whenever a tick finds it not held. It is given a quarter more
 * (hold_limit.c), and may run ahead by the share of a period and a quantum. What it is owed is not
 * kept for long, so only as much of a late tick counts as cannot be lost. */
Test(policy, best_effort_gets_its_min_share)
{
    enum { PERCENT = 30, PERIOD_MS = 100, QUANTUM_MS = 20 };
    int64_t all, had, took, began;
    struct place place;
    struct actor rt, be;

    place_new(&place);
    place_configure(&place, "[policy]\nmin_share_percent = 30\n");
    place_start(&place);
    actor_new(&rt, place.socket);
    actor_do(&rt, DO_OPEN, 3, 3);
    actor_do(&rt, DO_DEVICE, 0x11, 0);
    actor_new(&be, place.socket);
    actor_do(&be, DO_TURNS, 0, 0);
    cr_assert_eq(actor_do(&be, DO_OPEN, 0, 0), 0);
    cr_assert_eq(actor_do(&be, DO_DEVICE, 0x11, 0), 0);
    actor_do(&be, DO_GPU, 0, 0);
    actor_do(&rt, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    began = (int64_t)now_ms() - 1;
    had = actor_do(&be, DO_TURNS, false, 0);
    all = actor_do(&be, DO_TURNS, true, 0);
    WAIT_UNTIL(actor_do(&be, DO_TURNS, true, 0) > all + 3000ll * MS);
    all = (actor_do(&be, DO_TURNS, true, 0) - all) / MS;
    had = (actor_do(&be, DO_TURNS, false, 0) - had) / MS;
    took = (int64_t)now_ms() - began;
    cr_expect_geq(100 * had, PERCENT * all, "%lld of %lld ms", (long long)had, (long long)all);
    cr_expect_leq(100 * had, PERCENT * (took * 5 / 4 + PERIOD_MS) + 100 * QUANTUM_MS,
                  "%lld of %lld ms", (long long)had, (long long)took);
    actor_kill(&rt);
    actor_kill(&be);
    cr_assert(place_free(&place));
}

Test(policy, deadline_lasts_from_begin_to_end_of_request)
{
    struct actor a;
    int64_t before, due;

    join_real_time(&a, NULL, 60000);
    cr_assert_eq(actor_do(&a, DO_DUE, 0, 0), 0);
    before = (int64_t)now_ms() * MS;
    actor_do(&a, DO_ACTIVE, 0, 3);
    due = actor_do(&a, DO_DUE, 0, 0);
    cr_assert(due >= before + 59999ll * MS, "%lld", (long long)(due - before));
    actor_do(&a, DO_ACTIVE, 0, 3);
    actor_do(&a, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&a, DO_DUE, 0, 0), due, "still the same request");
    actor_do(&a, DO_HINT, 500, 0);
    cr_assert_lt(actor_do(&a, DO_DUE, 0, 0), due, "a hint changes the one under way");
    actor_do(&a, DO_IDLE, 0, 3);
    cr_assert_eq(actor_do(&a, DO_DUE, 0, 0), 0);
    actor_do(&a, DO_HINT, 3600000000, 0);
    actor_do(&a, DO_ACTIVE, 0, 3);
    cr_assert_gt(actor_do(&a, DO_DUE, 0, 0), due + 3000000ll * MS, "a hint is for the next one");
    actor_do(&a, DO_IDLE, 0, 3);
    actor_do(&a, DO_ACTIVE, 0, 3);
    due = actor_do(&a, DO_DUE, 0, 0);
    cr_assert_lt(due, before + 3000000ll * MS, "and for no other");
    actor_kill(&a);
}

Test(policy, daemon_holds_client_with_later_deadline)
{
    struct place place;
    struct actor a, b, be;

    place_new(&place);
    place_configure(&place, "[policy]\nname = edf\n");
    place_start(&place);
    join_real_time(&a, place.socket, 60000);
    join_real_time(&b, place.socket, 120000);
    join(&be, place.socket, 1);
    actor_do(&b, DO_ACTIVE, 0, 3);
    actor_do(&a, DO_ACTIVE, 0, 3);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 3) == PAGE_BIT_POLICY);
    cr_assert_eq(actor_do(&a, DO_HOLD, 0, 3), 0);
    WAIT_UNTIL(actor_do(&be, DO_HOLD, 0, 0) != 0);
    actor_do(&b, DO_HINT, 1000000, 0);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 3) == PAGE_BIT_POLICY);
    WAIT_UNTIL(actor_do(&b, DO_HOLD, 0, 3) == 0);
    actor_kill(&b);
    WAIT_UNTIL(actor_do(&a, DO_HOLD, 0, 3) == 0);
    actor_kill(&a);
    actor_kill(&be);
    cr_assert(place_free(&place));
}
