/*
 * judge.c - verdicts on one run (see judge.h).
 *
 * A cut-in is work of the service that is submitted while the driver has no work of the service.
 * What a job asked for and what of it the driver has are compared one by one, because the launches
 * of a stream reach the driver in order.
 */
#include "judge.h"

#include "common/list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTLED_NS = 200000000,
    LEARNT_NS = 1000000000,
    LATE_NS = 100000,
    GAP_NS = 30000,
    SWITCH_NS = 20000,
    AGAIN_NS = 200000,
    PACE_PERCENT = 25
};

enum kind { KERNEL, COPY };
struct op {
    uint32_t who, lane; /* lane of a job: index of its stream; STREAMS: another one */
    enum kind kind;
    uint64_t submit, start, end, cost;
    uint64_t call; /* of a graph's node: the graph's launch; the node may wait for room */
};

struct ops {
    struct op *at;
    size_t n, room;
};

struct cut_in {
    uint64_t submit, end;  /* of the first work, of the last one */
    uint64_t ready, start; /* of the first kernel: its stream is free; it starts; 0: no kernel */
    uint64_t copy_wait;    /* of a copy ahead of it */
};

/* ---- the log --------------------------------------------------------------------------------- */

static bool op_add(struct ops *ops, const struct op *op)
{
    if (list_grow(&ops->at, &ops->room, ops->n, sizeof(*ops->at)) != 0)
        return false;
    ops->at[ops->n++] = *op;
    return true;
}

static uint32_t worker_of(const struct run *r, int pid)
{
    uint32_t who = 0;
    while (who < WORKERS && r->pid[who] != pid)
        who++;
    return who;
}

/* If streams come and go, any other stream counts as the first. */
static uint32_t lane_of(const struct run *r, uint32_t who, uint64_t id)
{
    const struct record *said = r->record[who];
    uint32_t lane = 0;
    while (lane < STREAMS && (!said->per_call[lane] || said->stream_id[lane] != id))
        lane++;
    bool any = who < r->workload->jobs && r->workload->job[who].come_and_go;
    return lane == STREAMS && any ? 0 : lane;
}

/* `graph`: when the graph was launched whose nodes a stream runs, as far as the log was read. */
static bool line_read(const struct run *r, const char *line, uint64_t graph[][STREAMS + 1],
                      struct op *op)
{
    int pid;
    char kind[16];
    uint64_t id;
    if (sscanf(line,
               "pid=%d context=%*u stream=%*u seq=%*u kind=%15s name=%*s submit=%" SCNu64
               " start=%" SCNu64 " end=%" SCNu64 " cost=%" SCNu64 " ran=%*d id=%" SCNu64,
               &pid, kind, &op->submit, &op->start, &op->end, &op->cost, &id) != 7)
        return false;
    op->kind = strcmp(kind, "copy") == 0 ? COPY : KERNEL;
    op->who = worker_of(r, pid);
    if (op->who == WORKERS)
        return false;
    op->lane = lane_of(r, op->who, id);
    uint64_t *launched = &graph[op->who][op->lane];
    if (strstr(line, " name=graph_"))
        *launched = strstr(line, " name=graph_start ") ? op->submit : 0;
    op->call = *launched ? *launched : op->submit;
    return op->kind == COPY || strcmp(kind, "kernel") == 0;
}

static int by_submit(const void *a, const void *b)
{
    const struct op *x = a, *y = b;
    return x->submit != y->submit ? (x->submit < y->submit ? -1 : 1)
                                  : (x->start > y->start) - (x->start < y->start);
}

