/*
 * program.c - drawing random programs and lowering them to race-free ones (see program.h).
 */
#include "program.h"

#include "recorded.h"

#include <stdio.h>
#include <string.h>

const char *op_kind_name(enum op_kind kind)
{
    static const char *const names[] = {
#define X(name) #name,
        OP_KINDS(X)
#undef X
    };
    return kind < OP_KIND_COUNT ? names[kind] : "?";
}

/* ---- what work does ------------------------------------------------------------------------ */

void buffer_mix(uint32_t *x, uint32_t a, uint32_t b)
{
    for (int i = 0; i < WORDS; i++)
        x[i] = x[i] * a + b;
}

uint64_t buffer_hash(const uint32_t *x)
{
    uint64_t h = 1469598103934665603u;
    for (int i = 0; i < WORDS; i++)
        h = (h ^ x[i]) * 1099511628211u;
    return h;
}

void buffer_seed(uint32_t *x, uint32_t value)
{
    for (int i = 0; i < WORDS; i++)
        x[i] = value + (uint32_t)i * 2654435761u;
}

/* ---- drawing ------------------------------------------------------------------------------- */

static uint64_t next(uint64_t *state) /* splitmix64 */
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* How often each kind is drawn; BARRIER, WAIT and syncs also come from lowering. */
static const struct {
    enum op_kind kind;
    unsigned weight;
} weights[] = {
    {OP_MIX, 30},
    {OP_MIX_EXTRA, 6},
    {OP_MIX_EX, 6},
    {OP_MIX_COOP, 3},
    {OP_FILL, 3},
    {OP_COPY_KERNEL, 6},
    {OP_SPIN, 6},
    {OP_H2D, 6},
    {OP_D2H, 6},
    {OP_D2D, 5},
    {OP_COPY_ANY, 4},
    {OP_COPY_2D, 3},
    {OP_COPY_3D, 3},
    {OP_COPY_BATCH, 3},
    {OP_MEMSET8, 2},
    {OP_MEMSET16, 2},
    {OP_MEMSET32, 3},
    {OP_MEMSET2D, 2},
    {OP_PREFETCH, 1},
    {OP_SYNC_H2D, 3},
    {OP_SYNC_D2H, 3},
    {OP_SYNC_D2D, 2},
    {OP_SYNC_ANY, 2},
    {OP_SYNC_MEMSET, 2},
    {OP_HOST_WRITE, 4},
    {OP_HOST_READ, 5},
    {OP_HOST_FUNC, 4},
    {OP_CALLBACK, 2},
    {OP_HOST_FUNC_CUDA, 1},
    {OP_RECORD, 10},
    {OP_WAIT, 8},
    {OP_EVENT_SYNC, 3},
    {OP_EVENT_POLL, 2},
    {OP_EVENT_QUERY, 4},
    {OP_STREAM_QUERY, 4},
    {OP_STREAM_POLL, 2},
    {OP_STREAM_SYNC, 3},
    {OP_HOLD, 10},
    {OP_CTX_SYNC, 1},
    {OP_ELAPSED, 2},
    {OP_EVENT_DESTROY, 2},
    {OP_STREAM_DESTROY, 2},
    {OP_FLAG_WRITE, 4},
    {OP_FLAG_WAIT, 6},
    {OP_FLAG_BATCH, 1},
    {OP_ALLOC_ASYNC, 4},
    {OP_FREE_ASYNC, 6},
    {OP_CAPTURE, 6},
    {OP_GRAPH_LAUNCH, 12},
    {OP_GRAPH_UPDATE, 4},
    {OP_GRAPH_DESTROY, 1},
    {OP_MODULE_RELOAD, 1},
    {OP_LIBRARY_RELOAD, 1},
    {OP_ALLOC_FREE, 1},
    {OP_SET_ATTRIBUTE, 1},
    {OP_BAD_GRID, 1},
    {OP_BAD_STREAM, 1},
    {OP_BAD_EVENT, 1},
    {OP_BAD_PARAMS, 1},
    {OP_BARRIER, 2},
};

