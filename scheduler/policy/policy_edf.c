/*
 * policy_edf.c - earliest deadline first: of the clients of one level that have a request with a
 * deadline under way, those with a later deadline are held.
 *
 * Clients that give no deadline are left alone. So is all of best effort, where nothing counts as a
 * request. A client without queues cannot be held, but its deadline still goes before later ones.
 *
 * A client writes its deadline into its page the moment a request begins, which wakes no daemon. So
 * while there were requests lately, the policy is asked every POLICY_NOW_MS. A client's memory
 * counts down from LATELY since its last request.
 */
#include "scheduler/policy/policy.h"

/* In decisions, of about a millisecond each. */
#define LATELY 100u

static uint32_t decide(struct policy_member *m, uint32_t n)
{
    uint32_t takers[4] = {0}; /* clients that give deadlines, by level */
    bool any = false, compete = false;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t *lately = m[i].memory;

        *lately = m[i].deadline_ns ? LATELY : *lately ? *lately - 1 : 0;
        any |= *lately != 0;
        compete |= (*lately || m[i].gives_deadlines) && ++takers[m[i].level] > 1;
    }
    for (uint32_t level = 1; compete && level < 4; level++) {
        uint64_t first = UINT64_MAX;

        for (uint32_t i = 0; i < n; i++)
            if (m[i].level == level && m[i].deadline_ns && m[i].deadline_ns < first)
                first = m[i].deadline_ns;
        for (uint32_t i = 0; i < n; i++)
            m[i].hold |= m[i].level == level && m[i].deadline_ns > first && m[i].can_be_held;
    }
    return !compete ? POLICY_LATER_MS : any ? POLICY_NOW_MS : POLICY_SOON_MS;
}

const struct policy policy_edf = {
    .name = "edf",
    .help = "earliest deadline first, above best effort",
    .decide = decide,
};