static int by_start(const void *a, const void *b)
{
    const struct op *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int log_read(const struct run *r, struct ops *ops)
{
    char line[1024];
    uint64_t graph[WORKERS][STREAMS + 1] = {0};
    struct op op;
    FILE *f = fopen(r->log, "re");
    int rc = 0;
    if (!f)
        return -errno;
    while (rc == 0 && fgets(line, sizeof(line), f))
        if (line_read(r, line, graph, &op) && !op_add(ops, &op))
            rc = -ENOMEM;
    fclose(f);
    if (ops->n)
        qsort(ops->at, ops->n, sizeof(*ops->at), by_submit);
    return rc;
}

/* ---- figures --------------------------------------------------------------------------------- */

struct figure {
    double value;
    uint64_t at_ns;
};

struct figures {
    struct figure *at;
    size_t n, room;
};

static void figure_add(struct figures *f, double value, uint64_t at_ns)
{
    if (list_grow(&f->at, &f->room, f->n, sizeof(*f->at)) != 0)
        return;
    f->at[f->n++] = (struct figure){value, at_ns};
}

static int by_value(const void *a, const void *b)
{
    const struct figure *x = a, *y = b;
    return x->value != y->value ? (x->value < y->value ? -1 : 1)
                                : (x->at_ns > y->at_ns) - (x->at_ns < y->at_ns);
}

static void rule_judge(struct verdict *v, enum rule rule, struct figure f, double most)
{
    v->judged[rule] = true;
    v->figure[rule] = f.value;
    v->at_ns[rule] = f.at_ns;
    v->failed[rule] = f.value > most;
}

/* The smallest value that `percent` of the figures do not exceed. There must be a figure. */
static struct figure percentile(struct figures *f, double percent)
{
    size_t at = (size_t)((double)f->n * percent / 100);
    qsort(f->at, f->n, sizeof(*f->at), by_value);
    return f->at[at < f->n ? at : f->n - 1];
}

static void rule_judge_percentile(struct verdict *v, enum rule rule, struct figures *f,
                                  double percent, double most)
{
    if (f->n)
        rule_judge(v, rule, percentile(f, percent), most);
    free(f->at);
}

/* ---- cut-ins --------------------------------------------------------------------------------- */

static void cut_in_copies(struct cut_in *c, const struct op *op)
{
    uint64_t ready = c->ready > op->submit ? c->ready : op->submit;
    c->copy_wait = op->start - ready > c->copy_wait ? op->start - ready : c->copy_wait;
    c->ready = op->end;
}

/* Finds the next one, from `*i` on. False: there is none. */
static bool cut_in_next(const struct ops *ops, size_t *i, struct cut_in *c)
{
    *c = (struct cut_in){0};
    for (; *i < ops->n; (*i)++) {
        const struct op *op = &ops->at[*i];
        if (op->who != SERVICE)
            continue;
        if (c->submit && op->submit > c->end)
            break;
        if (!c->submit)
            c->submit = op->submit;
        if (!c->start && op->kind == COPY)
            cut_in_copies(c, op);
        if (!c->start && op->kind == KERNEL) {
            c->ready = op->submit > c->ready ? op->submit : c->ready;
            c->start = op->start;
        }
        if (op->end > c->end)
            c->end = op->end;
    }
    return c->submit != 0;
}

/* What the running kernel still had to do. Only one context has the multiprocessors. If they were
 * free and another context had the device, a kernel of that runs once the device has switched. */
static uint64_t rest_ns(const struct ops *ops, uint64_t at)
{
    uint64_t rest = 0, next = 0;
    for (size_t i = 0; i < ops->n && ops->at[i].submit <= at; i++) {
        const struct op *op = &ops->at[i];
        if (op->who == SERVICE || op->kind != KERNEL || op->end <= at)
            continue;
        uint64_t left = op->end - at < op->cost ? op->end - at : op->cost;
        if (op->start > at)
            next = op->start < at + SWITCH_NS && left > next ? op->end - at : next;
        else
            rest = left > rest ? left : rest;
    }
    return rest ? rest : next;
}

/* Counts commands that best effort submitted while the service had work on the device. A thread
 * that looked before the hold may have lost its processor since. So if the host's time is the
 * machine's, what comes at once is excused, and one more command of each stream. */
static uint32_t submitted_after(const struct run *r, const struct ops *ops, const struct cut_in *c)
{
    uint32_t late[JOBS][STREAMS + 1] = {0}, excused = r->stepped ? 0 : 1, n = 0;
    uint64_t last[JOBS][STREAMS + 1] = {0};
    for (size_t i = 0; i < ops->n && ops->at[i].submit < c->end; i++) {
        const struct op *op = &ops->at[i];
        if (op->who >= JOBS)
            continue;
        bool first = op->call != last[op->who][op->lane];
        last[op->who][op->lane] = op->call;
        if (first && op->call > c->submit + (r->stepped ? GAP_NS : LATE_NS))
            late[op->who][op->lane]++;
    }
    for (uint32_t who = 0; who < r->workload->jobs; who++)
        for (uint32_t lane = 0; lane <= STREAMS; lane++)
            n += late[who][lane] > excused ? late[who][lane] - excused : 0;
    return n;
}

/* Whether a process has come so recently that times are not known yet. */
static bool is_settling(const struct run *r, uint64_t at)
{
    for (uint32_t who = 0; who < WORKERS; who++)
        if (r->record[who] && r->record[who]->begun_ns <= at &&
            at < r->record[who]->begun_ns + SETTLED_NS)
            return true;
    return false;
}

/* When best effort next started after a cut-in. 0: the service came again before that. */
static uint64_t started_next(const struct ops *ops, const struct cut_in *c, uint64_t until)
{
    uint64_t next = 0;
    for (size_t i = 0; i < ops->n && ops->at[i].submit < until; i++) {
        const struct op *op = &ops->at[i];
        if (op->who == SERVICE)
            continue;
        if (op->start <= c->end && op->end > c->end)
            return c->end; /* it ran beside the cut-in */
        if (op->start > c->end && (!next || op->start < next))
            next = op->start;
    }
    return next && next < until ? next : 0;
}

static bool is_paused(const struct run *r, uint32_t who, uint64_t at)
{
    const struct change *c = &r->workload->change;
    uint64_t from = r->begin_ns + c->at_ms * 1000000ull;
    return c->what == CHANGE_pause && c->who == who && at >= from &&
           at < from + (CHANGE_MS + 1) * 1000000ull;
}

/* What the job asked for and has not started by its end will never start. */
static bool is_over(const struct run *r, uint32_t who, uint64_t at)
{
    return at >= r->begin_ns + r->workload->job[who].end_ms * 1000000ull;
}

/* Whether at that time a job had asked for more than had started. */
static bool is_asked_for(const struct run *r, const struct ops *ops, uint64_t at)
{
    uint32_t started[JOBS][STREAMS] = {0};
    for (size_t i = 0; i < ops->n && ops->at[i].submit <= at; i++) {
        const struct op *op = &ops->at[i];
        if (op->who < JOBS && op->lane < STREAMS && op->kind == KERNEL && op->start <= at)
            started[op->who][op->lane]++;
    }
    for (uint32_t who = 0; who < r->workload->jobs; who++) {
        const struct record *c = r->record[who];
        if (!c || is_paused(r, who, at) || is_over(r, who, at))
            continue;
        for (uint32_t lane = 0; lane < STREAMS; lane++) {
            uint32_t calls = started[who][lane] / (c->per_call[lane] ? c->per_call[lane] : 1);
            if (calls < atomic_load(&c->calls[lane]) && c->call_ns[lane][calls] < at)
                return true;
        }
    }
    return false;
}

static void cut_ins_judge(const struct run *r, const struct ops *ops, struct verdict *v)
{
    struct figures wait = {0}, settle = {0}, again = {0}, whole = {0};
    struct cut_in c, next;
    struct figure after = {0};
    size_t i = 0;
    bool more = cut_in_next(ops, &i, &c);
    for (; more; c = next) {
        more = cut_in_next(ops, &i, &next);
        uint64_t until = more ? next.submit : r->end_ns;
        uint32_t n = submitted_after(r, ops, &c);
        if (n > after.value)
            after = (struct figure){n, c.submit};
        if (c.start) {
            uint64_t rest = rest_ns(ops, c.ready), waited = c.start - c.ready;
            bool settling = is_settling(r, c.submit);
            if (!settling)
                figure_add(&whole, (double)waited / 1000, c.submit);
            waited = waited > rest ? waited - rest : 0;
            waited = c.copy_wait > waited ? c.copy_wait : waited;
            figure_add(settling ? &settle : &wait, (double)waited / 1000, c.submit);
        }
        uint64_t started = started_next(ops, &c, until);
        if (started && is_asked_for(r, ops, c.end))
            figure_add(&again, (double)(started - c.end) / 1000, c.end);
        v->cut_ins++;
    }
    if (v->cut_ins)
        rule_judge(v, RULE_after, after, 0);
    if (whole.n)
        v->wait_p50_us = percentile(&whole, 50).value;
    free(whole.at);
    rule_judge_percentile(v, RULE_wait, &wait, 99, r->budget_us + r->slack_us);
    rule_judge_percentile(v, RULE_settle, &settle, 99, 10 * (r->budget_us + r->slack_us));
    rule_judge_percentile(v, RULE_again, &again, 50, r->stepped ? 200 : 1000);
}

/* ---- the rest -------------------------------------------------------------------------------- */

/* From a request's call until the program knows of its end, and until best effort has started
 * again, best effort is held; rule (c) judges that. Returns how much of the time is such. */
static uint64_t held_ns(const struct run *r, uint64_t from, uint64_t until)
{
    const struct record *c = r->record[SERVICE];
    uint32_t n = c ? atomic_load(&c->requests) : 0;
    uint64_t held = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct request *q = &c->request[i];
        uint64_t begin = q->called_ns > from ? q->called_ns : from, end = q->known_ns + AGAIN_NS;
        end = end < until ? end : until;
        held += end > begin ? end - begin : 0;
        from = end > from ? end : from;
    }
    return held;
}

