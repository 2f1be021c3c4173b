/*
 * op.h - generators of wrappers: one line per driver function whose arguments can be kept by value.
 *
 *   OP_LAST(cuMemsetD8Async, flags, est, (CUdeviceptr, dst), (unsigned char, value), (size_t, n))
 *
 * makes struct cuMemsetD8Async_args, a function that replays it, and the exported wrappers of both
 * default-stream variants. `flags` and `est` are expressions over the argument names. `flags` is
 * evaluated only if the call goes through a vHQ, `est` also for a trace. OP_FIRST: the stream is
 * the first argument. OP_STRUCT: one argument points to a struct that is kept by value. OP_SYNC: no
 * stream argument; the call is on the legacy or the thread's default stream, and never deferred.
 * _CUT, OP_STRUCT: a statement may change the call `c` on the stream `s` before it is made.
 */
#ifndef CUTIN_SHIM_WRAP_OP_H
#define CUTIN_SHIM_WRAP_OP_H

#include "shim/lookup/each.h"
#include "shim/path/call.h"
#include "shim/path/external_wait.h"
#include "shim/objects/memory.h"

/* For `est`: the estimate of a copy. The copy's bytes are noted too, for other uses. */
#define OP_COPY(n, on_device) (c.bytes = (n), estimate_copy_ns(n, on_device))
#define OP_UPLOAD(n)          (c.bytes = (n), estimate_upload_ns(n)) /* it may be from the host */

/* Of a call that is copied as it is. */
#define OP_COPIED(run_, a) .now = run_, .run = run_, .args = a, .req.bytes = sizeof(*(a))
#define OP_CALL(sym)       struct call c = {OP_COPIED(sym##_run, &a), .name = #sym};

/* `...`: the arguments of the call, but for its stream. In a stream without a queue it goes at
 * once, if it may. */
#define OP_BODY(sym, flags_, est_, cut_, ...)                                                      \
    struct sym##_args a = {.stream = stream, __VA_ARGS__};                                         \
    struct shim_stream *s = call_stream(&a.stream, ptds);                                          \
    struct call_inline at_once = {.flags = VHQ_MUST_INLINE};                                       \
    if (call_inline_begin(&at_once, s))                                                            \
        return call_inline_end(&at_once, s, (CUresult)sym##_run(&a));                              \
    OP_CALL(sym)                                                                                   \
    if (s && s->q)                                                                                 \
        c.req.flags = (flags_);                                                                    \
    if (s && (s->q || trace_on()))                                                                 \
        c.req.est_ns = (est_);                                                                     \
    cut_ return call_on(&c, s);

/* The arguments of a call, and a function that replays it by `call_`. */
#define OP_RUN(sym, call_, ...) OP_RUN_WATCHED(sym, false, call_, __VA_ARGS__)
/* The same for a call that waits for the outside if `waits_` says so (external_wait.h). */
#define OP_RUN_WATCHED(sym, waits_, call_, ...)                                                    \
    struct sym##_args {                                                                            \
        CUstream stream;                                                                           \
        EACH(OP_FIELD, __VA_ARGS__)                                                                \
    };                                                                                             \
    static int sym##_run(void *payload)                                                            \
    {                                                                                              \
        struct sym##_args *a = payload;                                                            \
        struct watch *watched = (waits_) ? external_wait_begin(a->stream) : NULL;                  \
        CUresult r = call_;                                                                        \
        if (watched)                                                                               \
            external_wait_end(watched);                                                            \
        return (int)r;                                                                             \
    }

/* A call has freed memory: what is known of addresses may be wrong from now on. */
static inline CUresult op_freed(CUresult r)
{
    if (!MUTANT(ranges_stale))
        memory_forget();
    return r;
}

/* Makes a call that is not deferred, in its turn, and leaves no record in a trace. */
static inline CUresult op_turn(int (*now)(void *), void *args, uint32_t flags, bool ptds)
{
    struct call c = {.now = now, .args = args, .req = {.flags = VHQ_UNCOUNTED | flags}};
    return call_on(&c, call_stream(args, ptds));
}

#define OP_NOTHING
#define OP_LAST(sym, flags_, est_, ...) OP_LAST_CUT(sym, flags_, est_, OP_NOTHING, __VA_ARGS__)
#define OP_LAST_CUT(sym, flags_, est_, cut_, ...)                                                  \
    OP_RUN(sym, REAL(sym)(EACH(OP_USE, __VA_ARGS__) a->stream), __VA_ARGS__)                       \
    BOTH(sym, __VA_ARGS__, (CUstream, stream))                                                     \
    {                                                                                              \
        OP_BODY(sym, flags_, est_, cut_, EACH(OP_INIT, __VA_ARGS__))                               \
    }

#define OP_FIRST(sym, flags_, est_, ...)                                                           \
    OP_RUN(sym, REAL(sym)(a->stream EACH(OP_USE_, __VA_ARGS__)), __VA_ARGS__)                      \
    BOTH(sym, (CUstream, stream), __VA_ARGS__)                                                     \
    {                                                                                              \
        OP_BODY(sym, flags_, est_, OP_NOTHING, EACH(OP_INIT, __VA_ARGS__))                         \
    }

#define OP_STRUCT(sym, type, flags_, est_, cut_)                                                   \
    OP_RUN(sym, REAL(sym)(&a->op, a->stream), (type, op))                                          \
    BOTH(sym, (const type *, op), (CUstream, stream))                                              \
    {                                                                                              \
        if (!op)                                                                                   \
            return REAL(sym)(op, stream_normal(stream, ptds));                                     \
        OP_BODY(sym, flags_, est_, cut_, .op = *op)                                                \
    }

/* `waits`: the call returns when its work is complete, so the stream is idle if it has bytes. */
#define OP_SYNC(sym, waits_, est_, ...) OP_SYNC_CUT(sym, waits_, est_, OP_NOTHING, __VA_ARGS__)
#define OP_SYNC_CUT(sym, waits_, est_, cut_, ...)                                                  \
    OP_RUN(sym, OP_SYNC_CALL(sym, EACH(OP_USE_, __VA_ARGS__)), (bool, ptds), __VA_ARGS__)          \
    BOTH_WITH(sym, _ptds, __VA_ARGS__)                                                             \
    {                                                                                              \
        struct sym##_args a = {.ptds = ptds, EACH(OP_INIT, __VA_ARGS__)};                          \
        struct shim_stream *s = call_stream(&a.stream, ptds);                                      \
        OP_CALL(sym)                                                                               \
        c.req.est_ns = (est_);                                                                     \
        c.waits = waits_;                                                                          \
        cut_ return call_sync(&c, s);                                                              \
    }
#define OP_SYNC_CALL(sym, ...)                                                                     \
    (a->ptds ? REAL(sym##_ptds)(OP_COMMAS(__VA_ARGS__)) : REAL(sym)(OP_COMMAS(__VA_ARGS__)))

#endif
