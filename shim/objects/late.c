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

struct late_node {
    struct late what;
    struct late_node *prev, *next;
};

static void late_end(struct late_node *list, bool alive)
{
    struct late_node *node, *next;
    DL_FOREACH_SAFE(list, node, next)
    {
        node->what.end(&node->what, alive);
        vhq_fence_put(node->what.fence);
        free(node);
    }
}

/* Ends those that are due of the first `looks` entries; the others of these go to the end. */
static void late_reap_some(struct shim_context *ctx, uint32_t looks)
{
    struct late_node *due = NULL, *node = NULL;
    pthread_mutex_lock(&ctx->lock);
    struct late_node *last = ctx->late ? ctx->late->prev : NULL;
    for (; node != last && looks; looks--) {
        node = ctx->late;
        struct vhq_fence *fence = node->what.fence;
        DL_DELETE(ctx->late, node);
        if (node->what.waits ? vhq_fence_over(fence) : vhq_fence_submitted(fence))
            DL_APPEND(due, node);
        else
            DL_APPEND(ctx->late, node);
    }
    pthread_mutex_unlock(&ctx->lock);
    late_end(due, true);
}

bool late_add(struct shim_context *ctx, const struct late *what)
{
    struct late_node *node = malloc(sizeof(*node));
    if (!node)
        return false;
    node->what = *what;
    vhq_fence_get(what->fence);
    pthread_mutex_lock(&ctx->lock);
    DL_APPEND(ctx->late, node);
    pthread_mutex_unlock(&ctx->lock);
    late_reap_some(ctx, LOOKS);
    return true;
}

void late_reap(struct shim_context *ctx)
{
    late_reap_some(ctx, UINT32_MAX);
}

/* The context's vHQs are gone with all that was buffered, so whatever is left is due. */
static void late_close(struct shim_context *ctx, bool alive)
{
    late_end(ctx->late, alive);
    ctx->late = NULL;
}
CONTEXT_END(CONTEXT_ENDED, late_close)
