/*
 * timeline.c - what runs when on the shared devices. device_advance() goes from event to event (an
 * op ends, a slice ends, a switch ends, an op is submitted) and at each does what that allows:
 *
 *   - Streams are in order: only a stream's head can start, once its dependencies are done.
 *   - A GPU runs kernels of one context at a time. Contexts take turns by time slice, but only when
 *     another one has a kernel to run; a context with none gives the GPU up at once. A kernel whose
 *     slice ends is paused where it is.
 *   - Kernels of one context run side by side where their SMs fit: by stream priority, then by
 *     order of submission. One that does not fit waits, and so do those behind it, as on real
 *     hardware, where it would get the next free SMs. So nothing starves.
 *   - Kernels that run side by side share the memory bandwidth, and take longer if it is short.
 *   - A resident kernel runs piece by piece. At the end of each its owner says how long the next
 *     one is. In between it keeps its SMs, and its context keeps the GPU.
 *   - Copies run on the copy engine of their direction, whichever context has the SMs. While both
 *     directions of the link are in use, each is slower.
 *   - Streams of a context may share a hardware queue. While one of them waits at a memop wait,
 *     what was submitted later to the others does not start.
 */
#include "tools/simgpu/device/timeline.h"
#include "tools/simgpu/device/resident_op.h"

#include <string.h>

/* The streams that have something to do, gathered once per call. */
struct view {
    struct device_shared *sh;
    uint32_t count;
    bool handed; /* a stream may be waiting at a memop wait */
    struct device_stream *streams[DEVICE_STREAMS];
};

static void view_fill(struct view *v, struct device_shared *sh)
{
    v->sh = sh;
    v->count = 0;
    v->handed = false;
    for (uint32_t i = 0; i < sh->streams_used; i++) {
        struct device_stream *s = &sh->streams[i];
        if (!s->id || s->head > s->tail)
            continue;
        v->streams[v->count++] = s;
        v->handed |= stream_op(sh, s, s->head)->state == OP_HANDED;
    }
}

/* NULL if the stream has run dry since the view was made. */
static struct op *head_of(const struct view *v, const struct device_stream *s)
{
    return s->head <= s->tail ? stream_op(v->sh, s, s->head) : NULL;
}

static const struct device_context *context_of(const struct view *v, const struct device_stream *s)
{
    return &v->sh->contexts[s->context];
}

/* ---- one op ---------------------------------------------------------------------------------- */

static bool op_ready(struct device_shared *sh, const struct op *op)
{
    if (op->submit_ns > sh->clock)
        return false;
    for (int i = 0; i < DEVICE_DEPENDENCIES; i++) {
        struct op_point p = op->after[i];
        const struct device_stream *s = &sh->streams[p.stream % DEVICE_STREAMS];
        if (p.stream != 0 && s->id == p.stream && (int32_t)((uint32_t)s->head - p.seq) <= 0)
            return false;
    }
    return true;
}

/* The front end runs a hardware queue's commands in order, so it stops at a memop wait. */
static bool queue_blocked(const struct view *v, const struct device_stream *s, const struct op *op)
{
    for (uint32_t i = 0; v->handed && s->queue && i < v->count; i++) {
        const struct device_stream *other = v->streams[i];
        const struct op *head = head_of(v, other);
        if (other != s && other->queue == s->queue && other->context == s->context && head &&
            head->kind == OP_WAIT && head->state == OP_HANDED && head->ticket < op->ticket)
            return true;
    }
    return false;
}

static bool head_ready(const struct view *v, const struct device_stream *s, const struct op *op)
{
    return !context_of(v, s)->off && op_ready(v->sh, op) && !queue_blocked(v, s, op);
}

/* Ends the op at the clock. The ticket becomes the order of its end, in which effects run. */
static void head_finish(struct view *v, struct device_stream *s, struct op *op)
{
    if (op->state == OP_QUEUED)
        op->start_ns = v->sh->clock;
    op->end_ns = v->sh->clock;
    op->ticket = ++v->sh->tickets;
    device_publish();
    op->state = OP_DONE;
    device_publish();
    s->head++;
}

