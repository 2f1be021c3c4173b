/*
 * event.c - the known events, and what is known of their latest records (see event.h).
 *
 * An application knows an event by its handle, but a wait means the *record* that it saw. Each
 * deferred record is a fence: waits follow it, and the next record follows the waits.
 */
#include "shim/objects/event.h"

TABLE(events);
POOL(event_pool, struct shim_event, free_next);
_Atomic bool event_nodes_seen;

struct shim_event *event_find(CUevent handle)
{
    return handle ? (struct shim_event *)(void *)table_find(&events, handle) : NULL;
}

struct vhq_fence *event_fence_swap(struct shim_event *ev, struct vhq_fence *fence, bool *waited)
{
    spin_lock(&ev->locked);
    struct vhq_fence *old = atomic_load_explicit(&ev->fence, memory_order_relaxed);
    atomic_store_explicit(&ev->fence, fence, memory_order_release);
    *waited = ev->waited;
    ev->waited = false;
    spin_unlock(&ev->locked);
    return old;
}

bool event_pair(CUevent *start, CUevent *end)
{
    if (REAL(cuEventCreate)(start, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return false;
    if (REAL(cuEventCreate)(end, CU_EVENT_DEFAULT) == CUDA_SUCCESS)
        return true;
    REAL(cuEventDestroy_v2)(*start);
    return false;
}

/* The event is no longer in the table. */
static void event_end(struct shim_event *ev)
{
    bool waited;
    vhq_fence_put(event_fence_swap(ev, NULL, &waited));
    pool_put(&event_pool, ev);
}

void event_forget(struct shim_event *ev)
{
    table_remove(&events, &ev->node);
    event_end(ev);
}

/* If several threads adopt one at a time, they get the first one's struct. */
static inline __attribute__((always_inline)) struct shim_event *event_new(CUevent handle,
                                                                          bool created)
{
    struct shim_event *ev = pool_get(&event_pool);
    if (!ev)
        return NULL;
    ev->handle = handle;
    ev->context = context_current_handle();
    ev->waited = ev->interprocess = ev->untimed = false;
    atomic_store(&ev->fence, NULL);
    atomic_store(&ev->captured, false);
    atomic_store(&ev->recorded, !created); /* maybe */
    atomic_store(&ev->stream, NULL);
    atomic_store(&ev->seal, 0);
    struct table_node *first = &ev->node;
    if (created)
        table_insert(&events, first, handle);
    else if ((first = table_insert_once(&events, first, handle)) != &ev->node)
        pool_put(&event_pool, ev);
    return (struct shim_event *)(void *)first;
}

void event_add(CUevent handle, unsigned flags)
{
    struct shim_event *ev = event_find(handle);
    if (ev) /* the old one was destroyed with its context, and the handle reused */
        event_forget(ev);
    if (!(ev = event_new(handle, true)))
        return;
    ev->interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
    ev->untimed = (flags & CU_EVENT_DISABLE_TIMING) != 0;
}

struct shim_event *event_adopt(CUevent handle)
{
    struct shim_event *ev = event_find(handle);
    return ev || !handle ? ev : event_new(handle, false);
}

struct vhq_fence *event_fence_get(struct shim_event *ev, bool waits)
{
    struct vhq_fence *passed = NULL;
    if (!atomic_load_explicit(&ev->fence, memory_order_acquire)) {
        /* Even where no record is pending, a wait for the event may be buffered, and a later record
         * or destroy must follow that wait. So there is a fence for them to displace. */
        if (!waits || !(passed = vhq_fence_new()))
            return NULL;
        vhq_fence_cancel(passed);
    }
    spin_lock(&ev->locked);
    STOP(event_fence_get);
    struct vhq_fence *fence = atomic_load_explicit(&ev->fence, memory_order_relaxed);
    if (!fence && passed) {
        fence = passed;
        passed = NULL;
        atomic_store_explicit(&ev->fence, fence, memory_order_release);
    }
    vhq_fence_get(fence);
    ev->waited |= waits;
    spin_unlock(&ev->locked);
    vhq_fence_put(passed);
    return fence;
}

void event_share(CUevent handle)
{
    struct shim_event *ev = event_adopt(handle);
    if (!ev)
        return;
    struct vhq_fence *fence = event_fence_get(ev, false);
    ev->interprocess = true;
    /* Another process may have recorded it, and sees only what was submitted. */
    atomic_store(&ev->recorded, true);
    if (fence)
        vhq_fence_drain(fence, false);
    vhq_fence_put(fence);
}

static bool is_of(const struct table_node *node, const void *context)
{
    return ((const struct shim_event *)(const void *)node)->context == context;
}

static void events_end(struct shim_context *ctx, bool alive)
{
    struct table_node *next, *n = table_take(&events, NULL, is_of, ctx->handle);
    for (; n; n = next) {
        next = n->next[0];
        event_end((struct shim_event *)(void *)n);
    }
}
CONTEXT_END(CONTEXT_ENDED, events_end)

bool event_unfence(struct shim_event *ev)
{
    if (likely(!atomic_load_explicit(&ev->fence, memory_order_acquire)))
        return true;
    struct vhq_fence *old = NULL;
    spin_lock(&ev->locked);
    struct vhq_fence *fence = atomic_load_explicit(&ev->fence, memory_order_relaxed);
    bool over = !fence || vhq_fence_over(fence) || MUTANT(fence_dropped);
    if (over && fence) {
        old = fence;
        atomic_store_explicit(&ev->fence, NULL, memory_order_relaxed);
        ev->waited = false;
    }
    spin_unlock(&ev->locked);
    vhq_fence_put(old);
    return over;
}

static uint64_t event_seal(const struct shim_stream *s, uint64_t epoch)
{
    return epoch ^ (uint64_t)(uintptr_t)s;
}

void event_note(struct shim_event *ev, struct shim_stream *s, uint64_t epoch)
{
    atomic_store_explicit(&ev->recorded, true, memory_order_relaxed);
    atomic_store_explicit(&ev->epoch, epoch, memory_order_relaxed);
    atomic_store_explicit(&ev->stream, s, memory_order_release);
    atomic_store_explicit(&ev->seal, event_seal(s, epoch), memory_order_release);
}

struct event_seen event_snapshot(const struct shim_event *ev)
{
    struct event_seen seen = {.seal = atomic_load_explicit(&ev->seal, memory_order_acquire)};
    seen.stream = atomic_load_explicit(&ev->stream, memory_order_acquire);
    seen.epoch = atomic_load_explicit(&ev->epoch, memory_order_acquire);
    return seen;
}

bool event_same(const struct shim_event *ev, const struct event_seen *seen)
{
    return !ev->interprocess && seen->stream &&
           seen->seal == event_seal(seen->stream, seen->epoch) &&
           seen->seal == atomic_load_explicit(&ev->seal, memory_order_acquire);
}

/* The stream of the latest record may have been destroyed since, and its struct reused. */
struct shim_context *event_context(const struct shim_event *ev)
{
    const struct shim_stream *s = atomic_load_explicit(&ev->stream, memory_order_acquire);
    struct shim_context *ctx = s ? s->ctx : NULL; /* NULL: never recorded */
    return ctx && ctx->handle == ev->context ? ctx : context_find(ev->context);
}

/* Takes no lock: a signal handler may ask while its thread has it. Without a reference the fence
 * may serve another record by now: the answer counts only if the event still has it afterwards. */
bool event_buffered(struct shim_event *ev)
{
    const struct vhq_fence *fence, *now = atomic_load_explicit(&ev->fence, memory_order_acquire);
    bool buffered;
    do {
        fence = now;
        buffered = fence && !vhq_fence_submitted(fence);
        now = atomic_load_explicit(&ev->fence, memory_order_acquire);
    } while (fence != now);
    return buffered;
}

void event_clear_captured(CUevent handle)
{
    struct shim_event *ev = event_find(handle);
    if (ev)
        atomic_store(&ev->captured, false);
}
