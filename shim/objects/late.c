/*
 * late.c - what is destroyed later (see late.h).
 *
 * The list has at most one entry for each buffered command. The client's thread looks at all
 * entries. A thread that adds one looks at some of them, so entries that are due do not pile up.
 */
#include "shim/objects/late.h"

#include <stdlib.h>
#include <utlist.h>

enum { LOOKS = 2 }; /* entries that are looked at when one is added */

static void late_end(struct late *list, bool alive)
{
    struct late *what, *next;
    DL_FOREACH_SAFE(list, what, next)
    {
        what->end(what, alive);
        vhq_fence_put(what->fence);
        free(what);
    }
}

void late_reap(struct shim_context *ctx, uint32_t looks)
{
    struct late *due = NULL, *what = NULL;
    pthread_mutex_lock(&ctx->lock);
    struct late *last = ctx->late ? ctx->late->prev : NULL;
    for (; what != last && looks; looks--) {
        what = ctx->late;
        DL_DELETE(ctx->late, what);
        if (what->waits ? vhq_fence_over(what->fence) : vhq_fence_submitted(what->fence))
            DL_APPEND(due, what);
        else
            DL_APPEND(ctx->late, what);
    }
    pthread_mutex_unlock(&ctx->lock);
    late_end(due, true);
}

bool late_add(struct shim_context *ctx, const struct late *what)
{
    struct late *copy = malloc(sizeof(*copy));
    if (!copy)
        return false;
    *copy = *what;
    vhq_fence_get(what->fence);
    pthread_mutex_lock(&ctx->lock);
    DL_APPEND(ctx->late, copy);
    pthread_mutex_unlock(&ctx->lock);
    late_reap(ctx, LOOKS);
    return true;
}

/* The context's vHQs are gone with all that was buffered, so whatever is left is due. */
static void late_close(struct shim_context *ctx, bool alive)
{
    late_end(ctx->late, alive);
    ctx->late = NULL;
}
CONTEXT_END(CONTEXT_ENDED, late_close)
