/*
 * lower.c - turns intents into ops that are free of data races (see program.h).
 */
#include "model.h"

#include <string.h>

enum { LONG_NS = 200000 };

static int pick(uint32_t r, int first, int count)
{
    return first + (int)(r % (uint32_t)count);
}

static int pick_stream(uint32_t r, int thread)
{
    int s = pick(r, 0, 2 + OTHER - CREATED);
    if (s == 0)
        return LEGACY;
    return s == 1 ? PER_THREAD + thread : CREATED + s - 2;
}

static int pick_other_stream(uint32_t r, int thread)
{
    int s = pick(r, 0, 2 + OTHER_CREATED);
    if (s == 0)
        return OTHER + LEGACY;
    return s == 1 ? OTHER + PER_THREAD + thread : OTHER + CREATED + s - 2;
}

/* The per-thread streams of the green context are not used. */
static int pick_green_stream(uint32_t r)
{
    int s = pick(r, 0, 1 + GREEN_CREATED);
    return s == 0 ? GREEN + LEGACY : GREEN + CREATED + s - 1;
}

/* What each data op reads and writes. */
struct operands {
    unsigned dst, src; /* buffer kinds; 0 = no operand */
    bool reads_dst;    /* read-modify-write */
    bool sync;         /* the host waits for it */
    bool legacy;       /* always on the legacy (or, by variant, the per-thread) stream */
};

static const struct operands operands[OP_KIND_COUNT] = {
    [OP_MIX] = {D | A | H, 0, true, false, false},
    [OP_MIX_EXTRA] = {D | A, 0, true, false, false},
    [OP_MIX_EX] = {D | A, 0, true, false, false},
    [OP_MIX_COOP] = {D, 0, true, false, false},
    [OP_MIX_EVENT] = {D, 0, true, false, false},
    [OP_MIX_PASSING] = {D, 0, true, false, false},
    [OP_MIX_MUCH] = {D, 0, true, false, false},
    [OP_MIX_AWAIT] = {D | A, 0, true, false, false},
    [OP_POOL_LOOP] = {D | A, 0, true, false, false},
    [OP_FILL] = {D | A, 0, false, false, false},
    [OP_COPY_KERNEL] = {D | A | H, D | A | H, false, false, false},
    [OP_H2D] = {D | A, H | G, false, false, false},
    [OP_D2H] = {H | G, D | A, false, false, false},
    [OP_D2D] = {D | A, D | A, false, false, false},
    [OP_COPY_ANY] = {D | A | H | G, D | A | H, false, false, false},
    [OP_COPY_2D] = {D | A | H, D | A | H | G, false, false, false},
    [OP_COPY_3D] = {D | A, D | A | H, false, false, false},
    [OP_COPY_BATCH] = {D | A, D | A | H, false, false, false},
    [OP_COPY_PEER] = {D | O, D | O, false, false, false},
    [OP_COPY_3D_PEER] = {D | O, D | O, false, false, false},
    [OP_MEMSET8] = {D | A, 0, false, false, false},
    [OP_MEMSET16] = {D | A, 0, false, false, false},
    [OP_MEMSET32] = {D | A, 0, false, false, false},
    [OP_MEMSET2D] = {D | A, 0, false, false, false},
    [OP_SYNC_H2D] = {D, H | G, false, true, true},
    [OP_SYNC_D2H] = {H | G, D, false, true, true},
    [OP_SYNC_D2D] = {D, D, false, false, true},
    [OP_SYNC_ANY] = {D | H | G, D | H | G, false, true, true},
    [OP_SYNC_MEMSET] = {D, 0, false, false, true},
    [OP_HOST_FUNC] = {H, 0, true, false, false},
    [OP_CALLBACK] = {H, 0, true, false, false},
};

/* A context's memory is used in that context only, and pools only in the primary one. Pinned memory
 * is portable. Copies between peers name their contexts. */
static unsigned kinds_in(int base, const struct op *op, unsigned kinds)
{
    if (op->kind == OP_COPY_PEER || op->kind == OP_COPY_3D_PEER)
        return kinds;
    return base != OTHER ? kinds : (kinds & (H | G)) | (kinds & D ? O : 0);
}

