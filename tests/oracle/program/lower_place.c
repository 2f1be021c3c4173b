/*
 * lower_place.c - lowers the intents about memory and kernels of some context or device while the
 * calling thread is elsewhere (see program.h): freeing, registering, mapping, attributes.
 */
#include "model.h"

#include <string.h>

/* ---- freeing --------------------------------------------------------------------------------- */

/* Orders what the free does not wait for: work of contexts to which the memory does not belong. */
static bool order_foreign(struct model *m, int thread, int buffer, uint32_t r)
{
    int host = HOSTS + thread;
    if (buffer < OTHER_DEVICE)
        return order_access_of(m, thread, host, buffer, true, OTHER, GREEN, r);
    return order_access_of(m, thread, host, buffer, true, MAIN, OTHER, r) &&
           order_access_of(m, thread, host, buffer, true, GREEN, STREAMS, r);
}

/* The free waits for the memory's context, and for the green ones of that. */
static void op_free(struct model *m, struct op op)
{
    int host = HOSTS + op.thread, base = op.dst < OTHER_DEVICE ? MAIN : OTHER;
    for (int s = 0; s < STREAMS; s++)
        if ((stream_base(s) == OTHER) == (base == OTHER))
            clock_join(m->now[host], known_clock(m, op.thread, s));
    clock_step(m, host);
    note_access(m, host, op.dst, true);
    op.stream = (uint8_t)base;
    struct op *freed = model_emit(m, op);
    memcpy(freed->clock, m->now[host], sizeof(freed->clock));
}

/* What the new memory contains is not defined, so this fills it. */
static void op_fill(struct model *m, struct op op, int stream)
{
    bool by_host = op.dst >= PINNED && op.dst < PAGEABLE;
    int timeline = by_host ? HOSTS + op.thread : stream;
    op.kind = by_host ? OP_HOST_WRITE : OP_MEMSET32;
    op.stream = (uint8_t)(by_host ? MAIN : stream);
    op.where = WHERE_OWN;
    if (by_host) {
        clock_step(m, timeline);
        buffer_seed(m->mem[op.dst], op.a);
    } else {
        model_issue(m, op.thread, stream);
        run_on_model(m, &op);
    }
    note_access(m, timeline, op.dst, true);
    model_emit(m, op);
}

/* Adds a kernel that uses this buffer. lower_data counts the primary context's device buffers and
 * then the pinned ones; in the other context the pinned ones and then that context's. */
static void use(struct model *m, struct op op, int buffer, const uint32_t *r)
{
    uint32_t q[8];
    memcpy(q, r, sizeof(q));
    q[1] = (uint32_t)(buffer < PAGEABLE ? buffer : PAGEABLE - PINNED + buffer - OTHER_DEVICE);
    op.kind = OP_MIX;
    op.where = WHERE_OWN;
    lower_data(m, op, q);
}

/* Memory is freed while work uses it, by a thread that may be in another context or in none. The
 * memory that replaces it may have the same address. */
bool lower_renew(struct model *m, struct op op, const uint32_t *r)
{
    int stream = op.stream, buffer = pick_buffer(m, r[1], stream_base(stream) == OTHER ? O : D | H);
    if (buffer < 0 || buffer_in_graph(m, buffer) || !claim(&m->buffer_owner[buffer], op.thread) ||
        !claim(&m->stream_owner[stream], op.thread) || !order_foreign(m, op.thread, buffer, r[5]))
        return false;
    if (m->p->contexts > 1 && r[6] % 2)
        op.where = WHERE_ELSEWHERE;
    use(m, op, buffer, r);
    op.dst = (uint8_t)buffer;
    op_free(m, op);
    op_fill(m, op, stream);
    if (m->p->threads > 1) /* so that no thread puts the old address into a graph */
        model_barrier(m);
    return true;
}

/* ---- registering ----------------------------------------------------------------------------- */

/* Adds a copy from this pageable buffer. lower_data counts the pinned ones, then the pageable
 * ones. */
static void copy_from(struct model *m, struct op op, int buffer, const uint32_t *r)
{
    uint32_t q[8];
    memcpy(q, r, sizeof(q));
    q[2] = (uint32_t)(buffer - PINNED);
    op.kind = OP_H2D;
    op.where = WHERE_OWN;
    lower_data(m, op, q);
}