static void op_start(struct view *v, struct op *op)
{
    if (op->state == OP_QUEUED)
        op->start_ns = v->sh->clock;
    op->end_ns = v->sh->clock + op->cost_ns;
    device_publish();
    op->state = OP_RUNNING;
}

static void op_pause(struct view *v, struct op *op)
{
    uint64_t left = op->end_ns > v->sh->clock ? op->end_ns - v->sh->clock : 0;
    op->cost_ns = op->slowed ? left * SLOWED_ONE / op->slowed : left;
    op->slowed = 0;
    device_publish();
    op->state = OP_PAUSED;
}

/* If the process is killed between the two stores, the end of one kernel is slightly wrong. */
static void op_set_slowed(struct view *v, struct op *op, uint32_t slowed)
{
    uint32_t before = op->slowed ? op->slowed : SLOWED_ONE;
    if (slowed == before || op->end_ns <= v->sh->clock)
        return;
    op->end_ns = v->sh->clock + (op->end_ns - v->sh->clock) * slowed / before;
    device_publish();
    op->slowed = (uint16_t)slowed;
}

static void op_hand(struct view *v, struct op *op)
{
    device_publish();
    op->state = OP_HANDED;
    v->handed = true;
}

/* Whether the op runs, or could run if it had the resources. */
static bool op_runnable(const struct view *v, const struct device_stream *s, const struct op *op)
{
    if (context_of(v, s)->off)
        return false;
    return op->state == OP_RUNNING || op->state == OP_PAUSED || resident_handed(op) ||
           (op->state == OP_QUEUED && head_ready(v, s, op));
}

/* ---- ops that need no resources -------------------------------------------------------------- */

/* In an aborted context every op ends at once, unless its owner is carrying it out. */
static bool head_abort(struct view *v, struct device_stream *s, struct op *op)
{
    if (op->flags & OP_ALWAYS)
        return false;
    if (op->kind == OP_HOST && op->state == OP_HANDED)
        return false;
    head_finish(v, s, op);
    return true;
}

/* Takes the head as far as it goes without SMs or a copy engine. True if it ended. */
static bool head_step(struct view *v, struct device_stream *s)
{
    struct op *op = head_of(v, s);
    if (!op || op->state == OP_DONE)
        return false;
    if (context_of(v, s)->aborted && head_abort(v, s, op))
        return true;
    if (op->state != OP_QUEUED || op->kind == OP_KERNEL || op->kind == OP_COPY ||
        !head_ready(v, s, op))
        return false;
    if (op->cost_ns) {
        op_start(v, op);
        return false;
    }
    if (op->kind == OP_MARK) {
        head_finish(v, s, op);
        return true;
    }
    op->start_ns = v->sh->clock;
    op_hand(v, op);
    return false;
}

/* An op that ends can free the heads of other streams, so this repeats until nothing changes. */
static void heads_settle(struct view *v)
{
    bool moved = true;
    while (moved) {
        moved = false;
        for (uint32_t i = 0; i < v->count; i++)
            while (head_step(v, v->streams[i]))
                moved = true;
    }
}

/* ---- which op starts ------------------------------------------------------------------------- */

static bool more_urgent(const struct device_stream *a, const struct op *x,
                        const struct device_stream *b, const struct op *y)
{
    return a->priority != b->priority ? a->priority < b->priority : x->ticket < y->ticket;
}

static bool head_matches(const struct view *v, const struct device_stream *s, enum op_kind kind,
                         uint32_t gpu)
{
    struct op *op = head_of(v, s);
    return op && op->kind == kind && context_of(v, s)->gpu == gpu;
}

/* The next head of this kind to start on the GPU: for kernels of one context (slot + 1), for copies
 * of one engine. */
static struct op *next_to_start(struct view *v, enum op_kind kind, uint32_t gpu, uint32_t context,
                                uint8_t engine)
{
    struct device_stream *best = NULL;
    for (uint32_t i = 0; i < v->count; i++) {
        struct device_stream *s = v->streams[i];
        if (!head_matches(v, s, kind, gpu) || (context && s->context != context - 1))
            continue;
        struct op *op = head_of(v, s);
        if (op->state != OP_QUEUED || op->engine != engine || !head_ready(v, s, op))
            continue;
        if (!best || more_urgent(s, op, best, head_of(v, best)))
            best = s;
    }
    return best ? head_of(v, best) : NULL;
}

