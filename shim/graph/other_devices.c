/* other_devices.c - see other_devices.h. */
#include "shim/graph/other_devices.h"

#include <stdlib.h>

#include "scheduler/client/client.h"
#include "shim/path/call.h"

struct reached {
    struct shim_context *ctx;
    uint64_t generation;
    uint64_t est_ns;
    uint64_t epoch; /* of the latest launch, in the shim's stream there */
};

struct other_devices {
    struct shim_context *from; /* context of the event `launched` */
    uint64_t generation;
    CUevent launched;
    uint32_t count;
    struct reached at[];
};

_Atomic bool other_devices_seen;
static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER; /* for making streams and events */
static pthread_mutex_t going[CUTIN_LEVELS] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
                                              PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
_Static_assert(CUTIN_LEVELS == 4, "one lock for each level");

void other_devices_lock(uint32_t level)
{
    pthread_mutex_lock(&going[level]);
    lock_across_driver(&going[level], "graphs of several devices at one level are launched one at "
                                      "a time, so that their order is the same on each device");
}

void other_devices_unlock(uint32_t level)
{
    pthread_mutex_unlock(&going[level]);
}

struct other_devices *other_devices_new(const struct graph_nodes *n)
{
    struct other_devices *a =
        n->other_devices ? calloc(1, sizeof(*a) + n->other_devices * sizeof(*a->at)) : NULL;
    if (!a)
        return NULL;
    a->count = n->other_devices;
    for (uint32_t i = 0; i < n->other_devices; i++)
        a->at[i] = (struct reached){.ctx = n->device[i].ctx,
                                    .generation = n->device[i].ctx->generation,
                                    .est_ns = n->device[i].est_ns};
    atomic_store_explicit(&other_devices_seen, true, memory_order_relaxed);
    return a;
}

static void making_lock(void)
{
    pthread_mutex_lock(&making);
    lock_across_driver(&making, "each stream and event is made once: launches of graphs of several "
                                "devices wait for that");
}

/* NULL: the context is gone, or there is no memory. */
static struct shim_stream *shadow_of(const struct reached *at, uint32_t level)
{
    struct shim_context *ctx = at->ctx;
    if (!context_lives(ctx, at->generation))
        return NULL;
    making_lock();
    if (!ctx->shadow[level]) {
        CUstream handle;
        struct context_scope scope = context_push(ctx);
        CUresult r = REAL(cuStreamCreate)(&handle, CU_STREAM_NON_BLOCKING);
        context_pop(scope);
        ctx->shadow[level] = r == CUDA_SUCCESS ? stream_add_at(ctx, handle, level) : NULL;
    }
    pthread_mutex_unlock(&making);
    return ctx->shadow[level];
}

void other_devices_wait(struct other_devices *a, uint32_t level)
{
    const struct vhq_req req = {.flags = VHQ_UNCOUNTED | VHQ_MUST_INLINE};
    struct vhq_cmd *cmd;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct shim_stream *s = shadow_of(&a->at[i], level);
        if (!s || !s->q)
            continue;
        vhq_begin(s->q, &req, &cmd);
        vhq_end(s->q, NULL, 0);
    }
}

bool other_devices_held(const struct other_devices *a, uint32_t level)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (client_held(a->at[i].ctx->gpu->index, level))
            return true;
    return false;
}

struct launching {
    CUstream stream; /* of the command that waits for the launch */
    struct other_devices *other_devices;
    struct shim_stream *in; /* in which the application launches */
    int (*launch)(void *args);
    void *args;
    uint32_t next; /* the device whose command comes next */
};

static void launched_forget(struct other_devices *a)
{
    if (a->launched && context_lives(a->from, a->generation))
        REAL(cuEventDestroy_v2)(a->launched);
    a->launched = NULL;
}

/* The event of this context; NULL: it cannot be made. */
static CUevent launched_of(struct other_devices *a, struct shim_context *ctx)
{
    making_lock();
    if (a->from != ctx || a->generation != ctx->generation) {
        launched_forget(a);
        a->from = ctx;
        a->generation = ctx->generation;
        struct context_scope scope = context_push(ctx);
        if (REAL(cuEventCreate)(&a->launched, CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
            a->launched = NULL;
        context_pop(scope);
    }
    pthread_mutex_unlock(&making);
    return a->launched;
}

/* The calls are nested: each device's command begins before the launch is made, and ends after
 * it. */
static int launch_next(void *args)
{
    const struct launching *l = args;
    struct other_devices *a = l->other_devices;
    if (l->next == a->count) {
        int r = l->launch(l->args);
        CUevent launched = r == CUDA_SUCCESS ? launched_of(a, l->in->ctx) : NULL;
        if (!launched || REAL(cuEventRecord)(launched, l->in->handle) != CUDA_SUCCESS)
            return r;
        /* So the next command in our streams, a marker first, comes when the launch is complete. */
        for (uint32_t k = 0; k < a->count; k++) {
            const struct shim_stream *s = shadow_of(&a->at[k], l->in->level);
            if (s)
                REAL(cuStreamWaitEvent)(s->handle, launched, 0);
        }
        return r;
    }
    struct reached *at = &a->at[l->next];
    struct shim_stream *s = shadow_of(at, l->in->level);
    struct launching inner = *l;
    inner.stream = s ? s->handle : NULL;
    inner.next++;
    struct call c = {.now = launch_next,
                     .args = &inner,
                     .req = {.flags = at->est_ns ? 0 : VHQ_UNCOUNTED, .est_ns = at->est_ns},
                     .kernel = true,
                     .name = "cuGraphLaunch"};
    CUresult r = call_on(&c, s);
    at->epoch = s && s->tracked ? c.epoch : 0;
    return (int)r;
}

CUresult other_devices_launch(struct other_devices *a, struct shim_stream *s,
                              int (*launch)(void *args), void *args)
{
    struct launching l = {.other_devices = a, .in = s, .launch = launch, .args = args};
    return (CUresult)launch_next(&l);
}

void other_devices_join(struct other_devices *a, struct shim_stream *s, uint64_t epoch)
{
    for (uint32_t i = 0; i < a->count; i++) {
        struct shim_stream *there = shadow_of(&a->at[i], s->level);
        if (there && epoch && a->at[i].epoch)
            join_note(s, epoch, there, a->at[i].epoch);
    }
}

void other_devices_free(struct other_devices *a)
{
    if (a)
        launched_forget(a);
    free(a);
}
