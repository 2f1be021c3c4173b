/*
 * lower_race.c - lowers races: one thread issues work into a stream while another asks for that
 * stream, and for an event in it. What the asking thread was told before it asked must have
 * happened when the answer is "done".
 */
#include "model.h"

enum { NOBODY = -2 };

static bool race_claims(struct model *m, struct op *op, const uint32_t *r)
{
    int base = stream_base(op->stream), thread = op->thread;
    int buffer = pick_buffer(m, r[1], base == OTHER ? O : D);
    if (m->p->threads < 2 || m->races == RACES || stream_role(op->stream) < CREATED ||
        m->anew_stream[op->stream] || !claim(&m->stream_owner[op->stream], thread) ||
        !claim(&m->buffer_owner[buffer], thread) ||
        !order_access(m, thread, op->stream, buffer, true, r[5]))
        return false;
    int event = free_event(m, thread, op->stream, r[6]);
    if (event < 0 || m->anew_event[event])
        return false;
    op->dst = (uint8_t)buffer;
    op->event = (uint8_t)event;
    op->flag = (uint8_t)m->races++;
    return true;
}

static void race_step(struct model *m, struct op op, uint32_t told)
{
    op.kind = OP_MIX;
    op.ns = op.ns ? 1000 + op.ns % 8000 : 0;
    model_issue(m, op.thread, op.stream);
    note_access(m, op.stream, op.dst, true);
    run_on_model(m, &op);
    model_emit(m, op);
    op_record(m, op.thread, op.event, op.stream, op.variant);
    op.kind = OP_TELL;
    op.a = told;
    model_emit(m, op);
}

/* Until the next barrier no thread may claim the event, or destroy the stream. */
bool lower_race(struct model *m, struct op op, const uint32_t *r)
{
    uint32_t steps = 2 + r[2] % 5;
    uint8_t where = op.where;
    op.where = WHERE_OWN;
    if (!race_claims(m, &op, r))
        return false;
    uint8_t asking = (uint8_t)((op.thread + 1 + r[2] / 5 % (m->p->threads - 1)) % m->p->threads);
    for (uint32_t i = 1; i <= steps; i++)
        race_step(m, op, i);
    m->asked[op.stream] = true;
    m->event_owner[op.event] = NOBODY;
    op.kind = OP_ASK;
    op.thread = asking;
    op.where = where;
    op.a = steps;
    model_emit(m, op);
    clock_join(m->now[HOSTS + asking], m->now[op.stream]);
    return true;
}