static bool on_device_alone(int buffer)
{
    return (buffer >= DEVICE && buffer < PINNED) || buffer >= OTHER_DEVICE;
}

/* Whether the calling thread accesses it during the call, not the device in its own time. */
static bool by_host(const struct model *m, int buffer)
{
    return buffer >= PAGEABLE && buffer < POOLED && !m->pinned[buffer - PAGEABLE];
}

bool lower_data(struct model *m, struct op op, const uint32_t *r)
{
    const struct operands *o = &operands[op.kind];
    int thread = op.thread, base = stream_base(op.stream);
    int dst = pick_buffer(m, r[1], kinds_in(base, &op, o->dst));
    int src = o->src ? pick_buffer(m, r[2], kinds_in(base, &op, o->src)) : -1;
    if (dst < 0 || (o->src && (src < 0 || src == dst)))
        return false;
    op.dst = (uint8_t)dst;
    op.src = (uint8_t)(src < 0 ? 0 : src);
    if (base == GREEN && o->legacy)
        op.variant &= (uint8_t)~1u;
    if (o->legacy)
        op.stream = (uint8_t)(base + (op.variant & 1 ? PER_THREAD + thread : LEGACY));
    int s = op.stream;
    if (!claim(&m->stream_owner[s], thread) || !claim(&m->buffer_owner[dst], thread) ||
        (src >= 0 && !claim(&m->buffer_owner[src], thread)))
        return false;
    bool host_side = by_host(m, dst), host_read = src >= 0 && by_host(m, src);
    if (m->p->forms >= FORMS_PLACES) /* what the thread knows comes before its next command there */
        clock_join(m->now[s], m->now[HOSTS + thread]);
    if (!order_access(m, thread, s, dst, true, r[5]) ||
        (src >= 0 && !order_access(m, thread, s, src, false, r[6])))
        return false;
    if (host_side && !order_access(m, thread, HOSTS + thread, dst, true, r[5]))
        return false;
    if (host_read && !order_access(m, thread, HOSTS + thread, src, false, r[5]))
        return false;
    model_issue(m, thread, s);
    note_access(m, s, dst, true);
    if (src >= 0)
        note_access(m, s, src, false);
    run_on_model(m, &op);
    model_emit(m, op);
    /* A synchronous copy ends before it returns, and so does a pageable device-to-host copy. A
     * pageable source has been read when the call returns. */
    bool pageable = host_side || host_read;
    bool on_device = on_device_alone(dst) && on_device_alone(src);
    if (o->sync && !on_device && (!host_read || host_side))
        clock_join(m->now[HOSTS + thread], m->now[s]);
    else if (pageable && host_side)
        clock_join(m->now[HOSTS + thread], m->now[s]);
    if (host_read && !host_side) {
        m->access[src].reads[s] = 0;
        clock_step(m, HOSTS + thread);
        note_access(m, HOSTS + thread, src, false);
    }
    return true;
}

bool lower_host(struct model *m, struct op op, const uint32_t *r)
{
    int buffer = pick_buffer(m, r[1], H | G), host = HOSTS + op.thread;
    bool write = op.kind == OP_HOST_WRITE;
    if (!claim(&m->buffer_owner[buffer], op.thread) ||
        !order_access(m, op.thread, host, buffer, write, r[5]))
        return false;
    op.dst = (uint8_t)buffer;
    clock_step(m, host);
    note_access(m, host, buffer, write);
    if (write)
        buffer_seed(m->mem[buffer], op.a);
    else
        op.expect = buffer_hash(m->mem[buffer]);
    model_emit(m, op);
    return true;
}

/* "Done" means that what the event's clock says has happened. */
static void op_event_query(struct model *m, struct op op)
{
    struct op *query = model_emit(m, op);
    memset(query->clock, 0, sizeof(query->clock));
    if (m->event[op.event].recorded)
        memcpy(query->clock, m->event[op.event].clock, sizeof(query->clock));
}