static void copies_running(const struct view *v, uint32_t gpu,
                           struct op *running[DEVICE_COPY_ENGINES])
{
    for (int e = 0; e < DEVICE_COPY_ENGINES; e++)
        running[e] = NULL;
    for (uint32_t i = 0; i < v->count; i++) {
        struct op *op = head_of(v, v->streams[i]);
        if (head_matches(v, v->streams[i], OP_COPY, gpu) && op->state == OP_RUNNING)
            running[op->engine] = op;
    }
}

static void copies_start(struct view *v, uint32_t gpu)
{
    struct op *running[DEVICE_COPY_ENGINES];
    uint32_t percent = v->sh->params.link_percent;
    copies_running(v, gpu, running);
    for (uint8_t e = 0; e < DEVICE_COPY_ENGINES; e++) {
        struct op *op = running[e] ? NULL : next_to_start(v, OP_COPY, gpu, 0, e);
        if (op)
            op_start(v, running[e] = op);
    }
    bool both = running[ENGINE_TO_DEVICE] && running[ENGINE_TO_HOST] && percent;
    for (int e = ENGINE_TO_DEVICE; e <= ENGINE_TO_HOST; e++)
        if (running[e])
            op_set_slowed(v, running[e], both ? SLOWED_ONE * 100 / percent : SLOWED_ONE);
}

/* What a kernel asks of the bandwidth, in units of SLOWED_ONE. */
static uint32_t bandwidth_asked(const struct view *v, const struct op *op)
{
    const struct device_params *p = &v->sh->params;
    uint64_t asked = (uint64_t)SLOWED_ONE * op->sms * p->memory_percent / (100u * p->sms);
    return asked < SLOWED_ONE ? (uint32_t)asked : SLOWED_ONE;
}

/* Each running kernel gets its part of the bandwidth. */
static void bandwidth_share(struct view *v, uint32_t gpu, uint32_t context)
{
    struct op *running[DEVICE_STREAMS];
    uint32_t n = 0, asked = 0;
    if (!v->sh->params.memory_percent)
        return;
    for (uint32_t i = 0; i < v->count; i++) {
        struct device_stream *s = v->streams[i];
        if (!head_matches(v, s, OP_KERNEL, gpu) || s->context != context - 1 ||
            !kernel_on_sms(head_of(v, s)))
            continue;
        running[n++] = head_of(v, s);
        asked += bandwidth_asked(v, head_of(v, s));
    }
    if (asked > UINT16_MAX)
        asked = UINT16_MAX;
    for (uint32_t i = 0; i < n; i++)
        op_set_slowed(v, running[i], asked > SLOWED_ONE ? asked : SLOWED_ONE);
}

static void kernels_start(struct view *v, uint32_t gpu, uint32_t context)
{
    uint32_t taken = 0, own = v->sh->contexts[context - 1].sms;
    uint32_t sms = own ? own : v->sh->params.sms;
    for (uint32_t i = 0; i < v->count; i++) {
        struct device_stream *s = v->streams[i];
        if (!head_matches(v, s, OP_KERNEL, gpu) || s->context != context - 1)
            continue;
        struct op *op = head_of(v, s);
        if (op->state == OP_PAUSED)
            op_start(v, op);
        if (resident_handed(op) && op->flags & OP_AWAY)
            resident_return(op, v->sh->clock);
        if (kernel_on_sms(op))
            taken += op->sms;
    }
    struct op *op;
    while ((op = next_to_start(v, OP_KERNEL, gpu, context, 0)) && taken + op->sms <= sms) {
        op_start(v, op);
        taken += op->sms;
    }
    bandwidth_share(v, gpu, context);
}

/* Stops kernels of contexts that do not have the GPU. It finds them by looking, so it also
 * completes a switch whose process was killed. */