/* A program's theme makes these kinds frequent in it, so that they meet each other. */
enum { THEME_KINDS = 8, THEME_FACTOR = 8 };
static const enum op_kind themes[][THEME_KINDS] = {
    {OP_BARRIER}, /* none */
    {OP_RECORD, OP_WAIT, OP_EVENT_DESTROY, OP_EVENT_POLL, OP_MIX},
    {OP_GRAPH_LAUNCH, OP_GRAPH_UPDATE, OP_GRAPH_DESTROY, OP_CAPTURE},
    {OP_FLAG_WRITE, OP_FLAG_WAIT, OP_FLAG_BATCH, OP_MIX},
    {OP_SYNC_H2D, OP_SYNC_D2H, OP_SYNC_ANY, OP_H2D, OP_D2H, OP_HOST_WRITE, OP_HOST_READ},
    {OP_MODULE_RELOAD, OP_LIBRARY_RELOAD, OP_MIX, OP_STREAM_DESTROY},
    {OP_ALLOC_ASYNC, OP_FREE_ASYNC, OP_MIX, OP_HOST_FUNC},
    {OP_STREAM_POLL, OP_CTX_SYNC, OP_STREAM_SYNC, OP_EVENT_SYNC, OP_MIX, OP_HOST_READ, OP_D2H},
};
enum { THEMES = sizeof themes / sizeof *themes };

static unsigned weight_of(size_t i, unsigned theme)
{
    for (int k = 0; theme && k < THEME_KINDS; k++)
        if (themes[theme][k] == weights[i].kind)
            return weights[i].weight * THEME_FACTOR;
    return weights[i].weight;
}

static enum op_kind draw_kind(uint64_t *state, unsigned theme)
{
    unsigned total = 0;
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++)
        total += weight_of(i, theme);
    unsigned pick = (unsigned)(next(state) % total);
    for (size_t i = 0;; i++) {
        if (pick < weight_of(i, theme))
            return weights[i].kind;
        pick -= weight_of(i, theme);
    }
}

enum setting program_setting(uint64_t seed)
{
    if (seed >= RECORDED_SEED)
        return recorded_setting((unsigned)(seed - RECORDED_SEED));
    return (enum setting)(seed / SETTING_SEEDS % SETTINGS);
}

void program_draw(struct program *p, uint64_t seed)
{
    uint64_t state = seed * 0x2545f4914f6cdd1du + 1;
    memset(p, 0, sizeof *p);
    p->seed = seed;
    if (seed >= RECORDED_SEED) {
        recorded_draw(p, (unsigned)(seed - RECORDED_SEED));
        return;
    }
    p->threads = next(&state) % 3 ? 1 : 2 + (uint32_t)(next(&state) % (THREADS - 1));
    for (int s = CREATED; s < STREAMS; s++) {
        p->stream_flags[s] = next(&state) % 2;
        p->stream_priority[s] = (int8_t) - (int)(next(&state) % 3);
    }
    unsigned theme = (unsigned)(next(&state) % THEMES);
    p->intent_count = 12 + (uint32_t)(next(&state) % (MAX_INTENTS - 12 + 1));
    for (uint32_t i = 0; i < p->intent_count; i++) {
        p->intents[i].kind = draw_kind(&state, theme);
        for (int k = 0; k < 8; k++)
            p->intents[i].r[k] = (uint32_t)next(&state);
    }
}

/* ---- the model ----------------------------------------------------------------------------- */

typedef uint32_t clock_vec[TIMELINES];

struct access {
    uint32_t write_timeline, write_count;
    clock_vec reads;
};

struct model {
    struct program *p;
    clock_vec now[TIMELINES]; /* what each timeline's tail is known to follow */
    clock_vec at_barrier[TIMELINES];
    struct access access[BUFFERS];
    uint32_t mem[BUFFERS][WORDS];
    bool live[BUFFERS];
    struct {
        bool recorded;
        clock_vec clock;
    } event[EVENTS];
    struct {
        uint32_t value;
        clock_vec clock;
    } flag[FLAGS];
    struct op exec[EXECS]; /* kind CAPTURE = instantiated */
    /* Owner of each resource since the last barrier, -1 = nobody yet. */
    int8_t stream_owner[STREAMS], event_owner[EVENTS], flag_owner[FLAGS], exec_owner[EXECS],
        buffer_owner[BUFFERS];
};

static void join(clock_vec into, const clock_vec from)
{
    for (int i = 0; i < TIMELINES; i++)
        if (from[i] > into[i])
            into[i] = from[i];
}

static bool blocking(const struct model *m, int stream)
{
    return stream != LEGACY && !m->p->stream_flags[stream];
}

static struct op *emit(struct model *m, struct op op)
{
    if (m->p->op_count == MAX_OPS)
        return &m->p->ops[MAX_OPS - 1];
    m->p->ops[m->p->op_count] = op;
    return &m->p->ops[m->p->op_count++];
}

