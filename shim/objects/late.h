/*
 * late.h - what the application destroys while buffered commands use it. The driver is told when
 * those commands have been submitted, and no thread waits for that.
 */
#ifndef CUTIN_SHIM_OBJECTS_LATE_H
#define CUTIN_SHIM_OBJECTS_LATE_H

#include "shim/objects/context.h"

struct late {
    /* In any thread, with any context or none current. `alive`: the driver has its context. */
    void (*end)(const struct late *what, bool alive);
    void *handle, *user;
    struct vhq_fence *fence;  /* of the last command that uses it; late_add takes a reference */
    bool waits;               /* due only when the waits for that fence were submitted, too */
    struct late *prev, *next; /* for late.c */
};

/* Allocates. False: there is no memory, and nothing was added. */
bool late_add(struct shim_context *ctx, const struct late *what);
/* Destroys what is due of the first `looks` entries (UINT32_MAX: of all); the others of these go to
 * the end. */
void late_reap(struct shim_context *ctx, uint32_t looks);

#endif