bool lower_event(struct model *m, struct op op, const uint32_t *r)
{
    int thread = op.thread, base = stream_base(op.stream) == OTHER ? OTHER : MAIN;
    /* A wait may be for an event of the other context. */
    if (op.kind == OP_WAIT && m->p->contexts > 1 && r[6] % 4 == 0)
        base = base == MAIN ? OTHER : MAIN;
    int event = base == MAIN ? (int)(r[1] % MAIN_EVENTS)
                             : MAIN_EVENTS + (int)(r[1] % (EVENTS - MAIN_EVENTS));
    if (!claim(&m->event_owner[event], thread))
        return false;
    op.event = (uint8_t)event;
    switch (op.kind) {
    case OP_RECORD:
    case OP_WAIT:
        if (!claim(&m->stream_owner[op.stream], thread))
            return false;
        if (op.kind == OP_RECORD)
            op_record(m, thread, event, op.stream, op.variant);
        else
            op_wait(m, thread, op.stream, event, op.variant);
        return true;
    case OP_EVENT_SYNC:
    case OP_EVENT_POLL:
        op_event_wait(m, op.kind, thread, event);
        return true;
    case OP_EVENT_QUERY:
        op.must_be_done =
            !m->event[event].recorded ||
            (!m->event[event].by_context && clock_told(m, thread, m->event[event].clock));
        op_event_query(m, op);
        return true;
    case OP_EVENT_DESTROY:
        if (event_in_graph(m, event))
            return false;
        /* Often there is a record that may still be buffered. */
        if (r[6] % 4 && claim(&m->stream_owner[op.stream], thread))
            op_record(m, thread, event, op.stream, op.variant);
        m->event[event].recorded = false;
        m->anew_event[event] = true;
        op.stream = (uint8_t)base; /* the event that replaces it is not of a green context */
        break;
    default:
        break;
    }
    model_emit(m, op);
    return true;
}

/* Whether no other thread, whose order with this wait for the stream is not known, makes the stream
 * wait by a wait of the context. */
static bool waits_alone(const struct program *p, uint32_t wait)
{
    for (uint32_t i = wait; i-- > 0 && p->ops[i].kind != OP_BARRIER;)
        if (p->ops[i].thread != p->ops[wait].thread &&
            op_makes_wait(&p->ops[i], p->ops[wait].stream))
            return false;
    return true;
}

/* Whether the last op with a stream was to wait for it. If its work is known complete only by way
 * of another stream, a query may still find a record on its way, or one of cutin's markers. */
static bool stream_settled(const struct program *p, int stream)
{
    for (uint32_t i = p->op_count; i-- > 0;) {
        enum op_kind kind = p->ops[i].kind;
        if (op_makes_wait(&p->ops[i], stream))
            return false;
        if (p->ops[i].stream == stream)
            return (kind == OP_STREAM_SYNC || kind == OP_STREAM_POLL) && waits_alone(p, i);
    }
    return false;
}

/* Adds work that still runs when the next calls are made. Often all else is known complete. */
static bool long_mix(struct model *m, struct op op, const uint32_t *r)
{
    op.kind = OP_MIX;
    op.where = WHERE_OWN;
    op.ns = LONG_NS;
    if (r[6] & 2)
        op_context_sync(m, op.thread, stream_base(op.stream) == OTHER ? OTHER : MAIN);
    return lower_data(m, op, r);
}

/* "Done" of the legacy stream includes the blocking streams. */
static void op_stream_query(struct model *m, struct op op)
{
    bool legacy = stream_role(op.stream) == LEGACY;
    clock_vec clock;
    memcpy(clock, m->now[op.stream], sizeof(clock));
    op.must_be_done = !legacy && stream_settled(m->p, op.stream) && clock_told(m, op.thread, clock);
    if (legacy)
        legacy_follows(m, op.thread, op.stream, clock);
    struct op *query = model_emit(m, op);
    memcpy(query->clock, clock, sizeof(query->clock));
}

