/*
 * policy_fixed.c - levels and nothing else: clients of one level compete as the GPU lets them.
 */
#include "scheduler/policy/policy.h"

#include <stddef.h>

const struct policy policy_fixed = {
    .name = "fixed",
    .help = "levels only",
    .decide = NULL,
};
