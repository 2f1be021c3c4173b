/*
 * policy_fair.c - clients of one level share the GPU's time by their weights.
 *
 * A client's memory is its virtual time: the GPU time that it used, divided by its weight. Of the
 * clients that want the GPU the one with the least virtual time, the last, has a quantum, and the
 * others are held. So what a client has used is how long it was busy, whatever its kernels, and no
 * estimate. What the client before still has in flight when a quantum begins is not measured, so a
 * quantum is long against that. A client that comes, or comes back, starts where the last one is:
 * it does not get later what it did not use. A client that wants nothing delays no other.
 */
#include "scheduler/policy/policy.h"

#include <stddef.h>

/* `memory` has the virtual time in units of 16 ns from bit 8 on, never 0 for a client that takes
 * part. From bit 4 on: how many more decisions its quantum lasts. Below that: how many decisions
 * ago it last wanted anything. A program that waits for its own results wants nothing for a moment,
 * and must not lose its place for that. */
#define QUANTUM_SHIFT     4u
#define TIME_SHIFT        8u
#define IDLE_MOST         10u
#define QUANTUM_DECISIONS 3u

static uint64_t virtual(const struct policy_member *m)
{
    return *m->memory >> TIME_SHIFT;
}

static uint64_t quantum(const struct policy_member *m)
{
    return *m->memory >> QUANTUM_SHIFT & 15;
}

static void set(struct policy_member *m, uint64_t time, uint64_t left, uint64_t idle)
{
    *m->memory = time << TIME_SHIFT | left << QUANTUM_SHIFT | idle;
}

/* The least virtual time of all that take part or, with `wanting`, of those that want the GPU now:
 * others are held only for these. */
static uint64_t last_of(const struct policy_member *m, uint32_t n, uint32_t level, bool wanting)
{
    uint64_t last = UINT64_MAX;

    for (uint32_t i = 0; i < n; i++)
        if (m[i].level == level && virtual(&m[i]) && (m[i].wants || !wanting) &&
            virtual(&m[i]) < last)
            last = virtual(&m[i]);
    return last;
}

static void advance_one(struct policy_member *m, uint64_t last)
{
    uint64_t idle = m->wants ? 0 : (*m->memory & 15) + 1;
    uint64_t time = virtual(m);

    if (idle > IDLE_MOST || (!m->wants && !time)) {
        *m->memory = 0;
        return;
    }
    if (!time)
        time = last != UINT64_MAX ? last : 1;
    time += m->used_ns / m->weight / 16;
    set(m, time, m->wants && quantum(m) ? quantum(m) - 1 : 0, idle);
}

/* The client to run: the one whose quantum is not over, else the last one. NULL: none wants the
 * GPU. */
static struct policy_member *next_of(struct policy_member *m, uint32_t n, uint32_t level)
{
    uint64_t last = last_of(m, n, level, true);
    struct policy_member *next = NULL;

    for (uint32_t i = 0; i < n; i++) {
        if (m[i].level != level || !virtual(&m[i]) || !m[i].wants || !m[i].can_be_held)
            continue;
        if (quantum(&m[i]))
            return &m[i];
        if (!next && virtual(&m[i]) <= last)
            next = &m[i];
    }
    if (next)
        set(next, virtual(next), QUANTUM_DECISIONS, 0);
    return next;
}

static uint32_t decide(struct policy_member *members, uint32_t n)
{
    bool compete = false;
    struct policy_member *next;

    for (uint32_t level = 0; level < 4; level++) {
        uint64_t last = last_of(members, n, level, false);
        uint32_t taking_part = 0;

        for (uint32_t i = 0; i < n; i++)
            if (members[i].level == level) {
                advance_one(&members[i], last);
                taking_part += *members[i].memory != 0;
            }
        if (taking_part < 2)
            continue;
        compete = true;
        next = next_of(members, n, level);
        for (struct policy_member *m = members; next && m < members + n; m++)
            m->hold |= m->level == level && m != next && virtual(m) && m->can_be_held;
    }
    return compete ? POLICY_SOON_MS : POLICY_LATER_MS;
}

const struct policy policy_fair = {
    .name = "fair",
    .help = "clients of one level share the GPU's time by weight",
    .decide = decide,
};