static void kernels_pause(struct view *v, uint32_t gpu)
{
    const struct device_gpu *g = &v->sh->gpus[gpu];
    bool switching = g->switch_end_ns > v->sh->clock;
    for (uint32_t i = 0; i < v->count; i++) {
        struct device_stream *s = v->streams[i];
        bool on = s->context == g->current - 1 && !switching && !context_of(v, s)->off;
        if (on || !head_matches(v, s, OP_KERNEL, gpu) || !kernel_on_sms(head_of(v, s)))
            continue;
        if (head_of(v, s)->state == OP_RUNNING)
            op_pause(v, head_of(v, s));
        else
            resident_leave(head_of(v, s), v->sh->clock);
    }
}

/* ---- time slices ----------------------------------------------------------------------------- */

/* A context keeps the GPU while its front end has something to do between two kernels. */
static bool head_in_front_end(const struct view *v, const struct device_stream *s)
{
    const struct op *op = head_of(v, s);
    return op && (op->kind == OP_MARK || op->kind == OP_WAIT) && op->state == OP_RUNNING;
}

/* The stream waits at a memop wait, and its context gets its slices all the same. */
static bool head_keeps_slices(const struct view *v, const struct device_stream *s, uint32_t gpu)
{
    return v->handed && v->sh->params.waits_keep_slices && head_matches(v, s, OP_WAIT, gpu) &&
           head_of(v, s)->state == OP_HANDED;
}

static void runnable_contexts(const struct view *v, uint32_t gpu, bool runnable[DEVICE_CONTEXTS])
{
    memset(runnable, 0, DEVICE_CONTEXTS);
    for (uint32_t i = 0; i < v->count; i++) {
        const struct device_stream *s = v->streams[i];
        if (head_matches(v, s, OP_KERNEL, gpu) && op_runnable(v, s, head_of(v, s)))
            runnable[s->context] = true;
        if (((s->context + 1 == v->sh->gpus[gpu].current && head_in_front_end(v, s)) ||
             head_keeps_slices(v, s, gpu)) &&
            !context_of(v, s)->off)
            runnable[s->context] = true;
    }
}

/* The next runnable context in turn after the current one, as slot + 1; 0: there is no other. */
static uint32_t context_next(const struct device_gpu *g, const bool runnable[DEVICE_CONTEXTS])
{
    for (uint32_t i = 0; i < DEVICE_CONTEXTS; i++) {
        uint32_t slot = (g->current + i) % DEVICE_CONTEXTS;
        if (runnable[slot] && slot + 1 != g->current)
            return slot + 1;
    }
    return 0;
}

static uint64_t slice_of(const struct device_shared *sh, uint32_t context)
{
    uint64_t own = sh->contexts[context - 1].slice_ns;
    return own ? own : sh->params.timeslice_ns;
}

static void gpu_switch(struct device_shared *sh, struct device_gpu *g, uint32_t context)
{
    uint64_t start = sh->clock + (g->current ? sh->params.switch_ns : 0);
    g->switch_end_ns = start;
    g->slice_end_ns = start + slice_of(sh, context);
    device_publish();
    g->current = context;
}

/* A context that is alone on the GPU gets slice after slice without an event. A context that comes
 * later finds it somewhere within one. */
static void slice_renew(struct device_shared *sh, struct device_gpu *g)
{
    uint64_t slice = slice_of(sh, g->current);
    if (g->slice_end_ns == 0)
        g->slice_end_ns = sh->clock + slice;
    else if (g->slice_end_ns < sh->clock)
        g->slice_end_ns = sh->clock + slice - (sh->clock - g->slice_end_ns) % slice;
}

static void gpu_settle(struct view *v, uint32_t gpu)
{
    struct device_shared *sh = v->sh;
    struct device_gpu *g = &sh->gpus[gpu];
    if (g->switch_end_ns > sh->clock) {
        kernels_pause(v, gpu);
        return;
    }
    bool runnable[DEVICE_CONTEXTS];
    runnable_contexts(v, gpu, runnable);
    bool mine = g->current && runnable[g->current - 1];
    if (mine)
        slice_renew(sh, g);
    else
        g->slice_end_ns = 0;
    bool over = g->slice_end_ns <= sh->clock;
    uint32_t next = over ? context_next(g, runnable) : 0;
    if (next)
        gpu_switch(sh, g, next);
    kernels_pause(v, gpu);
    if (g->current && g->switch_end_ns <= sh->clock && !sh->contexts[g->current - 1].off)
        kernels_start(v, gpu, g->current);
}

