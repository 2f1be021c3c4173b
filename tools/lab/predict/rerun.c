/*
 * rerun.c - runs recorded programs on a modelled device, event by event (see rerun.h).
 */
#include "rerun.h"
#include "shape.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    COPY_ENGINES = 2,
    LEAST_NS = 1000,      /* left of an op that seems to have waited for all of its time */
    CLOCK_READ_NS = 1000, /* a recorded wait as short as this did not wait */
};
#define NOBODY UINT32_MAX
#define HOST   UINT32_MAX /* an event's op: the host's next call */

/* Heads of streams that may begin, in the order of their calls. */
struct ready {
    uint32_t *op;
    size_t n, room;
};

struct stream {
    uint32_t head, tail; /* NOBODY: empty */
};

struct program {
    struct rerun_job *job;
    struct stream *stream;
    struct call {
        uint32_t next;   /* the op behind it in its stream */
        uint64_t number; /* number of the call, which orders them */
        uint64_t ns;
        uint64_t ready_ns; /* since when it has been at the head of its stream */
    } *call;               /* for each op */
    struct ready kernels, copies;
    size_t at, request;   /* the next op, and the current request */
    size_t outstanding;   /* ops called and not ended */
    size_t running;       /* kernels that run */
    uint64_t last_end_ns; /* of the kernels that run */
    bool waiting, busy;   /* waiting: in a sync or at the end of a request; busy: in a request */
};

struct event {
    uint64_t ns;
    uint32_t program, op;
};

struct state {
    const struct rerun_device *device;
    struct program program[2];
    size_t programs;
    struct event *heap;
    size_t events, event_room;
    uint64_t now_ns, calls;
    uint32_t free_processors, free_engines;
    uint64_t held_since_ns, allowed_ns; /* since when; how much may still begin */
    bool failed;
};

/* ---- events, the earliest first ------------------------------------------------------------- */

