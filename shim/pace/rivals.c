/*
 * rivals.c - others than clients above that may hold this process's queues (see rivals.h).
 *
 * The daemon does not tell which clients its policy may choose. But a process that was held once
 * will be held again. So it has rivals from a hold on, until there was none for a second.
 */
#include "shim/pace/rivals.h"

#include "scheduler/client/client.h"
#include "shim/objects/stream.h"
#include "shim/objects/level.h"

enum { UNHELD_LOOKS = 100 };

static _Atomic uint32_t rivals;
static unsigned unheld_looks = UNHELD_LOOKS;

/* With deadlines, another process with an earlier one may hold this one from request to request. */
static bool always(void)
{
    return levels_mixed() || config_get()->deadline_ms || client_has_share() ||
           config_get()->alone == ALONE_CAPPED;
}

static void rivals_note_level(struct shim_stream *unused)
{
    if (always())
        atomic_store(&rivals, 1);
}
STREAM_NOTE(STREAM_BEGINS, rivals_note_level)

const _Atomic uint32_t *rivals_word(void)
{
    rivals_note_level(NULL);
    return &rivals;
}

static void held_there(struct shim_context *ctx, void *user)
{
    if (client_held(ctx->gpu->index, level_lowest()))
        *(bool *)user = true;
}

void rivals_update(void)
{
    const _Atomic uint32_t *above = client_above_word();
    bool held = false;
    rivals_note_level(NULL);
    if (always() || (above && atomic_load_explicit(above, memory_order_relaxed)))
        return;
    context_each(held_there, &held);
    unheld_looks = held ? 0 : unheld_looks < UNHELD_LOOKS ? unheld_looks + 1 : UNHELD_LOOKS;
    atomic_store(&rivals, unheld_looks < UNHELD_LOOKS);
    rivals_note_level(NULL); /* last, because a stream of another level may come in between */
}