/* ---- from event to event --------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A slice matters only while another context wants the GPU. */
static uint64_t gpu_next_event(const struct view *v, uint32_t gpu)
{
    const struct device_gpu *g = &v->sh->gpus[gpu];
    if (!g->current)
        return DEVICE_NEVER;
    if (g->switch_end_ns > v->sh->clock)
        return g->switch_end_ns;
    if (g->slice_end_ns <= v->sh->clock)
        return DEVICE_NEVER;
    bool runnable[DEVICE_CONTEXTS];
    runnable_contexts(v, gpu, runnable);
    return context_next(g, runnable) ? g->slice_end_ns : DEVICE_NEVER;
}

static uint64_t next_event(const struct view *v)
{
    uint64_t next = DEVICE_NEVER;
    for (uint32_t i = 0; i < v->count; i++) {
        const struct op *op = head_of(v, v->streams[i]);
        if (!op)
            continue;
        if (op->state == OP_RUNNING)
            next = least(next, op->end_ns);
        else if (op->state == OP_QUEUED && op->submit_ns > v->sh->clock)
            next = least(next, op->submit_ns);
    }
    for (uint32_t gpu = 0; gpu < v->sh->params.gpus; gpu++)
        next = least(next, gpu_next_event(v, gpu));
    return next;
}

static void running_finish(struct view *v)
{
    for (uint32_t i = 0; i < v->count; i++) {
        struct op *op = head_of(v, v->streams[i]);
        if (!op || op->state != OP_RUNNING || op->end_ns > v->sh->clock)
            continue;
        if (op->kind == OP_WAIT || op->flags & OP_RESIDENT)
            op_hand(v, op);
        else
            head_finish(v, v->streams[i], op);
    }
}

void device_advance(struct device *d, uint64_t now)
{
    struct view v;
    view_fill(&v, d->shared);
    for (;;) {
        running_finish(&v);
        heads_settle(&v);
        for (uint32_t gpu = 0; gpu < d->shared->params.gpus; gpu++) {
            copies_start(&v, gpu);
            gpu_settle(&v, gpu);
        }
        uint64_t next = next_event(&v);
        if (next > now)
            return;
        if (next > d->shared->clock)
            d->shared->clock = next;
    }
}

/* ---- what clients do ------------------------------------------------------------------------- */

uint64_t device_submit(struct device *d, uint32_t stream, const struct op *op)
{
    struct device_stream *s = device_stream(d, stream);
    if (s->id != stream || s->tail - s->reaped >= DEVICE_RING)
        return 0;
    struct op *slot = stream_op(d->shared, s, s->tail + 1);
    *slot = *op;
    slot->state = OP_QUEUED;
    slot->slowed = 0;
    slot->ticket = ++d->shared->tickets;
    device_publish();
    return ++s->tail;
}

void device_resolve(struct device *d, uint32_t stream, uint64_t seq, uint64_t end_ns)
{
    struct device_stream *s = device_stream(d, stream);
    if (s->id != stream || s->head != seq)
        return;
    struct view v = {.sh = d->shared};
    struct op *op = stream_op(d->shared, s, seq);
    if (op->state != OP_HANDED)
        return;
    if (end_ns > d->shared->clock)
        d->shared->clock = end_ns;
    head_finish(&v, s, op);
}

void device_context_abort(struct device *d, uint32_t context)
{
    struct device_context *c = &d->shared->contexts[context % DEVICE_CONTEXTS];
    if (c->id == context)
        c->aborted = 1;
}

void device_repair(struct device_shared *sh)
{
    for (uint32_t i = 0; i < sh->streams_used; i++) {
        struct device_stream *s = &sh->streams[i];
        while (s->id && s->head <= s->tail && stream_op(sh, s, s->head)->state == OP_DONE)
            s->head++;
    }
}

/* ---- when engines must look again ------------------------------------------------------------ */