/* The thread asks for the legacy stream of the op's context, if no other thread has that stream. */
static void legacy_query(struct model *m, struct op op)
{
    op.kind = OP_STREAM_QUERY;
    op.where = WHERE_OWN;
    op.stream = (uint8_t)(stream_base(op.stream) + LEGACY);
    if (claim(&m->stream_owner[op.stream], op.thread))
        op_stream_query(m, op);
}

bool lower_stream(struct model *m, struct op op, const uint32_t *r)
{
    int thread = op.thread, s = op.stream, role = stream_role(s);
    if ((op.kind == OP_STREAM_DESTROY || op.kind == OP_HOLD) && role < CREATED)
        return false;
    if (!claim(&m->stream_owner[s], thread) || (op.kind == OP_STREAM_DESTROY && m->asked[s]))
        return false;
    if (op.kind == OP_STREAM_SYNC || op.kind == OP_STREAM_POLL) {
        op_stream_wait(m, op.kind, thread, s, op.variant);
        return true;
    }
    if (op.kind == OP_STREAM_QUERY) {
        op_stream_query(m, op);
        return true;
    }
    /* The work of a destroyed stream goes on, and the stream that replaces it has no order with it.
     * But the model keeps the clock. So what CUDA does not promise must be ordered: the new stream
     * waits for an event that was recorded just before. */
    if (op.kind == OP_STREAM_DESTROY) {
        int event = free_event(m, thread, s, 0);
        if (event < 0)
            return false;
        if (r[6] & 1)
            long_mix(m, op, r);
        op_record(m, thread, event, s, op.variant);
        model_emit(m, op);
        if (r[6] & 1)
            legacy_query(m, op);
        op_wait(m, thread, s, event, op.variant);
        m->anew_stream[s] = true;
        return true;
    }
    model_emit(m, op);
    return true;
}

/* A copy of zero bytes has no place in the stream, and says nothing about the work there. */
bool lower_nothing(struct model *m, struct op op, const uint32_t *r)
{
    if (!claim(&m->stream_owner[op.stream], op.thread))
        return false;
    if (r[6] & 1)
        long_mix(m, op, r);
    model_emit(m, op);
    op.kind = OP_STREAM_QUERY;
    op_stream_query(m, op);
    return true;
}

/* A thread gives its own stream some work and ends. The legacy stream follows that work. No other
 * thread can name the stream. So the host waits before it, and also after it, because the next
 * stream in the slot is another thread's. */
bool lower_passing(struct model *m, struct op op, const uint32_t *r)
{
    int base = stream_base(op.stream), legacy = base + LEGACY, passing = base + PASSING;
    int buffer = pick_buffer(m, r[1], base == OTHER ? O : D);
    if (base == GREEN || !claim(&m->stream_owner[legacy], op.thread) ||
        !claim(&m->buffer_owner[buffer], op.thread) ||
        !order_access(m, op.thread, HOSTS + op.thread, buffer, true, r[5]))
        return false;
    if (r[6] & 2)
        op_context_sync(m, op.thread, base);
    op.stream = (uint8_t)passing;
    op.ns = LONG_NS;
    if (!lower_data(m, op, r))
        return false;
    legacy_query(m, op);
    op_stream_wait(m, r[6] & 1 ? OP_STREAM_POLL : OP_STREAM_SYNC, op.thread, legacy, op.variant);
    clock_join(m->now[HOSTS + op.thread], m->now[passing]);
    return true;
}

/* The event's record before this is buffered in another stream. A kernel runs ahead of this. */
static void record_before(struct model *m, struct op op, int event, const uint32_t *r)
{
    int base = stream_base(op.stream), first = base + CREATED;
    struct op held = {.kind = OP_HOLD, .thread = op.thread, .a = 200, .variant = 0};
    int stream = op.stream == first ? first + 1 : first;
    if (!claim(&m->stream_owner[op.stream], op.thread) ||
        !claim(&m->stream_owner[stream], op.thread))
        return;
    held.stream = (uint8_t)stream;
    model_emit(m, held);
    op_record(m, op.thread, event, stream, op.variant);
    long_mix(m, op, r);
}

