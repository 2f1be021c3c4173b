/*
 * pad.c - what real-time streams leave of the device (see pad.h).
 *
 * The estimate errs on the side of real time. Of the kernels in flight the widest counts until the
 * stream is known complete, so it does not matter which of them runs. The end is that of the last
 * kernel if none waits for anything; a late kernel ends later. What was launched since the last
 * look counts as launched at that look.
 */
#include "shim/pace/pad.h"

#include <pthread.h>
#include <utlist.h>

#include "scheduler/client/client.h"
#include "scheduler/wire/page.h"
#include "shim/learn/function.h"
#include "shim/handles/table.h"
#include "common/clock.h"
#include "shim/objects/stream.h"

enum {
    LESSON = 512,      /* launches */
    LESSONS_MOST = 64, /* a kernel that is not known by then never will be */
};

POOL(pads, struct pad, free_next);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pad *all;
static struct pad_guard guard; /* under the lock */
/* How many streams above best effort have no ring; those with queues have none. */
static _Atomic uint32_t ringless;

/* Without a ring of padding the stream is ringless: nothing is left beside it. */
static void pad_open(struct shim_stream *s)
{
    s->pad = NULL;
    s->ringless = false;
    if (config_get()->pad != PAD_ON || !s->ctx->set || !s->tracked)
        return;
    struct pad *p = s->q ? NULL : pool_get(&pads);
    s->ringless = !p;
    if (!p) {
        atomic_fetch_add(&ringless, 1);
        return;
    }
    *p = (struct pad){.stream = s, .seen = EPOCH_KERNELS(atomic_load(&s->epoch))};
    pthread_mutex_lock(&lock);
    DL_APPEND(all, p);
    pthread_mutex_unlock(&lock);
    s->pad = p;
}
STREAM_NOTE(STREAM_BEGINS, pad_open)

static void pad_close(struct shim_stream *s)
{
    struct pad *p = s->pad;
    if (s->ringless)
        atomic_fetch_sub(&ringless, 1);
    s->ringless = false;
    if (!p)
        return;
    s->pad = NULL;
    pthread_mutex_lock(&lock);
    DL_DELETE(all, p);
    pthread_mutex_unlock(&lock);
    pool_put(&pads, p);
}
STREAM_NOTE(STREAM_ENDS, pad_close)

/* ---- what is launched (lock held) ---------------------------------------------------------- */

struct known {
    uint32_t ns, parts;
};

/* Reads kernel `n` from the ring, and gives what is learned of it. False: that is too little. */
static bool launch_read(const struct pad *p, uint32_t n, struct known *out)
{
    const struct pad_launch *at = &p->launch[n % PAD_LAUNCHES];
    uint64_t kernel_id = atomic_load_explicit(&at->kernel_id, memory_order_acquire);
    uint64_t shape = atomic_load_explicit(&at->shape, memory_order_relaxed), blocks = shape >> 47;
    if ((uint16_t)kernel_id != (uint16_t)n || !shape)
        return false;
    const struct shim_function *f =
        function_known((CUfunction)(uintptr_t)(kernel_id >> 16), p->stream->ctx);
    const unsigned block[3] = {shape >> 36 & 0x7ff, shape >> 25 & 0x7ff, shape >> 18 & 0x7f};
    uint64_t plain = function_shape_plain(block, shape & 0x3ffff);
    if (!f || !plain || !function_shape_known(f, plain, &out->parts) || !out->parts)
        return false;
    out->parts = vhq_parts(blocks, out->parts);
    out->ns = atomic_load_explicit(&f->estimate[estimate_bucket(blocks)].learned.mean_ns,
                                   memory_order_relaxed);
    return out->ns != 0;
}

static void launch_unknown(struct pad *p, uint32_t n)
{
    p->unknown = n + 1;
    if (p->lessons_given >= LESSONS_MOST || atomic_load_explicit(&p->lessons, memory_order_relaxed))
        return;
    p->lessons_given++;
    atomic_store_explicit(&p->lessons, LESSON, memory_order_relaxed);
}

