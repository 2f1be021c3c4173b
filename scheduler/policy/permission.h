/*
 * permission.h - who may do what at the daemon: its owner and root everything, everybody else what
 * a rule of cutind.conf allows.
 */
#ifndef CUTIN_SCHEDULER_POLICY_PERMISSION_H
#define CUTIN_SCHEDULER_POLICY_PERMISSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler/policy/conf.h"

/* The cgroup of one that is contained, whose user id counts for nothing, as /proc/PID/cgroup has
 * it; "": not known; NULL: it is not contained. It lives as long as `who`. */
const char *permission_cgroup(const struct conf *conf, const struct subject *who);
/* The daemon's owner, root, and whom `control` allows: may change what concerns others. */
bool permission_control(const struct conf *conf, const struct subject *who);
/* Both are the same user's and, if contained, in the same cgroup: what one may do to the other
 * needs no `control`. */
bool permission_same(const struct conf *conf, const struct subject *a, const struct subject *b);
/* The highest level up to `asked` that this subject may have. */
uint32_t permission_level(const struct conf *conf, const struct subject *who, uint32_t asked);
/* A rule gives this subject more than everybody has without any. */
bool permission_named(const struct conf *conf, const struct subject *who);
/* Why `asked` was not granted, and which line of which file would grant it. */
void permission_explain(const struct conf *conf, const struct subject *who, uint32_t asked,
                        char *out, size_t size);

#endif
