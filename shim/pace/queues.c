/*
 * queues.c - opens the vHQs of a context when it begins, and says whether others than clients above
 * may hold them. Streams of another level may, by their work; clients of the same level, through a
 * policy of the daemon; and an administrator. While none of these may, and no client above is
 * connected, the queues of this process have no cap.
 */
#include "shim/pace/pace.h"

#include "scheduler/client/client.h"
#include "scheduler/wire/page.h"
#include "shim/objects/memory.h"
#include "shim/objects/word.h"
#include "shim/pace/gates.h"
#include "shim/pace/pad.h"
#include "shim/learn/profile.h"
#include "shim/learn/function.h"
#include "shim/path/call.h"

static_assert(PAGE_SHIFT_WORD(1, 2) == 1 + 2 * VHQ_SHIFT_OF &&
                  PAGE_SHIFT_DOUBLED == VHQ_SHIFT_DOUBLED &&
                  PAGE_SHIFT_PROGRESS_ONE == VHQ_SHIFT_PROGRESS &&
                  PAGE_SHIFT_SLICED == VHQ_SHIFT_SLICED,
              "the page's word is the vHQs'");

/* The daemon does not tell which clients its policy may choose. But a process that was held once
 * will be held again. So it has rivals from a hold on, until there was none for a second. */
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

static void dispatcher_start(void *user)
{
    const struct shim_context *ctx = user;
    REAL(cuCtxSetCurrent)(ctx->base);
    /* A global-mode capture of the application must not fail because this thread submits. */
    capture_relax();
}

/* The dispatcher has the primary context current. A call from within an unrelated context is made
 * by its own thread; for green contexts it does not matter which of the family is current. */
static bool context_may_buffer(void *user)
{
    return context_same_base(context_current_handle(), user);
}

static int queues_open(struct shim_context *ctx)
{
    const struct config *cfg = config_get();
    rivals_note_level(NULL);
    const struct vhq_ops ops = {.thread_start = dispatcher_start,
                                .may_buffer = context_may_buffer,
                                .mark = mark_write,
                                .gate = gates_write,
                                .poll = mark_ring_poll,
                                .complete = mark_complete,
                                .failed = context_error_note,
                                .room = cfg->pad == PAD_ON ? pad_room : NULL};
    struct vhq_config vhq = {.budget_us = remote_budget_us(),
                             .depth = remote_depth(),
                             .queue = cfg->queue,
                             .above = client_above_word(),
                             .rivals = &rivals,
                             .times = counters_times(ctx),
                             .gates = &ctx->gates_usable,
                             .peer_us = cfg->peer_us,
                             .unbounded = PAGE_BIT_PAUSED | PAGE_BIT_POLICY,
                             .shift =
                                 MUTANT(shifts_unknown) ? NULL : client_shift_word(ctx->gpu->index),
                             .rings = &memory_seen_elsewhere,
                             .external_waits = MUTANT(marker_stalls) ? NULL : &external_wait_seen,
                             .beside = client_beside_word(),
                             .marks_apart_ns = gates_marks_apart_ns(ctx->gpu),
                             .untried = true,
                             .expects = client_is_connected()};
    if (!level_has_queues(level_lowest()))
        return 0;
    ctx->memops = words_probe(ctx);
    profile_open(ctx->gpu);
    if (cfg->waiting_kernels[0])
        atomic_store_explicit(&waiting_possible, true, memory_order_relaxed);
    int r = vhq_set_create(&vhq, &ops, ctx, &ctx->set);
    if (r == 0) {
        gates_update(ctx);
        suspend_open(ctx);
    }
    return r;
}
CONTEXT_BEGIN(CONTEXT_EMPTY, queues_open)