static void event_put(struct state *s, uint64_t ns, size_t program, uint32_t op)
{
    size_t i = s->events;

    if (list_grow(&s->heap, &s->event_room, s->events, sizeof(*s->heap)) != 0) {
        s->failed = true;
        return;
    }
    s->events++;
    for (; i && s->heap[(i - 1) / 2].ns > ns; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = (struct event){ns, (uint32_t)program, op};
}

static struct event event_take(struct state *s)
{
    struct event first = s->heap[0], last = s->heap[--s->events];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < s->events) {
        if (child + 1 < s->events && s->heap[child + 1].ns < s->heap[child].ns)
            child++;
        if (s->heap[child].ns >= last.ns)
            break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return first;
}

/* ---- streams -------------------------------------------------------------------------------- */

static void ready_put(struct state *s, struct program *p, uint32_t op)
{
    struct ready *r = p->job->w->op[op].kind == WORKLOAD_KERNEL ? &p->kernels : &p->copies;
    size_t i = r->n;

    p->call[op].ready_ns = s->now_ns;
    if (list_grow(&r->op, &r->room, r->n, sizeof(*r->op)) != 0) {
        s->failed = true;
        return;
    }
    r->n++;
    for (; i && p->call[r->op[i - 1]].number > p->call[op].number; i--)
        r->op[i] = r->op[i - 1];
    r->op[i] = op;
}

static void ready_take(struct ready *r, size_t i)
{
    memmove(&r->op[i], &r->op[i + 1], (--r->n - i) * sizeof(*r->op));
}

static void stream_put(struct state *s, struct program *p, uint32_t op)
{
    struct stream *stream = &p->stream[p->job->w->op[op].stream];

    p->call[op] = (struct call){.next = NOBODY, .number = s->calls++, .ns = s->now_ns};
    p->outstanding++;
    if (stream->head == NOBODY) {
        stream->head = stream->tail = op;
        ready_put(s, p, op);
    } else {
        p->call[stream->tail].next = op;
        stream->tail = op;
    }
}

/* ---- the device ----------------------------------------------------------------------------- */

static bool held(const struct state *s, const struct program *p)
{
    return s->programs > 1 && p == &s->program[0] && s->program[1].busy;
}

/* Work that was in flight when the hold began goes on, as far as the cap had let it go. */
static bool allowed(struct state *s, const struct program *p, uint32_t op)
{
    uint64_t ns = p->job->device_ns[op];

    if (!held(s, p))
        return true;
    if (p->call[op].ns >= s->held_since_ns || ns > s->allowed_ns)
        return false;
    s->allowed_ns -= ns;
    return true;
}

/* Kernels of different contexts do not share the multiprocessors. */
static bool displaced(const struct state *s, const struct program *p)
{
    return s->programs > 1 && s->program[p == &s->program[0]].running > 0;
}

static uint64_t op_ns(const struct state *s, struct program *p, uint32_t op)
{
    uint64_t ns = p->job->device_ns[op], waited_ns = s->now_ns - p->call[op].ready_ns;

    if (!p->job->work_ns)
        return ns;
    if (ns > LEAST_NS)
        ns = ns > waited_ns + LEAST_NS ? ns - waited_ns : LEAST_NS;
    return p->job->work_ns[op] = ns;
}

static void begin(struct state *s, struct program *p, uint32_t op)
{
    uint64_t end_ns = s->now_ns + op_ns(s, p, op);

    if (p->job->w->op[op].kind == WORKLOAD_KERNEL && p->last_end_ns < end_ns)
        p->last_end_ns = end_ns;
    event_put(s, end_ns, (size_t)(p - s->program), op);
}

static void begin_kernels(struct state *s, struct program *p)
{
    while (p->kernels.n && !displaced(s, p)) {
        uint32_t op = p->kernels.op[0];
        uint32_t need = shape_processors(&p->job->w->op[op], s->device->processors);

        if (need > s->free_processors || !allowed(s, p, op))
            return;
        s->free_processors -= need;
        p->running++;
        ready_take(&p->kernels, 0);
        begin(s, p, op);
    }
}

static void begin_copies(struct state *s, struct program *p)
{
    while (p->copies.n && s->free_engines && !held(s, p)) {
        uint32_t op = p->copies.op[0];

        s->free_engines--;
        ready_take(&p->copies, 0);
        begin(s, p, op);
    }
}

/* The held program comes first: its work that was in flight goes before real time. */
static void device_dispatch(struct state *s)
{
    for (size_t i = 0; i < s->programs; i++) {
        begin_kernels(s, &s->program[i]);
        begin_copies(s, &s->program[i]);
    }
}

static void op_end(struct state *s, struct program *p, uint32_t op)
{
    const struct workload_op *o = &p->job->w->op[op];
    struct stream *stream = &p->stream[o->stream];

    if (o->kind == WORKLOAD_KERNEL) {
        s->free_processors += shape_processors(o, s->device->processors);
        p->running--;
    } else {
        s->free_engines++;
    }
    stream->head = p->call[op].next;
    if (stream->head != NOBODY)
        ready_put(s, p, stream->head);
    if (--p->outstanding == 0 && p->waiting)
        event_put(s, s->now_ns + p->job->wait_ns, (size_t)(p - s->program), HOST);
}

/* ---- the host ------------------------------------------------------------------------------- */

/* How long the program did something else before this call. A blocking copy is recorded as a copy
 * and a wait that ends at once: the program waited between the two, so that is no pause. */
static uint64_t pause_ns(const struct rerun_job *job, size_t i)
{
    const struct workload_op *op = &job->w->op[i], *before = op - 1;
    uint64_t busy_until;

    if (i == 0)
        return 0;
    if (op->kind == WORKLOAD_SYNC && before->kind == WORKLOAD_COPY &&
        op->duration_ns < CLOCK_READ_NS)
        return 0;
    busy_until = before->at_ns + (before->kind == WORKLOAD_SYNC ? before->duration_ns : 0);
    return op->at_ns > busy_until ? (uint64_t)((double)(op->at_ns - busy_until) / job->host_speed)
                                  : 0;
}

static size_t request_end(const struct program *p)
{
    return p->job->start[p->request % p->job->starts + 1];
}

static void hold_begin(struct state *s)
{
    struct program *p = &s->program[0];
    uint64_t left_ns = p->running && p->last_end_ns > s->now_ns ? p->last_end_ns - s->now_ns : 0;

    s->held_since_ns = s->now_ns;
    s->allowed_ns = s->device->budget_ns > left_ns ? s->device->budget_ns - left_ns : 0;
}

static void request_begin(struct state *s, struct program *p)
{
    p->busy = true;
    p->at = p->job->start[p->request % p->job->starts];
    if (p == &s->program[1])
        hold_begin(s);
}

static void request_done(struct state *s, struct program *p)
{
    struct rerun_job *job = p->job;

    if (job->latency_ns)
        job->latency_ns[p->request] = s->now_ns - job->arrival_ns[p->request];
    job->served = ++p->request;
    job->end_ns = s->now_ns;
    p->busy = false;
    if (p->request < job->requests) {
        uint64_t arrival_ns = job->arrival_ns[p->request];

        event_put(s, arrival_ns > s->now_ns ? arrival_ns : s->now_ns, (size_t)(p - s->program),
                  HOST);
    }
}

/* Makes the host's call that is due now, or ends its wait. */
static void host_step(struct state *s, struct program *p)
{
    const struct workload *w = p->job->w;

    if (!p->busy)
        request_begin(s, p);
    p->waiting = false;
    if (p->at < request_end(p)) {
        if (w->op[p->at].kind != WORKLOAD_SYNC)
            stream_put(s, p, (uint32_t)p->at);
        else if (p->outstanding)
            p->waiting = true;
        if (!p->waiting)
            p->at++;
    } else if (p->outstanding) {
        p->waiting = true;
    } else {
        request_done(s, p);
        return;
    }
    if (!p->waiting)
        event_put(s, s->now_ns + (p->at < request_end(p) ? pause_ns(p->job, p->at) : 0),
                  (size_t)(p - s->program), HOST);
}

/* ---- the whole run -------------------------------------------------------------------------- */

static int program_open(struct state *s, size_t i, struct rerun_job *job)
{
    struct program *p = &s->program[i];

    p->job = job;
    job->served = 0;
    job->end_ns = 0;
    p->stream = calloc((size_t)job->w->streams + 1, sizeof(*p->stream));
    p->call = calloc(job->w->ops + 1, sizeof(*p->call));
    if (!p->stream || !p->call)
        return -ENOMEM;
    for (uint32_t k = 0; k <= job->w->streams; k++)
        p->stream[k].head = NOBODY;
    if (job->requests && job->starts)
        event_put(s, job->arrival_ns[0], i, HOST);
    return s->failed ? -ENOMEM : 0;
}

static void program_close(struct program *p)
{
    free(p->stream);
    free(p->call);
    free(p->kernels.op);
    free(p->copies.op);
}

int rerun(const struct rerun_device *device, struct rerun_job *job, size_t jobs)
{
    struct state s = {.device = device,
                      .programs = jobs,
                      .free_processors = device->processors,
                      .free_engines = COPY_ENGINES};
    int rc = 0;

    for (size_t i = 0; i < jobs && rc == 0; i++)
        rc = program_open(&s, i, &job[i]);
    while (rc == 0 && s.events && job[0].served < job[0].requests) {
        struct event e = event_take(&s);

        s.now_ns = e.ns;
        if (e.op == HOST)
            host_step(&s, &s.program[e.program]);
        else
            op_end(&s, &s.program[e.program], e.op);
        device_dispatch(&s);
        if (s.failed)
            rc = -ENOMEM;
    }
    for (size_t i = 0; i < jobs; i++)
        program_close(&s.program[i]);
    free(s.heap);
    return rc;
}