/* The time from which all processes have been there for long enough. */
static uint64_t settled_ns(const struct run *r)
{
    uint64_t last = 0;
    for (uint32_t who = 0; who < WORKERS; who++)
        if (r->record[who] && r->record[who]->begun_ns > last)
            last = r->record[who]->begun_ns;
    return last + SETTLED_NS;
}

static uint64_t idle_add(struct figure *longest, uint64_t from, uint64_t until)
{
    if ((double)(until - from) > longest->value)
        *longest = (struct figure){(double)(until - from), from};
    return until - from;
}

static void idle_judge(const struct run *r, const struct ops *all, struct verdict *v)
{
    struct ops ops = {all->n ? malloc(all->n * sizeof(*all->at)) : NULL, all->n, all->n};
    struct figure longest = {0};
    uint64_t busy_until = 0, idle = 0, from = 0, settled = settled_ns(r), worked = 0;
    if (!ops.at)
        return;
    memcpy(ops.at, all->at, all->n * sizeof(*all->at));
    qsort(ops.at, ops.n, sizeof(*ops.at), by_start);
    for (size_t i = 0; i < ops.n && ops.at[i].start < r->end_ns; i++) {
        const struct op *op = &ops.at[i];
        from = from ? from : op->start;
        if (busy_until && op->start > busy_until + GAP_NS &&
            op->start > busy_until + GAP_NS + held_ns(r, busy_until, op->start) &&
            is_asked_for(r, all, busy_until + GAP_NS / 2))
            idle += idle_add(&longest, busy_until + held_ns(r, busy_until, op->start), op->start);
        if (op->end > busy_until && op->end > settled) {
            uint64_t since = op->start > busy_until ? op->start : busy_until;
            worked += op->end - (since > settled ? since : settled);
        }
        busy_until = op->end > busy_until ? op->end : busy_until;
    }
    if (r->end_ns > settled)
        v->used = (double)worked / (double)(r->end_ns - settled);
    if (from && from < r->end_ns)
        rule_judge(v, RULE_idle,
                   (struct figure){100 * (double)idle / (double)(r->end_ns - from), longest.at_ns},
                   r->stepped ? 2 : 20);
    free(ops.at);
}