/* The event means what is ahead of the kernel: it may trigger as soon as the kernel runs. Only
 * events without times may be used. */
bool lower_mix_event(struct model *m, struct op op, const uint32_t *r)
{
    int s = op.stream, event = free_event(m, op.thread, s, r[6]) | 1;
    if (event < 0 || !claim(&m->event_owner[event], op.thread))
        return false;
    op.event = (uint8_t)event;
    if (r[6] >> 10 & 1)
        record_before(m, op, event, r);
    if (!lower_data(m, op, r))
        return false;
    uint32_t *clock = m->event[event].clock;
    memcpy(clock, m->now[s], sizeof(clock_vec));
    clock[s]--;
    clock[TOLD + s]--;
    m->event[event].recorded = m->event[event].by_context = true;
    if (r[6] >> 8 & 1)
        op_event_wait(m, r[6] >> 9 & 1 ? OP_EVENT_POLL : OP_EVENT_SYNC, op.thread, event);
    return true;
}

bool lower_flag(struct model *m, struct op op, const uint32_t *r)
{
    int flag = (int)(r[1] % FLAGS), thread = op.thread, s = op.stream;
    if (program_setting(m->p->seed) == SETTING_NO_MEMOPS || stream_base(s) != MAIN)
        return false;
    for (int i = 0; op.kind == OP_FLAG_WAIT && i < FLAGS && !m->flag[flag].value; i++)
        flag = (flag + 1) % FLAGS;
    if (!claim(&m->flag_owner[flag], thread) || !claim(&m->stream_owner[s], thread))
        return false;
    op.flag = (uint8_t)flag;
    if (op.kind == OP_FLAG_WAIT) {
        if (m->flag[flag].value == 0)
            return false; /* no op will ever write it */
        model_issue(m, thread, s);
        clock_join_seen(m->now[s], m->flag[flag].clock);
        op.a = m->flag[flag].value;
    } else {
        /* The writers of one flag are ordered, or a late small value would hide a large one. */
        for (int w = 0; w < OTHER; w++) {
            if (m->now[s][w] >= m->flag[flag].clock[w] || w == s)
                continue;
            if ((w >= PER_THREAD && w < CREATED && w != PER_THREAD + thread) ||
                !claim(&m->stream_owner[w], thread))
                return false;
            order_after(m, thread, s, w, r[5]);
        }
        model_issue(m, thread, s);
        memcpy(m->flag[flag].clock, m->now[s], sizeof(clock_vec));
        op.a = ++m->flag[flag].value;
    }
    model_emit(m, op);
    return true;
}

bool lower_pool(struct model *m, struct op op, const uint32_t *r)
{
    int buffer = pick(r[1], POOLED, OTHER_DEVICE - POOLED), thread = op.thread, s = op.stream;
    bool alloc = op.kind == OP_ALLOC_ASYNC;
    for (int i = POOLED; i < OTHER_DEVICE && alloc == m->live[buffer]; i++)
        buffer = buffer + 1 < OTHER_DEVICE ? buffer + 1 : POOLED;
    if (stream_base(s) != MAIN || alloc == m->live[buffer] ||
        !claim(&m->buffer_owner[buffer], thread) || !claim(&m->stream_owner[s], thread) ||
        !order_access(m, thread, s, buffer, true, r[5]))
        return false;
    op.dst = (uint8_t)buffer;
    model_issue(m, thread, s);
    note_access(m, s, buffer, true);
    m->live[buffer] = alloc;
    if (alloc)
        for (int i = 0; i < WORDS; i++)
            m->mem[buffer][i] = op.a; /* the runner fills it in stream order */
    model_emit(m, op);
    return true;
}

bool lower_pool_loop(struct model *m, struct op op, const uint32_t *r)
{
    return stream_base(op.stream) == MAIN && lower_data(m, op, r);
}

/* Work that changes no memory. It only has its place in the stream. */
bool lower_plain(struct model *m, struct op op, const uint32_t *r)
{
    (void)r;
    if (!claim(&m->stream_owner[op.stream], op.thread))
        return false;
    model_issue(m, op.thread, op.stream);
    model_emit(m, op);
    return true;
}

