/*
 * run.c - executes a program through the CUDA Driver API (see run.h).
 *
 * One thread for each thread of the program goes through the list of ops and executes its own. They
 * meet at BARRIER ops. Only what the driver returns and what memory contains is recorded. Other
 * files compare it.
 */
#include "machine.h"

#include <string.h>

#include "trace.h"

CUresult run_barrier(const struct op *o, uint32_t index)
{
    (void)o, (void)index;
    pthread_barrier_wait(&m.meet);
    return CUDA_SUCCESS;
}

/* By the context's handle, or, for the green one, also by its own functions. */
static CUresult context_event(const struct op *o)
{
#if CUDA_VERSION >= 12050
    int base = stream_base(o->stream);
    CUcontext ctx = base == MAIN ? m.ctx : base == OTHER ? m.other : m.green_ctx;
    CUevent event = m.event[o->event];
    bool green = base == GREEN && (o->variant & 4);
    if (o->kind == OP_CTX_RECORD)
        return green ? cuGreenCtxRecordEvent(m.green, event) : cuCtxRecordEvent(ctx, event);
    return green ? cuGreenCtxWaitEvent(m.green, event) : cuCtxWaitEvent(ctx, event);
#else
    (void)o;
    return CUDA_ERROR_NOT_SUPPORTED;
#endif
}

CUresult run_context(const struct op *o, uint32_t index)
{
    if (o->kind == OP_CTX_SYNC)
        return cuCtxSynchronize();
    if (o->kind != OP_CTX_RENEW)
        return context_event(o);
    CUresult r = machine_other_close();
    r = r ? r : machine_other_open();
    trace_stream(index, m.stream_id[OTHER]);
    return r;
}

static CUresult execute(const struct op *o, uint32_t index)
{
    static CUresult (*const run[])(const struct op *, uint32_t) = {
#define X(name, lower, run) [OP_##name] = run_##run,
        OP_KINDS(X)
#undef X
    };
    if (trace_wants(o))
        trace_stream(index, stream_id(o));
    return run[o->kind](o, index);
}

/* Created streams can be named in every context. */
static void know_stream(const struct op *o)
{
    if (trace_wants(o) && stream_role(o->stream) >= CREATED)
        stream_id(o);
}

/* Executes it in the context of its stream, or in another one. */
static CUresult execute_there(const struct op *o, uint32_t index)
{
    struct place at;
    know_stream(o);
    place_enter(&at, o, op_at_home(o->kind) ? WHERE_OWN : (enum where)o->where);
    CUresult r = execute(o, index);
    place_leave(&at);
    if (r == CUDA_SUCCESS)
        trace_said(o, index);
    return r;
}

static void *thread_main(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    cuCtxSetCurrent(m.ctx);
    for (uint32_t i = 0; i < m.p->op_count; i++) {
        const struct op *o = &m.p->ops[i];
        bool here = o->kind == OP_BARRIER || o->kind == OP_CTX_RENEW;
        if (o->kind != OP_BARRIER && o->thread != me)
            continue;
        m.out->code[i] = (int32_t)(here ? execute : execute_there)(o, i);
        *m.beats = 0;
    }
    return NULL;
}

void run_program(const struct program *p, struct outcome *out, _Atomic uint32_t *beats)
{
    memset(out, 0, sizeof(*out));
    m.p = p;
    m.out = out;
    m.beats = beats;
    if (machine_set_up()) {
        broken("set-up failed");
        out->done = 1;
        return;
    }
    trace_begin();
    pthread_barrier_init(&m.meet, NULL, p->threads);
    pthread_t threads[THREADS];
    for (uintptr_t t = 1; t < p->threads; t++)
        pthread_create(&threads[t], NULL, thread_main, (void *)t);
    thread_main(0);
    for (uintptr_t t = 1; t < p->threads; t++)
        pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&m.meet);
    machine_take_down();
    out->done = 1;
}
