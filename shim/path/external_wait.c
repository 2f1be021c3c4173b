/*
 * external_wait.c - waits for something outside the process (see external_wait.h). One event in
 * front of the wait and one behind it tell whether the stream waits there. One watch serves all
 * waits of its stream that are not over.
 */
#include "shim/path/external_wait.h"

#include <pthread.h>
#include <sched.h>

#include "scheduler/client/client.h"
#include "scheduler/wire/page.h"
#include "shim/objects/stream.h"

enum { WATCHES = 64 };

/* The thread that makes a watch OPEN or LOOKED_AT owns it. It calls the driver without the lock. */
enum watch_state {
    WATCH_FREE,
    WATCH_OPEN,      /* its wait is being made */
    WATCH_CLOSED,    /* both events were recorded */
    WATCH_LOOKED_AT, /* the client's thread looks at it */
};

struct watch {
    enum watch_state state;     /* under the lock */
    struct shim_stream *stream; /* under the lock; NULL: destroyed, but what was in it goes on */
    struct shim_context *ctx;
    CUstream handle;
    CUevent before, after;
    const void *thread; /* id of a thread or host function that waits; NULL: two events tell */
    bool over;          /* under the lock; it ended while another thread looked at it */
    uint32_t stalled;   /* bits of the devices on which the scheduler knows that it waits */
    uint64_t progress;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct watch watches[WATCHES];
static _Atomic unsigned watched;

/* For each device: bits of the devices for whose streams its own streams have ever waited. */
static _Atomic uint32_t follows[PAGE_DEVICES];

/* ---- one watch, by its owner ----------------------------------------------------------------- */

static void watch_stalled(struct watch *w, uint32_t devices)
{
    uint32_t change = w->stalled ^ devices;
    w->stalled = devices;
    for (int dev = 0; change >> dev; dev++)
        if (change >> dev & 1)
            client_note_wait(dev, client_level(), devices >> dev & 1);
}

static uint32_t device_bit(int dev)
{
    return dev < 0 || dev >= (int)PAGE_DEVICES ? 0 : 1u << dev;
}

/* `devices`, and all devices that follow one of them, directly or through others. */
static uint32_t followers(uint32_t devices)
{
    uint32_t before;
    do {
        before = devices;
        for (int dev = 0; dev < (int)PAGE_DEVICES; dev++)
            if (atomic_load_explicit(&follows[dev], memory_order_relaxed) & devices)
                devices |= device_bit(dev);
    } while (devices != before);
    return devices;
}

void external_wait_across(int device, int source)
{
    uint32_t bit = device_bit(source);
    if (device_bit(device) && !(atomic_load_explicit(&follows[device], memory_order_relaxed) & bit))
        atomic_fetch_or(&follows[device], bit);
}

static void watch_end(struct watch *w)
{
    watch_stalled(w, 0);
    if (w->before)
        REAL(cuEventDestroy_v2)(w->before);
    if (w->after)
        REAL(cuEventDestroy_v2)(w->after);
    pthread_mutex_lock(&lock);
    *w = (struct watch){.state = WATCH_FREE};
    pthread_mutex_unlock(&lock);
    atomic_fetch_sub(&watched, 1);
}

/* An event belongs to one context, and the current context may be another one than the stream's. */
static bool record(const struct watch *w, CUevent *event)
{
    CUresult r = CUDA_SUCCESS;
    if (!*event) {
        struct context_scope scope = context_push(w->ctx);
        r = REAL(cuEventCreate)(event, CU_EVENT_DISABLE_TIMING);
        context_pop(scope);
    }
    return r == CUDA_SUCCESS && REAL(cuEventRecord)(*event, w->handle) == CUDA_SUCCESS;
}

/* ---- around a wait --------------------------------------------------------------------------- */

/* A free watch becomes `fresh`. NULL: there is none. Lock held. */
static struct watch *watch_add(struct watch fresh)
{
    for (struct watch *w = watches; w < watches + WATCHES; w++)
        if (w->state == WATCH_FREE) {
            *w = fresh;
            atomic_fetch_add(&watched, 1);
            return w;
        }
    return NULL;
}

struct watch *external_wait_begin(CUstream handle)
{
    struct shim_stream *s = stream_known(handle);
    struct watch *w = watches; /* then of an earlier wait that may not be over */
    if (!s || client_level() == CUTIN_LEVEL_BE || capture_active(s))
        return NULL;
    pthread_mutex_lock(&lock);
    while (w < watches + WATCHES && (w->state != WATCH_CLOSED || w->stream != s || w->thread))
        w++;
    if (w < watches + WATCHES)
        w->state = WATCH_OPEN;
    else
        w = watch_add(
            (struct watch){.state = WATCH_OPEN, .stream = s, .ctx = s->ctx, .handle = s->handle});
    pthread_mutex_unlock(&lock);
    if (!w)
        return NULL;
    watch_stalled(w, 0);
    /* An earlier event stays: the watch then spans both waits. */
    if (w->before || record(w, &w->before))
        return w;
    watch_end(w);
    return NULL;
}

struct watch *external_wait_begin_context(struct shim_context *ctx)
{
    /* Choose a stream that shows whether all of the context waits. Best is a nonblocking one: its
     * events tie no other streams together. */
    CUstream found = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (const struct shim_stream *s = ctx->streams; s; s = s->next)
        if (!s->undeferred && atomic_load(&s->state) == STREAM_LIVE &&
            (!found || s->kind == VHQ_NONBLOCKING))
            found = s->handle;
    pthread_mutex_unlock(&ctx->lock);
    return found ? external_wait_begin(found) : NULL;
}

static void watch_close(struct watch *w, bool over)
{
    pthread_mutex_lock(&lock);
    over |= w->over;
    if (!over)
        w->state = WATCH_CLOSED;
    pthread_mutex_unlock(&lock);
    if (over)
        watch_end(w);
}

void external_wait_end(struct watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&lock);
    bool there = w->stream;
    pthread_mutex_unlock(&lock);
    watch_close(w, !there || !record(w, &w->after));
}

