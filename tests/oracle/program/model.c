/*
 * model.c - what a program does, told op by op (see model.h).
 */
#include "model.h"

#include <string.h>

static void join(uint32_t *into, const uint32_t *from, int count)
{
    for (int i = 0; i < count; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

void clock_join(clock_vec into, const clock_vec from)
{
    join(into, from, CLOCK_SIZE);
}

void clock_join_seen(clock_vec into, const clock_vec from)
{
    join(into, from, TOLD);
}

void clock_step(struct model *m, int timeline)
{
    m->now[timeline][timeline]++;
    m->now[timeline][TOLD + timeline]++;
}

bool clock_told(const struct model *m, int thread, const clock_vec what)
{
    for (int i = TOLD; i < CLOCK_SIZE; i++)
        if (m->now[HOSTS + thread][i] < what[i])
            return false;
    return true;
}

static bool blocking(const struct model *m, int stream)
{
    return stream_role(stream) != LEGACY && !m->p->stream_flags[stream];
}

struct op *model_emit(struct model *m, struct op op)
{
    if (m->p->op_count == MAX_OPS)
        return &m->p->ops[MAX_OPS - 1];
    memcpy(op.clock, m->now[op.stream], sizeof(op.clock));
    m->p->ops[m->p->op_count] = op;
    return &m->p->ops[m->p->op_count++];
}

void model_barrier(struct model *m)
{
    model_emit(m, (struct op){.kind = OP_BARRIER});
    clock_vec all = {0};
    for (uint32_t t = 0; t < m->p->threads; t++)
        clock_join(all, m->now[HOSTS + t]);
    for (uint32_t t = 0; t < m->p->threads; t++)
        clock_join(m->now[HOSTS + t], all);
    memcpy(m->at_barrier, m->now, sizeof(m->at_barrier));
    memset(m->stream_owner, -1, sizeof(m->stream_owner));
    memset(m->event_owner, -1, sizeof(m->event_owner));
    memset(m->flag_owner, -1, sizeof(m->flag_owner));
    memset(m->exec_owner, -1, sizeof(m->exec_owner));
    memset(m->buffer_owner, -1, sizeof(m->buffer_owner));
    memset(m->asked, 0, sizeof(m->asked));
    memset(m->anew_stream, 0, sizeof(m->anew_stream));
    memset(m->anew_event, 0, sizeof(m->anew_event));
    m->kernel_owner = -1;
    for (int t = 0; t < THREADS; t++) {
        m->stream_owner[MAIN + PER_THREAD + t] = (int8_t)t;
        m->stream_owner[OTHER + PER_THREAD + t] = (int8_t)t;
        m->stream_owner[GREEN + PER_THREAD + t] = (int8_t)t;
    }
}

bool claim(int8_t *owner, int thread)
{
    if (*owner == -1)
        *owner = (int8_t)thread;
    return *owner == thread;
}

int pick_buffer(const struct model *m, uint32_t r, unsigned kinds)
{
    static const struct {
        unsigned kind;
        int first, count;
    } range[] = {{D, DEVICE, PINNED - DEVICE},
                 {H, PINNED, PAGEABLE - PINNED},
                 {G, PAGEABLE, POOLED - PAGEABLE},
                 {A, POOLED, OTHER_DEVICE - POOLED},
                 {O, OTHER_DEVICE, BUFFERS - OTHER_DEVICE}};
    int candidates[BUFFERS], n = 0;
    for (size_t k = 0; k < sizeof(range) / sizeof(*range); k++)
        for (int b = 0; b < range[k].count; b++)
            if ((kinds & range[k].kind) && m->live[range[k].first + b])
                candidates[n++] = range[k].first + b;
    return n ? candidates[r % (uint32_t)n] : -1;
}

const uint32_t *known_clock(const struct model *m, int thread, int stream)
{
    return m->stream_owner[stream] == thread ? m->now[stream] : m->at_barrier[stream];
}

void legacy_follows(const struct model *m, int thread, int base, clock_vec clock)
{
    for (int s = base + 1; s < stream_end(base); s++)
        if (blocking(m, s))
            clock_join(clock, known_clock(m, thread, s));
}

void model_issue(struct model *m, int thread, int stream)
{
    int base = stream_base(stream);
    clock_join(m->now[stream], m->now[HOSTS + thread]);
    if (stream_role(stream) == LEGACY) {
        legacy_follows(m, thread, base, m->now[stream]);
    } else if (blocking(m, stream)) {
        clock_join(m->now[stream], known_clock(m, thread, base + LEGACY));
    }
    clock_step(m, stream);
}

/* ---- accesses ------------------------------------------------------------------------------ */

static bool may_access(const struct model *m, int timeline, int buffer, bool write)
{
    const struct access *a = &m->access[buffer];
    if (m->now[timeline][a->write_timeline] < a->write_count)
        return false;
    if (write)
        for (int i = 0; i < TIMELINES; i++)
            if (m->now[timeline][i] < a->reads[i])
                return false;
    return true;
}

void note_access(struct model *m, int timeline, int buffer, bool write)
{
    struct access *a = &m->access[buffer];
    if (write) {
        a->write_timeline = (uint32_t)timeline;
        a->write_count = m->now[timeline][timeline];
        memset(a->reads, 0, sizeof(a->reads));
    } else {
        a->reads[timeline] = m->now[timeline][timeline];
    }
}

/* In this epoch the streams concerned belong to `thread` or to none. The caller's claim makes sure
 * of that: a buffer, and the streams that touched it since the barrier, have one owner. */
bool order_access_of(struct model *m, int thread, int timeline, int buffer, bool write, int first,
                     int last, uint32_t r)
{
    for (int s = first; s < last; s++) {
        const struct access *a = &m->access[buffer];
        int role = stream_role(s);
        bool conflict =
            (a->write_timeline == (uint32_t)s && m->now[timeline][s] < a->write_count) ||
            (write && m->now[timeline][s] < a->reads[s]);
        if (!conflict)
            continue;
        if (role >= PER_THREAD && role < CREATED && role != PER_THREAD + thread)
            return false; /* the stream of another thread, which only that thread can name */
        if (!claim(&m->stream_owner[s], thread))
            return false;
        order_after(m, thread, timeline, s, r);
    }
    return true;
}

bool order_access(struct model *m, int thread, int timeline, int buffer, bool write, uint32_t r)
{
    return may_access(m, timeline, buffer, write) ||
           (order_access_of(m, thread, timeline, buffer, write, 0, STREAMS, r) &&
            may_access(m, timeline, buffer, write));
}

/* ---- ordering ops, drawn or inserted ------------------------------------------------------- */

void op_record(struct model *m, int thread, int event, int stream, uint8_t variant)
{
    model_issue(m, thread, stream);
    memcpy(m->event[event].clock, m->now[stream], sizeof(clock_vec));
    m->event[event].recorded = true;
    m->event[event].by_context = false;
    model_emit(m, (struct op){.kind = OP_RECORD,
                              .thread = (uint8_t)thread,
                              .stream = (uint8_t)stream,
                              .event = (uint8_t)event,
                              .variant = variant});
}

/* A wait orders its own stream behind the event. The model does not rely on the wait's part in the
 * legacy stream's order, because the driver may drop a wait that has nothing to wait for. */
void op_wait(struct model *m, int thread, int stream, int event, uint8_t variant)
{
    clock_join(m->now[stream], m->now[HOSTS + thread]);
    clock_step(m, stream);
    if (m->event[event].recorded)
        clock_join(m->now[stream], m->event[event].clock);
    model_emit(m, (struct op){.kind = OP_WAIT,
                              .thread = (uint8_t)thread,
                              .stream = (uint8_t)stream,
                              .event = (uint8_t)event,
                              .variant = variant});
}

/* A poll asks until the answer is "ready", so it is as good as a synchronisation. */
void op_stream_wait(struct model *m, enum op_kind kind, int thread, int stream, uint8_t variant)
{
    clock_join(m->now[HOSTS + thread], m->now[stream]);
    model_emit(m, (struct op){.kind = kind,
                              .thread = (uint8_t)thread,
                              .stream = (uint8_t)stream,
                              .variant = variant});
}

void op_event_wait(struct model *m, enum op_kind kind, int thread, int event)
{
    if (m->event[event].recorded)
        clock_join(m->now[HOSTS + thread], m->event[event].clock);
    struct op *op = model_emit(m, (struct op){.kind = kind,
                                              .thread = (uint8_t)thread,
                                              .stream = (uint8_t)event_base(event),
                                              .event = (uint8_t)event});
    memcpy(op->clock, m->now[HOSTS + thread], sizeof(op->clock));
}

void op_context_sync(struct model *m, int thread, int base)
{
    int host = HOSTS + thread;
    for (int s = base; s < stream_end(base); s++)
        clock_join(m->now[host], known_clock(m, thread, s));
    for (int s = GREEN; base == MAIN && s < STREAMS; s++)
        clock_join(m->now[host], known_clock(m, thread, s));
    struct op *op = model_emit(
        m, (struct op){.kind = OP_CTX_SYNC, .thread = (uint8_t)thread, .stream = (uint8_t)base});
    memcpy(op->clock, m->now[host], sizeof(op->clock));
}

/* By a word that one stream writes, and for which the other one, or the host, waits. */
static void op_order_word(struct model *m, int thread, int timeline, int before, uint32_t r)
{
    struct op op = {.kind = OP_ORDER_WRITE,
                    .thread = (uint8_t)thread,
                    .stream = (uint8_t)before,
                    .flag = (uint8_t)m->order_words++,
                    .variant = (uint8_t)(r >> 8),
                    .a = 1 + (r >> 16 & 0xff)};
    model_issue(m, thread, before);
    model_emit(m, op);
    if (timeline >= HOSTS) {
        op.kind = OP_ORDER_POLL;
        clock_join_seen(m->now[timeline], m->now[before]);
    } else {
        op.kind = OP_ORDER_WAIT;
        op.stream = (uint8_t)timeline;
        model_issue(m, thread, timeline);
        clock_join_seen(m->now[timeline], m->now[before]);
    }
    model_emit(m, op);
}

int free_event(struct model *m, int thread, int stream, uint32_t r)
{
    bool main = stream_base(stream) != OTHER;
    uint32_t first = main ? 0 : MAIN_EVENTS, count = main ? MAIN_EVENTS : EVENTS - MAIN_EVENTS;
    for (uint32_t i = 0; i < count; i++)
        if (claim(&m->event_owner[first + (r + i) % count], thread))
            return (int)(first + (r + i) % count);
    return -1;
}

bool words_order(const struct program *p)
{
    return p->forms >= FORMS_WORDS && program_setting(p->seed) != SETTING_NO_MEMOPS;
}

void order_after(struct model *m, int thread, int timeline, int before, uint32_t r)
{
    enum { STREAM_WAIT, CONTEXT_WAIT, EVENT_WAIT, EVENTS_ALONE } how;
    uint8_t variant = (uint8_t)(r >> 8);
    enum op_kind poll = r >> 16 & 1 ? OP_STREAM_POLL : OP_STREAM_SYNC;
    bool host = timeline >= HOSTS;
    if ((r >> 24) % 3 == 0 && m->order_words < ORDER_WORDS && words_order(m->p)) {
        op_order_word(m, thread, timeline, before, r);
        return;
    }
    int event = free_event(m, thread, before, r >> 3);
    how = r % 8 < 2            ? STREAM_WAIT
          : r % 8 == 2 && host ? CONTEXT_WAIT
          : host               ? EVENT_WAIT
                               : EVENTS_ALONE;
    if (how == CONTEXT_WAIT) {
        op_context_sync(m, thread, stream_base(before));
    } else if (how == STREAM_WAIT || event < 0) {
        op_stream_wait(m, poll, thread, before, variant);
    } else {
        op_record(m, thread, event, before, variant);
        if (how == EVENT_WAIT)
            op_event_wait(m, r >> 16 & 1 ? OP_EVENT_POLL : OP_EVENT_SYNC, thread, event);
        else
            op_wait(m, thread, timeline, event, (uint8_t)(r >> 16));
    }
}

/* ---- memory -------------------------------------------------------------------------------- */

void run_on_model(struct model *m, const struct op *op)
{
    uint32_t *dst = m->mem[op->dst];
    switch (op->kind) {
    case OP_MIX:
    case OP_MIX_EXTRA:
    case OP_MIX_EX:
    case OP_MIX_COOP:
    case OP_MIX_EVENT:
    case OP_MIX_PASSING:
    case OP_MIX_MUCH:
    case OP_HOST_FUNC:
    case OP_CALLBACK:
        buffer_mix(dst, op->a, op->b);
        break;
    case OP_MIX_AWAIT:
        for (uint32_t i = 0; i < await_rounds(op->variant); i++)
            buffer_mix(dst, op->a, op->b);
        break;
    case OP_POOL_LOOP:
        for (uint32_t i = 0; i < loop_rounds(op->variant); i++)
            buffer_mix(dst, op->a, op->b);
        break;
    case OP_FILL:
    case OP_MEMSET32:
    case OP_MEMSET2D:
    case OP_SYNC_MEMSET:
        for (int i = 0; i < WORDS; i++)
            dst[i] = op->a;
        break;
    case OP_MEMSET8:
        memset(dst, (int)(op->a & 0xff), sizeof(m->mem[0]));
        break;
    case OP_MEMSET16:
        for (int i = 0; i < WORDS; i++)
            dst[i] = (op->a & 0xffff) * 0x10001u;
        break;
    default: /* the copies */
        memcpy(dst, m->mem[op->src], sizeof(m->mem[0]));
        break;
    }
}