/* A call that will be refused still waits for its turn, and a query sees that. */
bool lower_refused(struct model *m, struct op op, const uint32_t *r)
{
    (void)r;
    if (!claim(&m->stream_owner[op.stream], op.thread))
        return false;
    model_emit(m, op);
    return true;
}

/* Orders nothing and claims nothing. It is in the primary context. */
bool lower_quiet(struct model *m, struct op op, const uint32_t *r)
{
    (void)r;
    op.stream = MAIN + LEGACY;
    model_emit(m, op);
    return true;
}

bool lower_barrier(struct model *m, struct op op, const uint32_t *r)
{
    (void)op, (void)r;
    model_barrier(m);
    return true;
}

/* The library's kernels are new afterwards. */
bool lower_library(struct model *m, struct op op, const uint32_t *r)
{
    if (m->p->forms >= FORMS_PLACES && !claim(&m->kernel_owner, op.thread))
        return false;
    memset(m->much, 0, sizeof(m->much));
    memset(m->function, 0, sizeof(m->function));
    return lower_quiet(m, op, r);
}

static int draw_stream(const struct program *p, const uint32_t *r, int thread)
{
    if (p->green && r[7] >> 17 & 1)
        return pick_green_stream(r[0] >> 8);
    bool other = p->contexts > 1 && r[7] >> 16 & 1;
    return other ? pick_other_stream(r[0] >> 8, thread) : pick_stream(r[0] >> 8, thread);
}

/* A call that names its stream or event may be made while another context is current, or none. */
static uint8_t draw_where(const struct program *p, enum op_kind kind, int stream, uint32_t r)
{
    static const uint8_t wheres[8] = {WHERE_ELSEWHERE, WHERE_ELSEWHERE, WHERE_NOWHERE};
    bool whole = kind == OP_CTX_RECORD || kind == OP_CTX_WAIT;
    bool named = whole || op_at_home(kind) || stream_role(stream) >= CREATED;
    return p->forms >= FORMS_PLACES && named && op_moves(kind) ? wheres[r >> 27 & 7] : WHERE_OWN;
}

static bool lower_intent(struct model *m, const struct intent *in)
{
    static bool (*const lower[])(struct model *, struct op, const uint32_t *) = {
#define X(name, lower, run) [OP_##name] = lower_##lower,
        OP_KINDS(X)
#undef X
    };
    const uint32_t *r = in->r;
    int thread = (int)(r[0] % m->p->threads);
    int stream = draw_stream(m->p, r, thread);
    struct op op = {
        .kind = in->kind,
        .thread = (uint8_t)thread,
        .stream = (uint8_t)stream,
        .where = draw_where(m->p, in->kind, stream, r[7]),
        .variant = (uint8_t)(r[7] >> 8),
        .a = r[3] | 1,
        .b = r[4],
        .ns = r[7] % 4 ? 1000 + r[7] % 20000 : 0,
    };
    return lower[in->kind](m, op, r);
}

void program_lower(struct program *p, uint64_t mask)
{
    static _Thread_local struct model m; /* large; one for each thread that lowers */
    memset(&m, 0, sizeof(m));
    m.p = p;
    p->op_count = 0;
    for (int b = 0; b < BUFFERS; b++) {
        m.live[b] = b < POOLED || (b >= OTHER_DEVICE && p->contexts > 1);
        buffer_seed(m.mem[b], (uint32_t)b);
    }
    model_barrier(&m);
    for (uint32_t i = 0; i < p->intent_count; i++) {
        if (!(mask >> i & 1) || p->op_count > MAX_OPS - 64)
            continue;
        if (!lower_intent(&m, &p->intents[i]) && p->threads > 1) {
            model_barrier(&m); /* another thread had claimed it: meet, and try once more */
            lower_intent(&m, &p->intents[i]);
        }
    }
    model_barrier(&m);
    for (int b = 0; b < BUFFERS; b++)
        p->final_hash[b] = m.live[b] ? buffer_hash(m.mem[b]) : 0;
}
