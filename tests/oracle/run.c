/*
 * run.c - executing a program through the CUDA Driver API (see run.h).
 *
 * One pthread per program thread walks the op list and executes its own; BARRIER ops are where they
 * meet. Only what the driver returns and what memory holds is recorded: the comparison is
 * elsewhere.
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

CUresult run_context(const struct op *o, uint32_t index)
{
    if (o->kind == OP_CTX_SYNC)
        return cuCtxSynchronize();
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

/* In the second context, which is on the stack of contexts, or instead of the other, meanwhile. */
static CUresult execute_there(const struct op *o, uint32_t index)
{
    CUcontext current;
    bool pushed = (o->variant & 128) && cuCtxPushCurrent_v2(m.other) == CUDA_SUCCESS;
    if (!pushed)
        cuCtxSetCurrent(m.other);
    CUresult r = execute(o, index);
    if (pushed)
        cuCtxPopCurrent_v2(&current);
    else
        cuCtxSetCurrent(m.ctx);
    return r;
}

static void *thread_main(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    cuCtxSetCurrent(m.ctx);
    for (uint32_t i = 0; i < m.p->op_count; i++) {
        const struct op *o = &m.p->ops[i];
        bool there = stream_base(o->stream) == OTHER && o->kind != OP_CTX_RENEW;
        if (o->kind == OP_BARRIER)
            execute(o, i);
        else if (o->thread == me)
            m.out->code[i] = (int32_t)(there ? execute_there : execute)(o, i);
    }
    return NULL;
}

void run_program(const struct program *p, struct outcome *out)
{
    memset(out, 0, sizeof *out);
    m.p = p;
    m.out = out;
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