/* Takes what the stream has in flight off `room`. False: as far as is known, nothing is left. */
static bool pad_add(struct pad *p, struct vhq_pad_room *room, uint64_t held_since_ns, uint64_t now)
{
    const struct shim_stream *s = p->stream;
    uint64_t since_ns = p->read_at_ns > held_since_ns ? p->read_at_ns : held_since_ns;
    p->read_at_ns = now;
    if (!schedule_busy(s))
        return true;
    uint32_t complete = EPOCH_KERNELS(atomic_load(&s->complete));
    /* Kernels from `seen` up to this number were launched since the last look. */
    uint32_t launched = EPOCH_KERNELS(atomic_load(&s->epoch));
    if ((int32_t)(complete - p->seen) >= 0) { /* no kernel that was read is in flight */
        p->seen = complete;
        p->parts = 0;
        p->ends_at_ns = 0;
    }
    if (launched - p->seen > PAD_LAUNCHES) {
        launch_unknown(p, launched - 1);
        p->seen = launched;
    }
    for (; p->seen != launched; p->seen++) {
        struct known k;
        if (!launch_read(p, p->seen, &k)) {
            launch_unknown(p, p->seen);
            continue;
        }
        p->ends_at_ns = (p->ends_at_ns > since_ns ? p->ends_at_ns : since_ns) + k.ns;
        p->parts = k.parts > p->parts ? k.parts : p->parts;
    }
    if ((int32_t)(p->unknown - complete) > 0 || p->parts > room->parts)
        return false;
    room->parts -= p->parts;
    if (p->ends_at_ns > room->until_ns)
        room->until_ns = p->ends_at_ns;
    return true;
}

struct vhq_pad_room pad_room(void *user)
{
    const struct shim_context *ctx = user;
    const int dev = ctx->gpu->index;
    const uint32_t lowest = level_lowest();
    const struct vhq_pad_room none = {0};
    const _Atomic uint32_t *word = client_hold_word(dev, lowest);
    if (!word || atomic_load_explicit(word, memory_order_relaxed) != PAGE_BIT_SELF ||
        atomic_load_explicit(&ringless, memory_order_relaxed))
        return none;
    struct vhq_pad_room room = {.parts = VHQ_PARTS};
    uint64_t now = clock_ns();
    uint64_t held_since_ns =
        atomic_load_explicit(client_hold_since(dev, lowest), memory_order_relaxed);
    pthread_mutex_lock(&lock);
    bool leaves = now >= guard.until_ns;
    for (struct pad *p = all; p && leaves; p = p->next)
        if (p->stream->ctx->gpu == ctx->gpu)
            leaves = p->stream->ctx == ctx ? pad_add(p, &room, held_since_ns, now)
                                           : !schedule_busy(p->stream);
    pthread_mutex_unlock(&lock);
    return leaves ? room : none;
}

bool pad_lesson(struct shim_stream *s, bool known)
{
    struct pad *p = s->pad;
    uint32_t left = atomic_load_explicit(&p->lessons, memory_order_relaxed);
    bool due =
        EPOCH_KERNELS(atomic_load_explicit(&s->epoch, memory_order_relaxed)) % PAD_EVERY == 0;
    if (left)
        atomic_store_explicit(&p->lessons, left - 1, memory_order_relaxed);
    return !known || due;
}

void pad_sample(uint32_t ns, uint32_t learned_ns)
{
    pthread_mutex_lock(&lock);
    bool stops = pad_guard_add(&guard, ns, learned_ns, clock_ns());
    uint64_t pause_ms = guard.pause_ns / NS_PER_MS;
    pthread_mutex_unlock(&lock);
    if (stops)
        log_line(LOG_INFO,
                 "padding off for %lu ms: best effort beside real-time work makes the real-time "
                 "kernels slower",
                 (unsigned long)pause_ms);
}