/* ---- threads that wait ---------------------------------------------------------------------- */

void external_wait_thread_begins(struct shim_context *ctx, struct shim_stream *s, const void *id)
{
    if (client_level() == CUTIN_LEVEL_BE)
        return;
    pthread_mutex_lock(&lock);
    watch_add((struct watch){.state = WATCH_CLOSED, .stream = s, .ctx = ctx, .thread = id});
    pthread_mutex_unlock(&lock);
}

void external_wait_thread_ends(const void *id)
{
    struct watch *ended = NULL;
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WATCHES && !ended; i++)
        if (watches[i].thread == id)
            ended = &watches[i];
    bool owned = ended && ended->state == WATCH_CLOSED;
    if (owned)
        ended->state = WATCH_OPEN;
    else if (ended)
        ended->over = true; /* its owner ends it */
    pthread_mutex_unlock(&lock);
    if (owned)
        watch_end(ended);
}

/* ---- the client's thread --------------------------------------------------------------------- */

/* True: the waits are over. The scheduler gives them 20 ms before it concludes anything. A wait of
 * a best-effort or destroyed stream, or on another device, counts only while no stream above best
 * effort makes progress: such a stream may follow it, by events or the legacy stream. */
static bool watch_look(struct watch *w, bool tracked)
{
    uint64_t progress = atomic_load_explicit(&schedule_progress, memory_order_relaxed);
    uint32_t own = device_bit(w->ctx->gpu->index);
    if (w->progress != progress)
        watch_stalled(w, tracked ? w->stalled & own : 0);
    w->progress = progress;
    if (!w->thread && REAL(cuEventQuery)(w->before) == CUDA_ERROR_NOT_READY)
        return false;
    if (!w->thread && REAL(cuEventQuery)(w->after) != CUDA_ERROR_NOT_READY)
        return true;
    watch_stalled(w, followers(own));
    return false;
}

/* A thread that asks for another process's record counts as waiting for so many ticks more. */
enum { ASKED_TICKS = 10 };
static _Atomic uint32_t asked; /* bits of devices */

void external_wait_asked(const struct shim_context *ctx)
{
    uint32_t bit = device_bit(ctx->gpu->index);
    if (client_level() != CUTIN_LEVEL_BE && !MUTANT(thread_waits_untold) &&
        !(atomic_load_explicit(&asked, memory_order_relaxed) & bit))
        atomic_fetch_or(&asked, bit);
    client_note_call();
}

static void asked_look(void)
{
    static struct watch asking; /* it has no stream, only `progress` and `stalled` */
    static uint32_t since;      /* ticks in which no thread has asked */
    uint32_t devices =
        atomic_load_explicit(&asked, memory_order_relaxed) ? atomic_exchange(&asked, 0) : 0;
    uint64_t progress = atomic_load_explicit(&schedule_progress, memory_order_relaxed);
    since = devices ? 0 : since + 1;
    if (progress != asking.progress || since > ASKED_TICKS)
        watch_stalled(&asking, 0);
    else if (devices)
        watch_stalled(&asking, asking.stalled | followers(devices));
    asking.progress = progress;
}

bool external_wait_pending(void)
{
    return atomic_load_explicit(&watched, memory_order_relaxed) ||
           atomic_load_explicit(&asked, memory_order_relaxed);
}

void external_wait_poll(void)
{
    asked_look();
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    struct capture_scope scope = capture_relax();
    for (struct watch *w = watches; w < watches + WATCHES; w++) {
        pthread_mutex_lock(&lock);
        bool taken = w->state == WATCH_CLOSED, tracked = w->stream && w->stream->tracked;
        if (taken)
            w->state = WATCH_LOOKED_AT;
        pthread_mutex_unlock(&lock);
        if (taken)
            watch_close(w, watch_look(w, tracked));
    }
    capture_restore(scope);
}

/* ---- streams and contexts that go ------------------------------------------------------------ */

/* The watch stays: other streams' work may still wait for what is behind the wait. */
static void external_wait_forget(struct shim_stream *s)
{
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < WATCHES; i++)
        if (watches[i].stream == s)
            watches[i].stream = NULL;
    pthread_mutex_unlock(&lock);
}
STREAM_NOTE(STREAM_UNLINKED, external_wait_forget)

static void external_waits_end(struct shim_context *ctx, bool alive)
{
    if (!atomic_load_explicit(&watched, memory_order_relaxed))
        return;
    for (struct watch *w = watches; w < watches + WATCHES; w++) {
        enum watch_state state;
        do {
            pthread_mutex_lock(&lock);
            state = w->state != WATCH_FREE && w->ctx == ctx ? w->state : WATCH_FREE;
            if (state == WATCH_CLOSED)
                w->state = WATCH_OPEN;
            pthread_mutex_unlock(&lock);
            if (state == WATCH_LOOKED_AT)
                sched_yield();
        } while (state == WATCH_LOOKED_AT);
        if (state == WATCH_CLOSED)
            watch_end(w);
    }
}
CONTEXT_END(CONTEXT_ENDING, external_waits_end)
