/*
 * policy.c - the list of policies, and the first of them: only levels count, and clients of one
 * level compete as the GPU lets them.
 */
#include "scheduler/policy/policy.h"

#include <string.h>

const struct policy policy_fixed = {
    .name = "fixed",
    .help = "levels only",
};

const struct policy *const policies[] = {&policy_fixed, &policy_fair, &policy_edf, NULL};

const struct policy *policy_find(const char *name)
{
    for (uint32_t i = 0; policies[i]; i++)
        if (strcmp(policies[i]->name, name) == 0)
            return policies[i];
    return NULL;
}
