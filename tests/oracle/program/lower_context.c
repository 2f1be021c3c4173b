/*
 * lower_context.c - lowers the intents about contexts (see program.h): synchronising one, replacing
 * the OTHER one with work pending, a fault there, and events of whole contexts.
 */
#include "model.h"

#include <string.h>

bool lower_context_sync(struct model *m, struct op op, const uint32_t *r)
{
    (void)r;
    op_context_sync(m, op.thread, stream_base(op.stream));
    return true;
}

/* The thread claims the whole context. What the primary context does to its memory is ordered
 * before the thread. No other thread may use the context meanwhile. */
static bool take_context(struct model *m, int thread, uint32_t r)
{
    if (m->p->contexts < 2)
        return false;
    if (m->p->threads > 1)
        model_barrier(m);
    for (int e = MAIN_EVENTS; e < EVENTS; e++)
        if (!claim(&m->event_owner[e], thread))
            return false;
    for (int b = OTHER_DEVICE; b < BUFFERS; b++)
        if (!claim(&m->buffer_owner[b], thread) ||
            !order_access_of(m, thread, HOSTS + thread, b, true, MAIN, OTHER, r) ||
            !order_access_of(m, thread, HOSTS + thread, b, true, GREEN, STREAMS, r))
            return false;
    return true;
}

/* Destroying a context first ends its pending work, as in the driver. The new one has new streams,
 * events and memory. */
static void replace_context(struct model *m, struct op op)
{
    int host = HOSTS + op.thread;
    op.kind = OP_CTX_RENEW;
    op.stream = OTHER;
    for (int s = OTHER; s < GREEN; s++)
        clock_join(m->now[host], m->now[s]);
    for (int e = MAIN_EVENTS; e < EVENTS; e++)
        m->event[e].recorded = false;
    m->function[1].set = false;
    clock_step(m, host);
    for (int b = OTHER_DEVICE; b < BUFFERS; b++) {
        buffer_seed(m->mem[b], (uint32_t)b);
        note_access(m, host, b, true);
    }
    model_emit(m, op);
    if (m->p->threads > 1)
        model_barrier(m);
}

bool lower_context_renew(struct model *m, struct op op, const uint32_t *r)
{
    if (!take_context(m, op.thread, r[5]))
        return false;
    replace_context(m, op);
    return true;
}

/*
 * A launch that touches memory which does not exist. Everything before it in the context is
 * complete, so it is certain what has happened. Until a call waits, any call may report the fault
 * or not. Once one has reported it, all do. Every thread makes calls, before and after that.
 */
bool lower_fault(struct model *m, struct op op, const uint32_t *r)
{
    int threads = (int)m->p->threads;
    if (!take_context(m, op.thread, r[5]))
        return false;
    for (int s = OTHER; s < GREEN; s++) /* also the work of other threads before the barrier */
        clock_join(m->now[HOSTS + op.thread], m->now[s]);
    model_emit(m, (struct op){.kind = OP_CTX_SYNC, .thread = op.thread, .stream = (uint8_t)OTHER});
    op.stream = (uint8_t)(OTHER + CREATED + r[1] % OTHER_CREATED);
    model_emit(m, op);
    for (int known = 0; known < 2; known++) {
        if (threads > 1)
            model_barrier(m);
        for (int t = 0; t < threads; t++)
            model_emit(m, (struct op){.kind = known ? OP_FAULT_KNOWN : OP_FAULT_SEEN,
                                      .thread = (uint8_t)t,
                                      .stream = (uint8_t)OTHER,
                                      .variant = (uint8_t)(op.variant + t),
                                      .b = op.b + (uint32_t)t});
    }
    if (threads > 1)
        model_barrier(m);
    replace_context(m, op);
    return true;
}

/* ---- events of whole contexts ---------------------------------------------------------------- */

/* An event of the context, or, for some waits, of the other context. */
static bool pick_event(struct model *m, struct op *op, const uint32_t *r)
{
    bool other = stream_base(op->stream) == OTHER;
    if (op->kind == OP_CTX_WAIT && m->p->contexts > 1 && r[6] % 4 == 0)
        other = !other;
    uint32_t first = other ? MAIN_EVENTS : 0, count = other ? EVENTS - MAIN_EVENTS : MAIN_EVENTS;
    op->event = (uint8_t)(first + r[1] % count);
    return green_known() && claim(&m->event_owner[op->event], op->thread);
}

/* The record is behind all that was issued before the last barrier, and behind this thread's work.
 * For the primary context that includes its green ones. */
bool lower_context_record(struct model *m, struct op op, const uint32_t *r)
{
    int base = stream_base(op.stream);
    if (!pick_event(m, &op, r))
        return false;
    uint32_t *clock = m->event[op.event].clock;
    memcpy(clock, m->now[HOSTS + op.thread], sizeof(clock_vec));
    for (int s = base; s < stream_end(base); s++)
        clock_join(clock, known_clock(m, op.thread, s));
    for (int s = GREEN; base == MAIN && s < STREAMS; s++)
        clock_join(clock, known_clock(m, op.thread, s));
    m->event[op.event].recorded = m->event[op.event].by_context = true;
    op.stream = (uint8_t)base;
    model_emit(m, op);
    if (r[5] & 1)
        op_event_wait(m, r[5] & 2 ? OP_EVENT_POLL : OP_EVENT_SYNC, op.thread, op.event);
    return true;
}

/* The streams that belong to this thread follow the event from now on. What the other streams do by
 * then is not known. */
static void streams_wait(struct model *m, int thread, int base, const clock_vec clock)
{
    for (int s = base; s < stream_end(base); s++) {
        int role = stream_role(s);
        if ((role == LEGACY || role >= CREATED) && claim(&m->stream_owner[s], thread))
            clock_join(m->now[s], clock);
    }
}

/* Another thread may have asked for such a stream since the last barrier, before this wait or after
 * it. */
static void unsettle(struct program *p, const struct op *wait)
{
    for (uint32_t i = p->op_count; i-- > 0 && p->ops[i].kind != OP_BARRIER;)
        if (p->ops[i].kind == OP_STREAM_QUERY && p->ops[i].thread != wait->thread &&
            op_makes_wait(wait, p->ops[i].stream))
            p->ops[i].must_be_done = false;
}

static void mix_in(struct model *m, struct op op, int stream, const uint32_t *r)
{
    op.kind = OP_MIX;
    op.where = WHERE_OWN;
    op.stream = (uint8_t)stream;
    lower_data(m, op, r);
}

/* Often the event has just been recorded, and another stream then uses what it is behind. */
bool lower_context_wait(struct model *m, struct op op, const uint32_t *r)
{
    int stream = op.stream, base = stream_base(stream);
    if (!pick_event(m, &op, r))
        return false;
    bool same = (r[6] & 2) && stream_role(stream) >= CREATED && base == event_base(op.event) &&
                claim(&m->stream_owner[stream], op.thread);
    if (same) {
        mix_in(m, op, stream, r);
        op_record(m, op.thread, op.event, stream, op.variant);
    }
    if (m->event[op.event].recorded) {
        streams_wait(m, op.thread, base, m->event[op.event].clock);
        if (base == MAIN && m->p->green)
            streams_wait(m, op.thread, GREEN, m->event[op.event].clock);
    }
    op.stream = (uint8_t)base;
    unsettle(m->p, &op);
    model_emit(m, op);
    int next = stream + 1 < stream_end(base) ? stream + 1 : base + CREATED;
    if (same)
        mix_in(m, op, next, r);
    return true;
}