/* All threads meet: afterwards any thread may use anything. */
static void barrier(struct model *m)
{
    emit(m, (struct op){.kind = OP_BARRIER});
    clock_vec all = {0};
    for (uint32_t t = 0; t < m->p->threads; t++)
        join(all, m->now[HOSTS + t]);
    for (uint32_t t = 0; t < m->p->threads; t++)
        join(m->now[HOSTS + t], all);
    memcpy(m->at_barrier, m->now, sizeof m->at_barrier);
    memset(m->stream_owner, -1, sizeof m->stream_owner);
    memset(m->event_owner, -1, sizeof m->event_owner);
    memset(m->flag_owner, -1, sizeof m->flag_owner);
    memset(m->exec_owner, -1, sizeof m->exec_owner);
    memset(m->buffer_owner, -1, sizeof m->buffer_owner);
    for (int t = 0; t < THREADS; t++)
        m->stream_owner[PER_THREAD + t] = (int8_t)t;
}

/* Claims a resource for `thread`; false: another thread has it in this epoch. */
static bool claim(int8_t *owner, int thread)
{
    if (*owner == -1)
        *owner = (int8_t)thread;
    return *owner == thread;
}

/* The next command of `stream` is issued by `thread`: what it follows. */
static void issue(struct model *m, int thread, int stream)
{
    join(m->now[stream], m->now[HOSTS + thread]);
    if (stream == LEGACY) {
        for (int s = 1; s < STREAMS; s++)
            if (blocking(m, s))
                join(m->now[LEGACY], m->stream_owner[s] == thread ? m->now[s] : m->at_barrier[s]);
    } else if (blocking(m, stream)) {
        join(m->now[stream],
             m->stream_owner[LEGACY] == thread ? m->now[LEGACY] : m->at_barrier[LEGACY]);
    }
    m->now[stream][stream]++;
}

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

static void note_access(struct model *m, int timeline, int buffer, bool write)
{
    struct access *a = &m->access[buffer];
    if (write) {
        a->write_timeline = (uint32_t)timeline;
        a->write_count = m->now[timeline][timeline];
        memset(a->reads, 0, sizeof a->reads);
    } else {
        a->reads[timeline] = m->now[timeline][timeline];
    }
}

/* ---- ordering ops, drawn or inserted ------------------------------------------------------- */

static void op_record(struct model *m, int thread, int event, int stream, uint8_t variant)
{
    issue(m, thread, stream);
    memcpy(m->event[event].clock, m->now[stream], sizeof(clock_vec));
    m->event[event].recorded = true;
    emit(m, (struct op){.kind = OP_RECORD,
                        .thread = (uint8_t)thread,
                        .stream = (uint8_t)stream,
                        .event = (uint8_t)event,
                        .variant = variant});
}

/* A wait orders its own stream behind the event. That it also takes part in the legacy stream's
 * order is not relied on: the driver may drop a wait that has nothing to wait for. */
static void op_wait(struct model *m, int thread, int stream, int event, uint8_t variant)
{
    join(m->now[stream], m->now[HOSTS + thread]);
    m->now[stream][stream]++;
    if (m->event[event].recorded)
        join(m->now[stream], m->event[event].clock);
    emit(m, (struct op){.kind = OP_WAIT,
                        .thread = (uint8_t)thread,
                        .stream = (uint8_t)stream,
                        .event = (uint8_t)event,
                        .variant = variant});
}

/* A poll asks until the answer is "ready": as good as a synchronisation. */
static void op_stream_wait(struct model *m, enum op_kind kind, int thread, int stream,
                           uint8_t variant)
{
    join(m->now[HOSTS + thread], m->now[stream]);
    emit(m, (struct op){.kind = kind,
                        .thread = (uint8_t)thread,
                        .stream = (uint8_t)stream,
                        .variant = variant});
}

static void op_event_wait(struct model *m, enum op_kind kind, int thread, int event)
{
    if (m->event[event].recorded)
        join(m->now[HOSTS + thread], m->event[event].clock);
    emit(m, (struct op){.kind = kind, .thread = (uint8_t)thread, .event = (uint8_t)event});
}

/* Synchronising the context sees everything issued before the last barrier, and this thread's. */
static void op_context_sync(struct model *m, int thread)
{
    for (int s = 0; s < STREAMS; s++)
        join(m->now[HOSTS + thread],
             m->stream_owner[s] == (int8_t)thread ? m->now[s] : m->at_barrier[s]);
    emit(m, (struct op){.kind = OP_CTX_SYNC, .thread = (uint8_t)thread});
}

