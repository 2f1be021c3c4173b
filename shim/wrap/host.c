/*
 * host.c - host functions and callbacks in a stream. The driver runs them in a thread of its own;
 * a trampoline marks that thread meanwhile, so that a CUDA call from there gets the driver's own
 * answer and never waits for a vHQ that may be waiting for this very function.
 */
#include "shim/handles/table.h"
#include "shim/wrap/op.h"

struct trampoline {
    CUhostFn function;
    CUstreamCallback callback; /* NULL: it is a function */
    void *data;
    CUstream seen; /* the handle that the callback is given */
    struct shim_stream *stream;
    _Atomic uint64_t met;
    void *free_next;
};
POOL(trampolines, struct trampoline, free_next);

struct host_call {
    CUstream stream;
    enum { FUNCTION, FUNCTION_V2, CALLBACK } api;
    unsigned int flags; /* of a callback; for a function: how its thread waits (13.1) */
    struct trampoline *trampoline;
};

/* `met` says how far the function is, or holds the epoch of the call that brought it. The epoch is
 * known only once the call was made, and the function may have returned by then. */
#define MET_NEITHER  0
#define MET_RUNS     UINT64_MAX
#define MET_RAN      (UINT64_MAX - 1)
#define MET_GONE     (UINT64_MAX - 2) /* it is never run */
#define MET_NO_EPOCH (UINT64_MAX - 3)

static void run_callback(CUstream stream, CUresult status, void *user)
{
    struct trampoline *t = user;
    uint64_t epoch = atomic_exchange(&t->met, MET_RUNS);
    /* The function begins, so what is in front of it in its stream is complete. The program may
     * learn of that by this alone, so it is noted here. The driver says that the function itself is
     * complete, once it has returned. */
    if (epoch != MET_NEITHER && epoch < MET_NO_EPOCH)
        schedule_complete_but_last(t->stream, epoch);
    if (t->stream->tracked && !MUTANT(function_waits_untold))
        external_wait_thread_begins(t->stream->ctx, t->stream, t);
    thread_in_callback++;
    if (t->callback)
        t->callback(t->seen, status, t->data);
    else
        t->function(t->data);
    thread_in_callback--;
    external_wait_thread_ends(t);
    /* The second of the function and its call frees the trampoline. */
    if (epoch == MET_NEITHER)
        epoch = atomic_exchange(&t->met, MET_RAN);
    if (epoch != MET_RUNS && epoch != MET_NEITHER)
        pool_put(&trampolines, t);
}

static void run_function(void *user)
{
    run_callback(NULL, CUDA_SUCCESS, user);
}

static void trampoline_drop(struct trampoline *t)
{
    if (atomic_exchange(&t->met, MET_GONE) != MET_NEITHER)
        pool_put(&trampolines, t);
}

static CUresult host_real(const struct host_call *a, CUhostFn function, CUstreamCallback callback,
                          void *data)
{
    if (a->api == CALLBACK)
        return REAL(cuStreamAddCallback)(a->stream, callback, data, a->flags);
    return a->api == FUNCTION_V2 ? REAL(cuLaunchHostFunc_v2)(a->stream, function, data, a->flags)
                                 : REAL(cuLaunchHostFunc)(a->stream, function, data);
}

/* Natively a callback runs even when the device has failed; so does one that was never submitted.
 * It may wait in the dispatcher's thread as long as it likes: a thread with calls for this context
 * is told of the fault before it would wait for the dispatcher's thread (context_error). */
static int host_run(void *payload)
{
    const struct host_call *a = payload;
    CUresult r = host_real(a, run_function, run_callback, a->trampoline);
    if (r != CUDA_SUCCESS && a->api == CALLBACK && vhq_in_dispatcher())
        run_callback(a->stream, r, a->trampoline);
    else if (r != CUDA_SUCCESS)
        trampoline_drop(a->trampoline);
    return (int)r;
}

/* Runs a callback that a reset drops: only the callback frees what the application gave it. */
static void host_drop(void *payload)
{
    const struct host_call *a = payload;
    if (a->api == CALLBACK)
        run_callback(a->stream, CUDA_ERROR_LAUNCH_FAILED, a->trampoline);
    else
        trampoline_drop(a->trampoline);
}

static CUresult host_submit(struct host_call *a, struct trampoline *from, bool ptds)
{
    /* The driver judges a way to wait that is not known here, at once. */
    uint32_t flags = VHQ_UNCOUNTED | (a->flags > 1 ? VHQ_MUST_INLINE : 0) |
                     (from->function ? MUTANT_OVERTAKES(host_function_overtakes) : 0);
    struct call c = {OP_COPIED(host_run, a), .drop = host_drop, .req.flags = flags};
    struct shim_stream *s = call_stream(&a->stream, ptds);
    /* A captured function may run more than once, and a trampoline frees itself: it gets none. */
    if (!s || (!from->function && !from->callback) || (a->api == CALLBACK && a->flags) ||
        capture_active(s))
        return host_real(a, from->function, from->callback, from->data);
    CUresult r = context_error(s->ctx);
    if (r)
        return r;
    struct trampoline *t = a->trampoline = pool_get(&trampolines);
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    from->stream = s;
    *t = *from;
    r = call_on(&c, s);
    /* The call was made. 0: its epoch is not known. */
    uint64_t epoch = c.epoch;
    uint64_t seen = atomic_exchange(&t->met, epoch ? epoch : MET_NO_EPOCH);
    if ((seen == MET_RUNS || seen == MET_RAN) && epoch)
        schedule_complete_but_last(s, epoch);
    if (seen == MET_RAN || seen == MET_GONE)
        pool_put(&trampolines, t);
    return r;
}

BOTH(cuLaunchHostFunc, (CUstream, stream), (CUhostFn, fn), (void *, data))
{
    struct host_call a = {.stream = stream, .api = FUNCTION};
    return host_submit(&a, &(struct trampoline){.function = fn, .data = data}, ptds);
}
BOTH(cuLaunchHostFunc_v2, (CUstream, stream), (CUhostFn, fn), (void *, data), (unsigned int, mode))
{
    struct host_call a = {.stream = stream, .api = FUNCTION_V2, .flags = mode};
    return host_submit(&a, &(struct trampoline){.function = fn, .data = data}, ptds);
}
BOTH(cuStreamAddCallback, (CUstream, stream), (CUstreamCallback, callback), (void *, data),
     (unsigned int, flags))
{
    struct host_call a = {.stream = stream, .api = CALLBACK, .flags = flags};
    struct trampoline t = {.callback = callback, .data = data, .seen = stream};
    return host_submit(&a, &t, ptds);
}
