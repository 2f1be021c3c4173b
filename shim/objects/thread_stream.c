/*
 * thread_stream.c - the per-thread default streams (see thread_stream.h).
 */
#include "shim/objects/thread_stream.h"

#include <pthread.h>

#include "shim/pace/departed.h"
#include "shim/path/call.h"

/* A thread rarely uses more than one context; more than SLOTS of them take turns. */
enum { SLOTS = 8 };
struct slot {
    struct shim_stream *stream;
    uint64_t serial;  /* of the stream: the struct may have been freed with its context */
    uint64_t context; /* generation */
};
static _Thread_local struct slot slots[SLOTS] __attribute__((tls_model("initial-exec")));
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_failed;
static _Atomic uint64_t serials;

/* A stream whose context was closed was freed there. The context's own lock cannot say, it went
 * too: the serial does, since freed structs are only ever reused as streams. */
static bool slot_empty(const struct slot *slot)
{
    const struct shim_stream *s = slot->stream;
    return !s || s->serial != slot->serial || atomic_load(&s->state) != STREAM_LIVE;
}

static void slot_end(struct slot *slot)
{
    struct shim_stream *s = slot->stream;
    bool empty = slot_empty(slot);
    slot->stream = NULL;
    if (empty)
        return;
    struct shim_context *ctx = context_find(s->ctx->handle);
    if (!ctx || ctx->generation != slot->context)
        return;
    context_enter(ctx);
    departed_add(s);
    stream_unlink(s);
    stream_end(s, false); /* the driver's may have gone before */
    context_leave(ctx);
}

static void thread_ended(void *unused)
{
    if (call_native())
        return;
    for (int i = 0; i < SLOTS; i++)
        slot_end(&slots[i]);
}

static void make_key(void)
{
    key_failed = pthread_key_create(&key, thread_ended);
}

static struct slot *slot_find(const struct shim_context *ctx)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].stream && slots[i].context == ctx->generation)
            return &slots[i];
    return NULL;
}

static struct slot *slot_free(void)
{
    static _Thread_local unsigned turn __attribute__((tls_model("initial-exec")));
    for (int i = 0; i < SLOTS; i++)
        if (slot_empty(&slots[i]))
            return &slots[i];
    struct slot *slot = &slots[turn++ % SLOTS];
    slot_end(slot);
    return slot;
}

struct shim_stream *thread_stream_find(struct shim_context *ctx)
{
    struct slot *slot = slot_find(ctx);
    return slot ? slot->stream : NULL;
}

struct shim_stream *thread_stream_get(struct shim_context *ctx)
{
    struct slot *slot = slot_find(ctx);
    if (likely(slot))
        return slot->stream;
    pthread_once(&once, make_key);
    if (key_failed || pthread_setspecific(key, slots) != 0)
        return NULL;
    struct shim_stream *s = stream_add(ctx, CU_STREAM_PER_THREAD, 0, 0);
    if (!s)
        return NULL;
    slot = slot_free();
    slot->stream = s;
    slot->serial = s->serial = atomic_fetch_add(&serials, 1) + 1;
    slot->context = ctx->generation;
    return s;
}

bool thread_stream_mine(const struct shim_stream *s)
{
    for (int i = 0; i < SLOTS; i++)
        if (slots[i].stream == s)
            return true;
    return false;
}