/* A lower bound for the time when the current context runs dry, by what its streams have queued. It
 * spares the engines of waiting contexts from waking at each of its kernels. For a resident kernel
 * the bound is the end of the slice. If such a kernel ends sooner, its owner makes the event
 * earlier, and that wakes the engines. */
static uint64_t dry_earliest(const struct view *v, uint32_t gpu)
{
    enum { LOOK = 32 };
    const struct device_gpu *g = &v->sh->gpus[gpu];
    uint64_t dry = v->sh->clock;
    for (uint32_t i = 0; i < v->count; i++) {
        const struct device_stream *s = v->streams[i];
        if (!head_matches(v, s, OP_KERNEL, gpu) || s->context != g->current - 1 ||
            context_of(v, s)->off)
            continue;
        const struct op *head = head_of(v, s);
        if (kernel_on_sms(head) && head->flags & OP_RESIDENT && g->slice_end_ns > dry)
            dry = g->slice_end_ns;
        uint64_t end = head->state == OP_RUNNING ? head->end_ns : v->sh->clock + head->cost_ns;
        for (uint64_t seq = s->head + 1; seq <= s->tail && seq < s->head + LOOK; seq++) {
            const struct op *op = stream_op(v->sh, s, seq);
            if (op->kind != OP_KERNEL && op->kind != OP_MARK)
                break;
            end += op->cost_ns;
        }
        if (end > dry)
            dry = end;
    }
    return dry;
}

/* The earliest time at which a kernel that does not run can end. */
static uint64_t kernel_due(const struct view *v, const struct device_stream *s, const struct op *op,
                           uint64_t turn[DEVICE_GPUS])
{
    uint32_t gpu = context_of(v, s)->gpu;
    const struct device_gpu *g = &v->sh->gpus[gpu];
    if (s->context == g->current - 1) /* it waits for SMs of its own context, or for the switch */
        return g->switch_end_ns > v->sh->clock ? g->switch_end_ns + op->cost_ns : DEVICE_NEVER;
    if (!turn[gpu]) {
        uint64_t dry = dry_earliest(v, gpu);
        turn[gpu] = (g->slice_end_ns ? least(dry, g->slice_end_ns) : dry) + 1;
        if (turn[gpu] < g->switch_end_ns)
            turn[gpu] = g->switch_end_ns;
    }
    return turn[gpu] + v->sh->params.switch_ns + op->cost_ns;
}

static uint64_t head_due(const struct view *v, const struct device_stream *s,
                         uint64_t turn[DEVICE_GPUS])
{
    const struct op *op = head_of(v, s);
    if (op->state == OP_RUNNING)
        return op->end_ns;
    if (op->state == OP_HANDED)
        return op->flags & OP_TAKEN ? DEVICE_NEVER : 0;
    if (!op_runnable(v, s, op))
        return DEVICE_NEVER;
    if (op->kind == OP_KERNEL)
        return kernel_due(v, s, op, turn);
    if (op->kind != OP_COPY)
        return DEVICE_NEVER;
    struct op *running[DEVICE_COPY_ENGINES];
    copies_running(v, context_of(v, s)->gpu, running);
    const struct op *before = running[op->engine];
    return before ? before->end_ns + op->cost_ns : DEVICE_NEVER;
}

void device_due_all(struct device_shared *sh, uint64_t due[DEVICE_CLIENTS])
{
    uint64_t turn[DEVICE_GPUS] = {0};
    struct view v;
    view_fill(&v, sh);
    for (int i = 0; i < DEVICE_CLIENTS; i++)
        due[i] = DEVICE_NEVER;
    for (uint32_t i = 0; i < sh->streams_used; i++)
        if (sh->streams[i].id && sh->streams[i].reaped + 1 < sh->streams[i].head)
            due[sh->streams[i].client] = 0;
    for (uint32_t i = 0; i < v.count; i++) {
        uint32_t client = v.streams[i]->client;
        if (due[client] > 0)
            due[client] = least(due[client], head_due(&v, v.streams[i], turn));
    }
}

uint64_t device_due(struct device *d, uint32_t client)
{
    uint64_t due[DEVICE_CLIENTS];
    device_due_all(d->shared, due);
    return due[client];
}