static void write_to(struct model *m, struct op op, int buffer, const uint32_t *r)
{
    uint32_t q[8];
    memcpy(q, r, sizeof(q));
    q[1] = (uint32_t)(buffer - PINNED);
    op.kind = OP_HOST_WRITE;
    op.stream = MAIN;
    op.where = WHERE_OWN;
    lower_host(m, op, q);
}

/* Registered memory is copied in the device's time, other memory during the call. So the second
 * copy must be over when the caller writes there. */
static bool unpin(struct model *m, struct op op, const uint32_t *r)
{
    struct op copy = op;
    copy_from(m, copy, op.dst, r);
    if (!order_access(m, op.thread, HOSTS + op.thread, op.dst, true, r[5]))
        return false;
    clock_step(m, HOSTS + op.thread);
    note_access(m, HOSTS + op.thread, op.dst, true);
    op.stream = MAIN;
    model_emit(m, op);
    m->pinned[op.dst - PAGEABLE] = false;
    copy_from(m, copy, op.dst, r);
    write_to(m, copy, op.dst, r);
    return true;
}

bool lower_pin(struct model *m, struct op op, const uint32_t *r)
{
    int buffer = PAGEABLE + (int)(r[1] % (POOLED - PAGEABLE));
    if (m->pinned[buffer - PAGEABLE] == (op.kind == OP_PIN))
        buffer = PAGEABLE + (buffer + 1 - PAGEABLE) % (POOLED - PAGEABLE);
    bool *pinned = &m->pinned[buffer - PAGEABLE];
    if (*pinned == (op.kind == OP_PIN) || !claim(&m->buffer_owner[buffer], op.thread))
        return false;
    op.dst = (uint8_t)buffer;
    if (op.kind == OP_UNPIN)
        return unpin(m, op, r);
    op.stream = MAIN;
    *pinned = true;
    model_emit(m, op);
    return true;
}

/* ---- mapping --------------------------------------------------------------------------------- */

/* Makes a mapping, or another call that waits for nothing, while a stream waits for the caller. A
 * call that waited for the stream would wait for ever. */
bool lower_map(struct model *m, struct op op, const uint32_t *r)
{
    enum op_kind call = op.kind;
    if (!words_order(m->p) || m->order_words == ORDER_WORDS ||
        !claim(&m->stream_owner[op.stream], op.thread))
        return false;
    op.flag = (uint8_t)m->order_words++;
    op.a = 1 + (r[3] & 0xff);
    op.kind = OP_ORDER_WAIT;
    model_issue(m, op.thread, op.stream);
    model_emit(m, op);
    op.stream = MAIN;
    op.kind = call;
    model_emit(m, op);
    op.kind = OP_ORDER_SET;
    model_emit(m, op);
    return true;
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* Launches the library's kernel with much shared memory, in the context of the stream. */
static void launch_much(struct model *m, struct op op, const uint32_t *r)
{
    bool other = stream_base(op.stream) == OTHER;
    bool much =
        m->function[other].set ? m->function[other].much : m->much[m->p->devices > 1 && other];
    op.kind = much ? OP_MIX_MUCH : OP_BAD_SHARED;
    op.a = r[3] | 1;
    op.b = r[4];
    op.flag = 0;
    if (much)
        lower_data(m, op, r);
    else
        model_emit(m, op);
}

/* A library's kernel is one for all devices. How much shared memory it may have is set for each
 * device; for its function it is set for each context. It is not documented which of them counts in
 * a green context. op.flag: set the function's, and the kernel's to the opposite. */
bool lower_allow(struct model *m, struct op op, const uint32_t *r)
{
    bool other = stream_base(op.stream) == OTHER, function = !m->p->green && r[5] & 1;
    int device = m->p->devices > 1 ? (int)(function ? other : r[1] & 1) : 0;
    if (!claim(&m->kernel_owner, op.thread) || !claim(&m->stream_owner[op.stream], op.thread))
        return false;
    op.a = r[2] % 3 != 0;
    op.b = (uint32_t)device;
    op.flag = function;
    m->much[device] = function ? !op.a : op.a;
    if (function) {
        m->function[other].set = true;
        m->function[other].much = op.a;
    }
    struct op allow = op;
    if (function)
        allow.where = WHERE_OWN;
    model_emit(m, allow);
    for (uint32_t i = 0; i < 1 + r[6] % 3; i++)
        launch_much(m, op, r);
    op.stream = (uint8_t)(other ? CREATED : OTHER + CREATED);
    if (m->p->devices > 1 && claim(&m->stream_owner[op.stream], op.thread))
        launch_much(m, op, r);
    return true;
}
