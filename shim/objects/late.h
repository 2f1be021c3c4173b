/*
 * late.h - what the application has destroyed while commands that use it were buffered: the driver
 * hears of it when those have been submitted, and nobody waits for that.
 */
#ifndef CUTIN_SHIM_OBJECTS_LATE_H
#define CUTIN_SHIM_OBJECTS_LATE_H

#include "shim/objects/context.h"

struct late {
    /* In any thread, with any context current, or none. `alive`: the driver still has its. */
    void (*end)(const struct late *what, bool alive);
    void *handle, *user;
    struct vhq_fence *fence; /* of the last command that uses it; takes a reference */
    bool waits;              /* and so do the waits for that */
};

/* Allocates; false: there is no memory, and nothing is kept. */
bool late_add(struct shim_context *ctx, const struct late *what);
/* Ends what is due. */
void late_look(struct shim_context *ctx);

#endif