static void memory_judge(const struct run *r, struct verdict *v)
{
    enum { RING_MB = 1, SPARE_MB = 64 };
    const struct record *c = r->record[SERVICE];
    double native = SPARE_MB;
    if (!c || !c->memory_high)
        return;
    native += r->workload->service.copy_kb / 1024.0;
    for (uint32_t i = 0; i < r->workload->jobs; i++) {
        const struct job *j = &r->workload->job[i];
        native += j->streams * (j->copy_kb / 1024.0 + j->pool_mb + RING_MB);
    }
    double above = (double)c->memory_high / (1 << 20) - native;
    rule_judge(v, RULE_memory, (struct figure){above > 0 ? above : 0, 0}, 0);
}

static void share_judge(const struct run *r, const struct ops *ops, struct verdict *v)
{
    uint64_t ran[JOBS] = {0}, all = 0, from = settled_ns(r);
    uint32_t weights = 0;
    double worst = 0;
    for (size_t i = 0; i < ops->n; i++) {
        const struct op *op = &ops->at[i];
        if (op->who >= JOBS || op->start < from || op->end > r->end_ns)
            continue;
        ran[op->who] += op->cost;
        all += op->cost;
    }
    for (uint32_t who = 0; who < r->workload->jobs; who++)
        weights += r->workload->job[who].weight;
    for (uint32_t who = 0; all && who < r->workload->jobs; who++) {
        double is = 100.0 * (double)ran[who] / (double)all,
               due = 100.0 * r->workload->job[who].weight / weights;
        worst = is - due > worst ? is - due : due - is > worst ? due - is : worst;
    }
    if (all)
        rule_judge(v, RULE_share, (struct figure){worst, 0}, 5);
}

