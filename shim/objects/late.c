/*
 * late.c - what is destroyed later (see late.h).
 *
 * As many as there are commands buffered that use one of them each. They are looked at by the
 * client's thread, and some of them by whoever adds another one, so the list does not grow by those
 * that are due.
 */
#include "shim/objects/late.h"

#include <stdlib.h>
#include <utlist.h>

enum { LOOKS = 2 }; /* at each one that comes */

struct late_node {
    struct late what;
    struct late_node *prev, *next;
};

static void late_end(struct late_node *node, bool alive)
{
    node->what.end(&node->what, alive);
    vhq_fence_put(node->what.fence);
    free(node);
}

/* Of the first so many; the others go behind the rest. */
static struct late_node *late_take(struct shim_context *ctx, unsigned *looks)
{
    struct late_node *found = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (; ctx->late && *looks != 0 && !found; --*looks) {
        struct late_node *first = ctx->late;
        struct vhq_fence *fence = first->what.fence;
        DL_DELETE(ctx->late, first);
        if (first->what.waits ? vhq_fence_over(fence) : vhq_fence_submitted(fence))
            found = first;
        else
            DL_APPEND(ctx->late, first);
    }
    ctx->lates -= !!found;
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

static void late_look_at(struct shim_context *ctx, unsigned looks)
{
    struct late_node *node;
    while ((node = late_take(ctx, &looks)))
        late_end(node, true);
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
    ctx->lates++;
    pthread_mutex_unlock(&ctx->lock);
    late_look_at(ctx, LOOKS);
    return true;
}

void late_look(struct shim_context *ctx)
{
    pthread_mutex_lock(&ctx->lock);
    unsigned all = ctx->lates;
    pthread_mutex_unlock(&ctx->lock);
    late_look_at(ctx, all);
}

/* Its vHQs have gone, with all that was buffered: whatever is left is due. */
static void late_close(struct shim_context *ctx, bool alive)
{
    struct late_node *node, *next;
    DL_FOREACH_SAFE(ctx->late, node, next)
    {
        DL_DELETE(ctx->late, node);
        late_end(node, alive);
    }
    ctx->lates = 0;
}
CONTEXT_END(CONTEXT_ENDED, late_close)
