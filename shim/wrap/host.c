/*
 * host.c - host functions and callbacks in a stream. The driver runs them in a thread of its own;
 * a trampoline marks that thread meanwhile, so that a CUDA call from there gets the driver's own
 * answer and never waits for a vHQ that may be waiting for this very function.
 */
#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/external_wait.h"
#include "shim/handles/table.h"

struct trampoline {
    CUhostFn function;
    CUstreamCallback callback;
    void *data;
    CUstream seen; /* the handle that the callback is given */
    struct shim_stream *stream;
    _Atomic uint64_t met;
    void *free_next;
};
POOL(trampolines, struct trampoline, free_next);

struct host_call {
    CUstream stream;
    unsigned int flags; /* of a callback; for a function: how its thread waits (13.1) */
    bool v2;
    struct trampoline *trampoline;
};

/* `met` says how far the function is, or holds the epoch of the call that brought it. The epoch is
 * known only once the call was made, and the function may have returned by then. */
#define MET_NEITHER  0
#define MET_RUNS     UINT64_MAX
#define MET_RAN      (UINT64_MAX - 1)
#define MET_GONE     (UINT64_MAX - 2) /* it is never run */
#define MET_NO_EPOCH (UINT64_MAX - 3)

/* The function begins, so what is in front of it in its stream is complete. The program may learn
 * of that by this alone, so it is noted here. The driver says that the function itself is complete,
 * once it has returned. */
static uint64_t trampoline_enter(struct trampoline *t)
{
    uint64_t epoch = atomic_exchange(&t->met, MET_RUNS);
    if (epoch != MET_NEITHER && epoch < MET_NO_EPOCH)
        schedule_complete_but_last(t->stream, epoch);
    if (t->stream->tracked && !MUTANT(function_waits_untold))
        external_wait_thread_begins(t->stream->ctx, t->stream, t);
    thread_in_callback++;
    return epoch;
}

/* The second of the function and its call frees the trampoline. */
static void trampoline_leave(struct trampoline *t, uint64_t epoch)
{
    thread_in_callback--;
    external_wait_thread_ends(t);
    if (epoch == MET_NEITHER)
        epoch = atomic_exchange(&t->met, MET_RAN);
    if (epoch != MET_RUNS && epoch != MET_NEITHER)
        pool_put(&trampolines, t);
}

static void trampoline_drop(struct trampoline *t)
{
    if (atomic_exchange(&t->met, MET_GONE) != MET_NEITHER)
        pool_put(&trampolines, t);
}

static void run_function(void *user)
{
    struct trampoline *t = user;
    uint64_t epoch = trampoline_enter(t);
    t->function(t->data);
    trampoline_leave(t, epoch);
}

static void run_callback(CUstream stream, CUresult status, void *user)
{
    struct trampoline *t = user;
    uint64_t epoch = trampoline_enter(t);
    t->callback(t->seen, status, t->data);
    trampoline_leave(t, epoch);
}

static CUresult launch_real(const struct host_call *a, CUhostFn function, void *data)
{
    return a->v2 ? REAL(cuLaunchHostFunc_v2)(a->stream, function, data, a->flags)
                 : REAL(cuLaunchHostFunc)(a->stream, function, data);
}

static int function_run(void *payload)
{
    struct host_call *a = payload;
    CUresult r = launch_real(a, run_function, a->trampoline);
    if (r != CUDA_SUCCESS)
        trampoline_drop(a->trampoline);
    return (int)r;
}

/* Natively a callback runs even when the device has failed; so does one that was never submitted.
 * It may wait in the dispatcher's thread as long as it likes: a thread with calls for this context
 * is told of the fault before it would wait for the dispatcher's thread (context_error). */
static int callback_run(void *payload)
{
    struct host_call *a = payload;
    CUresult r = REAL(cuStreamAddCallback)(a->stream, run_callback, a->trampoline, a->flags);
    if (r != CUDA_SUCCESS && vhq_in_dispatcher())
        run_callback(a->stream, r, a->trampoline);
    else if (r != CUDA_SUCCESS)
        trampoline_drop(a->trampoline);
    return (int)r;
}

/* Runs a callback that a reset drops: only the callback frees what the application gave it. */
static void callback_drop(void *payload)
{
    struct host_call *a = payload;
    run_callback(a->stream, CUDA_ERROR_LAUNCH_FAILED, a->trampoline);
}

static void function_drop(void *payload)
{
    trampoline_drop(((struct host_call *)payload)->trampoline);
}

static CUresult trampoline_call(struct host_call *a, const struct trampoline *from, struct call *c,
                                struct shim_stream *s)
{
    CUresult r = context_error(s->ctx);
    if (r)
        return r;
    struct trampoline *t = a->trampoline = pool_get(&trampolines);
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *t = *from;
    t->stream = s;
    r = call_on(c, s);
    /* The call was made. 0: its epoch is not known. */
    uint64_t epoch = c->epoch;
    uint64_t seen = atomic_exchange(&t->met, epoch ? epoch : MET_NO_EPOCH);
    if ((seen == MET_RUNS || seen == MET_RAN) && epoch)
        schedule_complete_but_last(s, epoch);
    if (seen == MET_RAN || seen == MET_GONE)
        pool_put(&trampolines, t);
    return r;
}

/* ---- wrappers ----------------------------------------------------------------------------- */

static CUresult launch_function(struct host_call a, CUhostFn function, void *data, bool ptds)
{
    struct trampoline t = {.function = function, .data = data};
    struct call c = {
        .now = function_run,
        .run = function_run,
        .drop = function_drop,
        .args = &a,
        /* The driver judges a way to wait that is not known here, at once. */
        .req = {.bytes = sizeof(a),
                .flags = (a.v2 && a.flags > 1 ? VHQ_UNCOUNTED | VHQ_MUST_INLINE : VHQ_UNCOUNTED) |
                         MUTANT_OVERTAKES(host_function_overtakes)}};
    struct shim_stream *s = call_stream(&a.stream, ptds);
    /* A captured function may run more than once, and a trampoline frees itself: it gets none. */
    if (!s || !function || capture_active(s))
        return launch_real(&a, function, data);
    return trampoline_call(&a, &t, &c, s);
}

BOTH(cuLaunchHostFunc, (CUstream, stream), (CUhostFn, fn), (void *, data))
{
    return launch_function((struct host_call){.stream = stream}, fn, data, ptds);
}

BOTH(cuLaunchHostFunc_v2, (CUstream, stream), (CUhostFn, fn), (void *, data), (unsigned int, mode))
{
    struct host_call a = {.stream = stream, .flags = mode, .v2 = true};
    return launch_function(a, fn, data, ptds);
}

BOTH(cuStreamAddCallback, (CUstream, stream), (CUstreamCallback, callback), (void *, data),
     (unsigned int, flags))
{
    struct host_call a = {.stream = stream, .flags = flags};
    struct trampoline t = {.callback = callback, .data = data, .seen = stream};
    struct call c = {.now = callback_run,
                     .run = callback_run,
                     .drop = callback_drop,
                     .args = &a,
                     .req = {.bytes = sizeof(a), .flags = VHQ_UNCOUNTED}};
    struct shim_stream *s = call_stream(&a.stream, ptds);
    if (!s || !callback || flags || capture_active(s))
        return REAL(cuStreamAddCallback)(a.stream, callback, data, flags);
    return trampoline_call(&a, &t, &c, s);
}