/* The first `jobs` together get `due` percent, from a second after the last job came: their kernels
 * meet real time from the beginning, so their times are learned slowly. A tenth of the share may be
 * missing. */
static void least_judge(const struct run *r, const struct ops *ops, uint32_t jobs, double due,
                        struct verdict *v)
{
    uint64_t ran = 0, from = r->record[SERVICE]->begun_ns;
    for (uint32_t who = 0; who < r->workload->jobs; who++)
        from = r->record[who]->begun_ns > from ? r->record[who]->begun_ns : from;
    from += LEARNT_NS;
    for (size_t i = 0; i < ops->n; i++)
        if (ops->at[i].who < jobs && ops->at[i].start >= from && ops->at[i].end <= r->end_ns)
            ran += ops->at[i].cost;
    double is = 100.0 * (double)ran / (double)(r->end_ns - from);
    rule_judge(v, RULE_share, (struct figure){is < due ? due - is : 0, 0}, due / 10);
}

/* A solo that has not finished has taken all the time there was. */
static void solo_judge(const struct run *r, struct verdict *v)
{
    const struct record *c = r->record[0];
    v->took_ns = (c->done_ns ? c->done_ns : r->end_ns) - c->begun_ns;
    if (r->native_ns)
        rule_judge(v, RULE_pace,
                   (struct figure){100 * ((double)v->took_ns / (double)r->native_ns - 1), 0},
                   PACE_PERCENT);
}

int judge(const struct run *r, struct verdict *v)
{
    struct ops ops = {0};
    *v = (struct verdict){0};
    if (r->workload->solo) {
        solo_judge(r, v);
        return 0;
    }
    int rc = log_read(r, &ops);
    if (rc == 0) {
        cut_ins_judge(r, &ops, v);
        idle_judge(r, &ops, v);
        memory_judge(r, v);
        if (r->workload->least)
            least_judge(r, &ops, JOBS, r->workload->least, v);
        if (r->workload->first_least)
            least_judge(r, &ops, 1, r->workload->first_least, v);
        if (r->workload->fair)
            share_judge(r, &ops, v);
    }
    free(ops.at);
    return rc;
}