/* An event that `thread` may use, near `r`; -1: the others have all of them. */
static int free_event(struct model *m, int thread, uint32_t r)
{
    for (uint32_t i = 0; i < EVENTS; i++)
        if (claim(&m->event_owner[(r + i) % EVENTS], thread))
            return (int)((r + i) % EVENTS);
    return -1;
}

/* Makes `timeline` (a stream used by `thread`, or the thread itself) follow stream `before`. */
static void order_after(struct model *m, int thread, int timeline, int before, uint32_t r)
{
    enum { STREAM_WAIT, CONTEXT_WAIT, EVENT_WAIT, EVENTS_ALONE } how;
    uint8_t variant = (uint8_t)(r >> 8);
    enum op_kind poll = r >> 16 & 1 ? OP_STREAM_POLL : OP_STREAM_SYNC;
    bool host = timeline >= HOSTS;
    int event = free_event(m, thread, r >> 3);
    how = r % 8 < 2            ? STREAM_WAIT
          : r % 8 == 2 && host ? CONTEXT_WAIT
          : host               ? EVENT_WAIT
                               : EVENTS_ALONE;
    if (how == CONTEXT_WAIT) {
        op_context_sync(m, thread);
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

/* Everything that conflicts with an access to `buffer` is ordered before `timeline`. The streams
 * concerned belong to `thread` or to nobody in this epoch: the caller's claim saw to it, because a
 * buffer and the streams that touched it since the barrier have one owner. */
static bool order_access(struct model *m, int thread, int timeline, int buffer, bool write,
                         uint32_t r)
{
    if (may_access(m, timeline, buffer, write))
        return true;
    for (int s = 0; s < STREAMS; s++) {
        const struct access *a = &m->access[buffer];
        bool conflict =
            (a->write_timeline == (uint32_t)s && m->now[timeline][s] < a->write_count) ||
            (write && m->now[timeline][s] < a->reads[s]);
        if (!conflict)
            continue;
        if (s >= PER_THREAD && s < CREATED && s != PER_THREAD + thread)
            return false; /* another thread's own stream: only that thread can name it */
        if (!claim(&m->stream_owner[s], thread))
            return false;
        order_after(m, thread, timeline, s, r);
    }
    return may_access(m, timeline, buffer, write);
}

/* ---- lowering one intent ------------------------------------------------------------------- */

static int pick(uint32_t r, int first, int count)
{
    return first + (int)(r % (uint32_t)count);
}

static int pick_stream(uint32_t r, int thread)
{
    int s = pick(r, 0, 2 + STREAMS - CREATED);
    if (s == 0)
        return LEGACY;
    return s == 1 ? PER_THREAD + thread : CREATED + s - 2;
}

/* Kinds of buffer an operand may be. */
enum { D = 1, H = 2, G = 4, A = 8 }; /* device, pinned, pageable, pooled */

static int pick_buffer(const struct model *m, uint32_t r, unsigned kinds)
{
    static const struct {
        unsigned kind;
        int first, count;
    } range[] = {{D, DEVICE, PINNED - DEVICE},
                 {H, PINNED, PAGEABLE - PINNED},
                 {G, PAGEABLE, POOLED - PAGEABLE},
                 {A, POOLED, BUFFERS - POOLED}};
    int candidates[BUFFERS], n = 0;
    for (size_t k = 0; k < 4; k++)
        for (int b = 0; b < range[k].count; b++)
            if ((kinds & range[k].kind) && m->live[range[k].first + b])
                candidates[n++] = range[k].first + b;
    return n ? candidates[r % (uint32_t)n] : -1;
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
    [OP_FILL] = {D | A, 0, false, false, false},
    [OP_COPY_KERNEL] = {D | A | H, D | A | H, false, false, false},
    [OP_H2D] = {D | A, H | G, false, false, false},
    [OP_D2H] = {H | G, D | A, false, false, false},
    [OP_D2D] = {D | A, D | A, false, false, false},
    [OP_COPY_ANY] = {D | A | H | G, D | A | H, false, false, false},
    [OP_COPY_2D] = {D | A | H, D | A | H | G, false, false, false},
    [OP_COPY_3D] = {D | A, D | A | H, false, false, false},
    [OP_COPY_BATCH] = {D | A, D | A | H, false, false, false},
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

static void run_on_model(struct model *m, const struct op *op)
{
    uint32_t *dst = m->mem[op->dst];
    switch (op->kind) {
    case OP_MIX:
    case OP_MIX_EXTRA:
    case OP_MIX_EX:
    case OP_MIX_COOP:
    case OP_HOST_FUNC:
    case OP_CALLBACK:
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
        memset(dst, (int)(op->a & 0xff), sizeof m->mem[0]);
        break;
    case OP_MEMSET16:
        for (int i = 0; i < WORDS; i++)
            dst[i] = (op->a & 0xffff) * 0x10001u;
        break;
    default: /* the copies */
        memcpy(dst, m->mem[op->src], sizeof m->mem[0]);
        break;
    }
}

static bool lower_data(struct model *m, struct op op, const uint32_t *r)
{
    const struct operands *o = &operands[op.kind];
    int thread = op.thread;
    int dst = pick_buffer(m, r[1], o->dst), src = o->src ? pick_buffer(m, r[2], o->src) : -1;
    if (dst < 0 || (o->src && (src < 0 || src == dst)))
        return false;
    op.dst = (uint8_t)dst;
    op.src = (uint8_t)(src < 0 ? 0 : src);
    if (o->legacy)
        op.stream = op.variant & 1 ? (uint8_t)(PER_THREAD + thread) : LEGACY;
    int s = op.stream;
    if (!claim(&m->stream_owner[s], thread) || !claim(&m->buffer_owner[dst], thread) ||
        (src >= 0 && !claim(&m->buffer_owner[src], thread)))
        return false;
    /* Pageable operands are touched by the calling thread during the call. */
    bool host_side = dst >= PAGEABLE && dst < POOLED;
    bool host_read = src >= PAGEABLE && src < POOLED;
    if (!order_access(m, thread, s, dst, true, r[5]) ||
        (src >= 0 && !order_access(m, thread, s, src, false, r[6])))
        return false;
    if (host_side && !order_access(m, thread, HOSTS + thread, dst, true, r[5]))
        return false;
    if (host_read && !order_access(m, thread, HOSTS + thread, src, false, r[5]))
        return false;
    issue(m, thread, s);
    note_access(m, s, dst, true);
    if (src >= 0)
        note_access(m, s, src, false);
    run_on_model(m, &op);
    emit(m, op);
    /* A synchronous copy ends before it returns; so does a pageable device-to-host copy. A pageable
     * source was consumed when the call returned. */
    bool pageable = host_side || host_read;
    if (o->sync && !(dst < PINNED && src >= 0 && src < PINNED) && (!host_read || host_side))
        join(m->now[HOSTS + thread], m->now[s]);
    else if (pageable && host_side)
        join(m->now[HOSTS + thread], m->now[s]);
    if (host_read && !host_side) {
        m->access[src].reads[s] = 0;
        m->now[HOSTS + thread][HOSTS + thread]++;
        note_access(m, HOSTS + thread, src, false);
    }
    return true;
}

static bool lower_capture(struct model *m, struct op op, const uint32_t *r)
{
    int exec = (int)(r[1] % EXECS), thread = op.thread;
    if (op.stream == LEGACY) /* cannot be captured */
        op.stream = (uint8_t)(PER_THREAD + thread);
    /* While a stream captures, another thread's context synchronisation or legacy-stream call is an
     * error, and may spoil the capture: the others wait meanwhile. */
    if (m->p->threads > 1)
        barrier(m);
    if (!claim(&m->exec_owner[exec], thread) || !claim(&m->stream_owner[op.stream], thread))
        return false;
    static const enum op_kind kinds[] = {OP_MIX,      OP_MIX, OP_COPY_KERNEL,
                                         OP_MEMSET32, OP_D2D, OP_HOST_FUNC};
    op.exec = (uint8_t)exec;
    op.graph_count = (uint8_t)(1 + r[2] % GRAPH_OPS);
    for (int i = 0; i < op.graph_count; i++) {
        uint32_t x = r[3] * 2654435761u + (uint32_t)i * 40503u + r[4];
        struct graph_op *g = &op.graph[i];
        g->kind = kinds[(x >> 4) % 6];
        int dst = pick_buffer(m, x >> 8, g->kind == OP_HOST_FUNC ? H : D);
        int src = pick_buffer(m, x >> 12, D);
        g->dst = (uint8_t)dst;
        g->src = (uint8_t)(src == dst ? (src + 1) % PINNED : src);
        g->a = (x >> 3) | 1;
        g->b = x;
        g->fork = (uint8_t)(i > 0 && (x >> 20) % 3 == 0);
    }
    m->exec[exec] = op;
    emit(m, op);
    if (m->p->threads > 1)
        barrier(m);
    return true;
}

/* An instantiated graph near `r`, or -1. */
static int pick_exec(const struct model *m, uint32_t r)
{
    for (uint32_t i = 0; i < EXECS; i++)
        if (m->exec[(r + i) % EXECS].kind == OP_CAPTURE)
            return (int)((r + i) % EXECS);
    return -1;
}

static bool lower_graph_launch(struct model *m, struct op op, const uint32_t *r)
{
    int exec = pick_exec(m, r[1]), thread = op.thread, s = op.stream;
    if (exec < 0 || !claim(&m->exec_owner[exec], thread) || !claim(&m->stream_owner[s], thread))
        return false;
    const struct op *g = &m->exec[exec];
    bool uses_src[GRAPH_OPS];
    for (int i = 0; i < g->graph_count; i++) {
        uses_src[i] = g->graph[i].kind == OP_COPY_KERNEL || g->graph[i].kind == OP_D2D;
        if (!claim(&m->buffer_owner[g->graph[i].dst], thread) ||
            (uses_src[i] && !claim(&m->buffer_owner[g->graph[i].src], thread)))
            return false;
    }
    for (int i = 0; i < g->graph_count; i++)
        if (!order_access(m, thread, s, g->graph[i].dst, true, r[5]) ||
            (uses_src[i] && !order_access(m, thread, s, g->graph[i].src, false, r[6])))
            return false;
    op.exec = (uint8_t)exec;
    issue(m, thread, s);
    for (int i = 0; i < g->graph_count; i++) {
        struct op step = {.kind = g->graph[i].kind,
                          .dst = g->graph[i].dst,
                          .src = g->graph[i].src,
                          .a = g->graph[i].a,
                          .b = g->graph[i].b};
        note_access(m, s, step.dst, true);
        if (uses_src[i])
            note_access(m, s, step.src, false);
        run_on_model(m, &step);
    }
    emit(m, op);
    return true;
}

/* Changes a and b of the graph's first kernel through the exec. */
static bool lower_graph_update(struct model *m, struct op op, const uint32_t *r)
{
    int exec = pick_exec(m, r[1]);
    if (exec < 0 || !claim(&m->exec_owner[exec], op.thread))
        return false;
    struct op *g = &m->exec[exec];
    if (g->graph[0].kind != OP_MIX)
        return false;
    op.exec = (uint8_t)exec;
    op.dst = g->graph[0].dst;
    g->graph[0].a = op.a;
    g->graph[0].b = op.b;
    emit(m, op);
    return true;
}

static bool lower_host(struct model *m, struct op op, const uint32_t *r)
{
    int buffer = pick_buffer(m, r[1], H | G), host = HOSTS + op.thread;
    bool write = op.kind == OP_HOST_WRITE;
    if (!claim(&m->buffer_owner[buffer], op.thread) ||
        !order_access(m, op.thread, host, buffer, write, r[5]))
        return false;
    op.dst = (uint8_t)buffer;
    m->now[host][host]++;
    note_access(m, host, buffer, write);
    if (write)
        buffer_seed(m->mem[buffer], op.a);
    else
        op.expect = buffer_hash(m->mem[buffer]);
    emit(m, op);
    return true;
}

static bool lower_event(struct model *m, struct op op, const uint32_t *r)
{
    int event = (int)(r[1] % EVENTS), thread = op.thread;
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
        op.must_be_done = true;
        if (m->event[event].recorded)
            for (int i = 0; i < TIMELINES; i++)
                if (m->now[HOSTS + thread][i] < m->event[event].clock[i])
                    op.must_be_done = false;
        break;
    case OP_EVENT_DESTROY:
        m->event[event].recorded = false;
        break;
    default:
        break;
    }
    emit(m, op);
    return true;
}

/* The last thing done with a stream was to wait for it. Where its work is known complete by way of
 * another stream alone, a query may still find a record, or one of cutin's markers, on its way. */
static bool stream_settled(const struct program *p, int stream)
{
    for (uint32_t i = p->op_count; i-- > 0;)
        if (p->ops[i].stream == stream)
            return p->ops[i].kind == OP_STREAM_SYNC || p->ops[i].kind == OP_STREAM_POLL;
    return false;
}

static bool lower_stream(struct model *m, struct op op)
{
    int thread = op.thread, s = op.stream;
    if ((op.kind == OP_STREAM_DESTROY || op.kind == OP_HOLD) && s < CREATED)
        return false;
    if (!claim(&m->stream_owner[s], thread))
        return false;
    if (op.kind == OP_STREAM_SYNC || op.kind == OP_STREAM_POLL) {
        op_stream_wait(m, op.kind, thread, s, op.variant);
        return true;
    }
    if (op.kind == OP_STREAM_QUERY) {
        op.must_be_done = s != LEGACY && stream_settled(m->p, s);
        for (int i = 0; i < TIMELINES; i++)
            if (m->now[HOSTS + thread][i] < m->now[s][i])
                op.must_be_done = false;
    }
    /* A destroyed stream's work goes on; its successor in the slot has no order with it. The model
     * keeps the old clock: what is not promised must be ordered, so wait for it first, half the
     * time through an event recorded just before. */
    if (op.kind == OP_STREAM_DESTROY) {
        int event = -1;
        for (int i = 0; i < EVENTS && event < 0; i++)
            if (claim(&m->event_owner[i], thread))
                event = i;
        if (event < 0)
            return false;
        op_record(m, thread, event, s, op.variant);
        emit(m, op);
        op_wait(m, thread, s, event, op.variant);
        return true;
    }
    emit(m, op);
    return true;
}

static bool lower_flag(struct model *m, struct op op, const uint32_t *r)
{
    int flag = (int)(r[1] % FLAGS), thread = op.thread, s = op.stream;
    if (program_setting(m->p->seed) == SETTING_NO_MEMOPS)
        return false;
    for (int i = 0; op.kind == OP_FLAG_WAIT && i < FLAGS && !m->flag[flag].value; i++)
        flag = (flag + 1) % FLAGS;
    if (!claim(&m->flag_owner[flag], thread) || !claim(&m->stream_owner[s], thread))
        return false;
    op.flag = (uint8_t)flag;
    if (op.kind == OP_FLAG_WAIT) {
        if (m->flag[flag].value == 0)
            return false; /* nobody will ever write it */
        issue(m, thread, s);
        join(m->now[s], m->flag[flag].clock);
        op.a = m->flag[flag].value;
    } else {
        /* Writers of one flag are ordered, or a late small value would hide a large one. */
        for (int w = 0; w < STREAMS; w++) {
            if (m->now[s][w] >= m->flag[flag].clock[w] || w == s)
                continue;
            if ((w >= PER_THREAD && w < CREATED && w != PER_THREAD + thread) ||
                !claim(&m->stream_owner[w], thread))
                return false;
            order_after(m, thread, s, w, r[5]);
        }
        issue(m, thread, s);
        memcpy(m->flag[flag].clock, m->now[s], sizeof(clock_vec));
        op.a = ++m->flag[flag].value;
    }
    emit(m, op);
    return true;
}

static bool lower_pool(struct model *m, struct op op, const uint32_t *r)
{
    int buffer = pick(r[1], POOLED, BUFFERS - POOLED), thread = op.thread, s = op.stream;
    bool alloc = op.kind == OP_ALLOC_ASYNC;
    for (int i = POOLED; i < BUFFERS && alloc == m->live[buffer]; i++)
        buffer = buffer + 1 < BUFFERS ? buffer + 1 : POOLED;
    if (alloc == m->live[buffer] || !claim(&m->buffer_owner[buffer], thread) ||
        !claim(&m->stream_owner[s], thread) || !order_access(m, thread, s, buffer, true, r[5]))
        return false;
    op.dst = (uint8_t)buffer;
    issue(m, thread, s);
    note_access(m, s, buffer, true);
    m->live[buffer] = alloc;
    if (alloc)
        for (int i = 0; i < WORDS; i++)
            m->mem[buffer][i] = op.a; /* the runner fills it in stream order */
    emit(m, op);
    return true;
}

static bool lower_context(struct model *m, struct op op)
{
    if (op.kind == OP_BARRIER) {
        barrier(m);
        return true;
    }
    if (op.kind == OP_CTX_SYNC) {
        op_context_sync(m, op.thread);
        return true;
    }
    /* A call that is refused waits for its turn all the same, and a query sees that. */
    if (op.kind >= OP_BAD_GRID && !claim(&m->stream_owner[op.stream], op.thread))
        return false;
    emit(m, op);
    return true;
}

static bool lower_intent(struct model *m, const struct intent *in)
{
    const uint32_t *r = in->r;
    int thread = (int)(r[0] % m->p->threads);
    struct op op = {
        .kind = in->kind,
        .thread = (uint8_t)thread,
        .stream = (uint8_t)pick_stream(r[0] >> 8, thread),
        .variant = (uint8_t)(r[7] >> 8),
        .a = r[3] | 1,
        .b = r[4],
        .ns = r[7] % 4 ? 1000 + r[7] % 20000 : 0,
    };
    switch (in->kind) {
    case OP_CAPTURE:
        return lower_capture(m, op, r);
    case OP_GRAPH_LAUNCH:
        return lower_graph_launch(m, op, r);
    case OP_GRAPH_UPDATE:
        return lower_graph_update(m, op, r);
    case OP_GRAPH_DESTROY:
        if (pick_exec(m, r[1]) < 0)
            return false;
        op.exec = (uint8_t)pick_exec(m, r[1]);
        if (!claim(&m->exec_owner[op.exec], thread))
            return false;
        m->exec[op.exec].kind = OP_BARRIER;
        emit(m, op);
        return true;
    case OP_HOST_WRITE:
    case OP_HOST_READ:
        return lower_host(m, op, r);
    case OP_RECORD:
    case OP_WAIT:
    case OP_EVENT_SYNC:
    case OP_EVENT_POLL:
    case OP_EVENT_QUERY:
    case OP_ELAPSED:
    case OP_EVENT_DESTROY:
        return lower_event(m, op, r);
    case OP_STREAM_SYNC:
    case OP_STREAM_POLL:
    case OP_STREAM_QUERY:
    case OP_STREAM_DESTROY:
    case OP_HOLD:
        return lower_stream(m, op);
    case OP_FLAG_WRITE:
    case OP_FLAG_WAIT:
    case OP_FLAG_BATCH:
        return lower_flag(m, op, r);
    case OP_ALLOC_ASYNC:
    case OP_FREE_ASYNC:
        return lower_pool(m, op, r);
    case OP_SPIN:
    case OP_PREFETCH:
    case OP_HOST_FUNC_CUDA:
    case OP_SET_ATTRIBUTE:
        if (!claim(&m->stream_owner[op.stream], thread))
            return false;
        if (in->kind != OP_SET_ATTRIBUTE) /* no work: orders nothing */
            issue(m, thread, op.stream);
        emit(m, op);
        return true;
    default:
        return operands[in->kind].dst ? lower_data(m, op, r) : lower_context(m, op);
    }
}

void program_lower(struct program *p, uint64_t mask)
{
    static _Thread_local struct model m; /* large; one per lowering thread */
    memset(&m, 0, sizeof m);
    m.p = p;
    p->op_count = 0;
    for (int b = 0; b < POOLED; b++) {
        m.live[b] = true;
        buffer_seed(m.mem[b], (uint32_t)b);
    }
    barrier(&m);
    for (uint32_t i = 0; i < p->intent_count; i++) {
        if (!(mask >> i & 1) || p->op_count > MAX_OPS - 64)
            continue;
        if (!lower_intent(&m, &p->intents[i]) && p->threads > 1) {
            barrier(&m); /* somebody else had it: meet, and try once more */
            lower_intent(&m, &p->intents[i]);
        }
    }
    barrier(&m);
    for (int b = 0; b < BUFFERS; b++)
        p->final_hash[b] = m.live[b] ? buffer_hash(m.mem[b]) : 0;
}

void program_print(const struct program *p, int fd)
{
    dprintf(fd, "seed %llu, %u threads, %u ops\n", (unsigned long long)p->seed, p->threads,
            p->op_count);
    for (uint32_t i = 0; i < p->op_count; i++) {
        const struct op *o = &p->ops[i];
        dprintf(fd,
                "%4u thread %u %-15s stream %u event %u flag %u exec %u dst %u src %u "
                "variant %u a %u b %u ns %llu\n",
                i, o->thread, op_kind_name(o->kind), o->stream, o->event, o->flag, o->exec, o->dst,
                o->src, o->variant, o->a, o->b, (unsigned long long)o->ns);
        for (int g = 0; g < o->graph_count; g++)
            dprintf(fd, "       captured %-12s dst %u src %u a %u b %u\n",
                    op_kind_name(o->graph[g].kind), o->graph[g].dst, o->graph[g].src, o->graph[g].a,
                    o->graph[g].b);
    }
}
