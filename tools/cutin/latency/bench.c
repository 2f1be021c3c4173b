/*
 * bench.c - runs one measurement: rounds of blocks, one block per mode.
 */
#include "bench.h"
#include "tools/cutin/statistics/random.h"
#include "common/clock.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/run/run.h"

#include "scheduler/wire/query.h"
#include "common/atomic_file.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LEAST_PER_ROUND = 25,
    LAUNCHES_PER_ROUND = 10,
    START_MS = 60000,    /* a first cuInit on a big machine takes seconds */
    PATIENCE_MS = 30000, /* in addition to what a block should take */
    SLICE_US = 1000,
    COUNTED_US = 25000, /* the library sums its counters up every 10 ms */
    POLL_MS = 100,      /* how often samples are counted */
    /* Of the trace of a request that took too long. */
    LAST_NS = 50000000,
    AFTER_NS = 1000000, /* time to show the release, too */
    REQUEST_PROCESS = 1600000000,
};

__attribute__((format(printf, 3, 4))) static int fail(struct bench *b, int rc, const char *format,
                                                      ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(b->why, sizeof(b->why), format, args);
    va_end(args);
    return rc;
}

static int fail_worker(struct bench *b, const struct worker *w, int rc)
{
    if (rc == -ECANCELED)
        return rc;
    return fail(b, rc, "the %s worker failed: %s", w->role, worker_error(w, rc));
}

/* A worker that crashes at its end did not run well, so that fails the measurement. An earlier
 * failure says more and stays. */
static int end_worker(struct bench *b, struct worker *w, int rc)
{
    int status = worker_end(w, rc == 0 && !progress_cancel ? WORKER_ENDS_MS : WORKER_GIVEN_UP_MS);

    /* After an interrupt a worker that ends too late is killed, which is no failure. */
    bool given_up = progress_cancel && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (rc != 0 || status == 0 || given_up)
        return rc;
    if (WIFSIGNALED(status))
        return fail(b, -EIO, "the %s worker ended by signal %d (%s)", w->role, WTERMSIG(status),
                    strsignal(WTERMSIG(status)));
    return fail(b, -EIO, "the %s worker ended with status %d: %s", w->role, WEXITSTATUS(status),
                w->shared->why);
}

/* How long one launch of best effort takes. */
static uint64_t launch_us(const struct bench_plan *p)
{
    return (uint64_t)p->be_kernel_us * (p->be_graph ? p->be_graph : 1);
}

/* A block is so long that best effort's launches beside it are many enough to be counted. */
static uint32_t rounds_of(const struct bench_plan *p)
{
    double least = LAUNCHES_PER_ROUND * (double)launch_us(p) / p->gap_us;
    uint32_t rounds = p->samples / (least > LEAST_PER_ROUND ? (uint32_t)least : LEAST_PER_ROUND);

    return rounds < 1 ? 1 : rounds > BENCH_ROUNDS ? BENCH_ROUNDS : rounds;
}

static bool wanted(const struct bench *b, int mode)
{
    return b->plan.modes >> mode & 1;
}

static double now_s(void)
{
    return (double)clock_ns() / 1e9;
}

/* How long a block should take, in seconds. */
static double samples_s(const struct bench_plan *p, uint32_t count)
{
    double us = p->gap_us + (double)p->rt_kernels * (double)p->rt_kernel_us;

    return (count + (double)count * p->warm_up / p->samples) * us / 1e6;
}

/* `block_s`: what is done of the current block. The blocks before it are in done_s. */
static void show(const struct bench *b, double block_s, const char *what)
{
    double whole_s = 0;

    for (int m = 0; m < BENCH_MODES; m++)
        if (wanted(b, m))
            whole_s += samples_s(&b->plan, b->plan.samples) +
                       (m == BENCH_ALONE ? 0 : b->plan.solo_ms / 1000.0);
    progress_show(b->part + (b->done_s + block_s) / whole_s, b->parts > 0 ? b->parts : 1, what);
}

/* The mode whose processes this mode uses. */
static int workers_mode(int mode)
{
    return mode == BENCH_CUTIN || mode == BENCH_UNGATED ? BENCH_CUTIN : BENCH_NATIVE;
}

/* ---- best effort --------------------------------------------------------------------------- */

static int be_start(struct bench *b, struct worker *be)
{
    double deadline = now_s() + PATIENCE_MS / 1000.0;

    if (worker_ask(be, WORKER_RUN, 0) != 0)
        return fail_worker(b, be, -EPIPE);
    while (atomic_load_explicit(&be->shared->launched, memory_order_relaxed) == 0) {
        if (progress_cancel)
            return -ECANCELED;
        if (worker_gone(be))
            return fail_worker(b, be, -EPIPE);
        if (now_s() > deadline)
            return fail_worker(b, be, -ETIMEDOUT);
        clock_sleep_us(SLICE_US);
    }
    return 0;
}

static int be_stop(struct bench *b, struct worker *be, struct bench_work *work)
{
    int rc;

    atomic_store_explicit(&be->shared->stop, 1, memory_order_relaxed);
    rc = worker_reply(be, PATIENCE_MS + (uint32_t)(launch_us(&b->plan) / 10), NULL);
    if (rc != 0)
        return fail_worker(b, be, rc);
    work->kernels += be->shared->kernels;
    work->elapsed_ns += be->shared->elapsed_ns;
    return 0;
}

static int solo_block(struct bench *b, int mode, uint32_t ms)
{
    struct worker *be = &b->be[mode];
    double start_s = now_s(), took_s = 0;
    int rc;

    if (ms == 0)
        return 0;
    rc = be_start(b, be);
    while (rc == 0 && !progress_cancel && (took_s = now_s() - start_s) < ms / 1000.0) {
        show(b, took_s, "best effort");
        clock_sleep_us(SLICE_US);
    }
    b->done_s += ms / 1000.0;
    return rc != 0 && rc != -ECANCELED ? rc : be_stop(b, be, &b->mode[mode].solo);
}

/* ---- real time ----------------------------------------------------------------------------- */

static int rt_sample(struct bench *b, int mode, uint32_t count)
{
    struct worker *rt = &b->rt[workers_mode(mode)];
    struct bench_result *result = &b->mode[mode];
    const struct bench_plan *p = &b->plan;
    /* A bound for a block: at worst a kernel waits for many others. */
    uint64_t us = 100ull * launch_us(p) + 10ull * p->rt_kernels * p->rt_kernel_us + 10000;
    uint64_t timeout_ms = PATIENCE_MS + (count + p->warm_up) * us / 1000;
    uint32_t from = atomic_load_explicit(&rt->shared->samples, memory_order_acquire), to = from;
    double start_s = now_s();
    int rc;

    for (uint32_t i = 0; i < count; i++) {
        rt->shared->sample[from + i].gap_ns = b->gap_ns[result->n + i];
        timeout_ms += b->gap_ns[result->n + i] / 1000000;
    }
    rc = worker_ask(rt, WORKER_SAMPLE, count);
    if (rc == 0) {
        do {
            to = atomic_load_explicit(&rt->shared->samples, memory_order_relaxed);
            show(b, samples_s(p, to - from), bench_mode_names[mode]);
            rc = worker_reply(rt, POLL_MS, &progress_cancel);
        } while (rc == -ETIMEDOUT && (now_s() - start_s) * 1000 < (double)timeout_ms);
        b->done_s += samples_s(p, count);
    }
    if (rc == -ECANCELED) {
        atomic_store_explicit(&rt->shared->stop, 1, memory_order_relaxed);
        rc = worker_reply(rt, PATIENCE_MS, NULL);
    }
    to = atomic_load_explicit(&rt->shared->samples, memory_order_acquire);
    memcpy(result->sample + result->n, rt->shared->sample + from,
           (to - from) * sizeof(*result->sample));
    result->n += to - from;
    result->block_end[result->blocks++] = result->n;
    return rc == 0 ? 0 : fail_worker(b, rt, rc);
}

/* Adds the counters of cutin's processes, as the daemon has them, or takes them off again. */
static void count_engagement(struct bench *b, bool add)
{
    struct bench_engagement *e = &b->engagement;
    struct message_row *rows = NULL;
    uint64_t sign = add ? 1 : UINT64_MAX;
    size_t n = 0;

    if (query_clients(b->daemon.socket, &rows, &n) != 0)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct message_row_device *d = &rows[i].device[0];
        if (rows[i].devices == 0)
            continue;
        if (rows[i].pid == b->rt[BENCH_CUTIN].pid)
            e->cut_ins += sign * d->cut_ins;
        if (rows[i].pid != b->be[BENCH_CUTIN].pid)
            continue;
        e->gates += sign * d->gates;
        e->holds += sign * d->holds;
        e->gpu_ns += sign * d->gpu_ns;
    }
    free(rows);
}

/* If the last sample of the block ended it by being too slow, writes a trace while both processes
 * are still there. Returns 0, or -errno with b->why. */
static int break_trace_if_due(struct bench *b)
{
    const pid_t pids[] = {b->rt[BENCH_CUTIN].pid, b->be[BENCH_CUTIN].pid};
    const struct bench_result *r = &b->mode[BENCH_CUTIN];
    const struct worker_sample *s = r->sample + r->n - 1;
    double us = r->n ? (double)(s->end_ns - s->arrival_ns) / 1000 : 0;
    struct trace_view views[2] = {0};
    struct atomic_file whole;
    struct trace_json json;
    FILE *out = NULL, *log = NULL;
    char text[300];
    int rc = 0;

    if (b->plan.break_us <= 0 || us <= b->plan.break_us)
        return 0;
    b->broke =
        (struct bench_broke){.broke = true, .sample = r->n - 1, .us = us, .at_ns = s->arrival_ns};
    for (int i = 0; i < 2 && rc == 0; i++) {
        snprintf(text, sizeof(text), "%s/%d.trace", b->trace.scratch.folder, (int)pids[i]);
        rc = trace_view_await(&views[i], text, s->end_ns + AFTER_NS, b->why, sizeof(b->why));
    }
    if (rc != 0)
        goto out;
    log = fopen(b->trace.log, "re");
    out = atomic_file_open(&whole, b->plan.break_trace);
    rc = -errno;
    if (out) {
        trace_json_begin(&json, out, s->end_ns - LAST_NS, 2 + !!log);
        json.end_ns = s->end_ns + AFTER_NS;
        /* The request itself, on a track of its own. */
        snprintf(text, sizeof(text), "request, %.1f us", us);
        trace_json_name(&json, REQUEST_PROCESS, 0, "the request that took too long");
        trace_json_name(&json, REQUEST_PROCESS, 1, "arrival to answer");
        trace_json_slice(&json, REQUEST_PROCESS, 1, text, s->arrival_ns, s->end_ns);
        trace_json_mark(&json, REQUEST_PROCESS, 1, "call entered", s->start_ns);
        for (int i = 0; i < 2; i++)
            trace_json_add(&json, &views[i]);
        b->broke.works = log ? trace_json_add_log(&json, log) : 0;
        b->broke.events = json.events;
        rc = atomic_file_close(&whole, trace_json_end(&json));
    }
    if (log)
        fclose(log);
    if (rc != 0)
        snprintf(b->why, sizeof(b->why), "%s: %s", b->plan.break_trace, strerror(-rc));
out:
    for (int i = 0; i < 2; i++)
        trace_view_close(&views[i]);
    return rc;
}

static int sample_block(struct bench *b, int mode, uint32_t count)
{
    struct worker *be = mode == BENCH_ALONE ? NULL : &b->be[mode];
    struct bench_result *result = &b->mode[mode];
    uint32_t from = result->n;
    int rc = 0, stop_rc = 0;

    if (mode == BENCH_CUTIN)
        count_engagement(b, false);
    if (be)
        rc = be_start(b, be);
    if (rc == 0)
        rc = rt_sample(b, mode, count);
    if (be && (rc == 0 || rc == -ECANCELED))
        stop_rc = be_stop(b, be, &b->mode[mode].shared);
    if (mode == BENCH_CUTIN) {
        clock_sleep_us(COUNTED_US);
        count_engagement(b, true);
    }
    if (rc == 0)
        rc = stop_rc;
    if (rc == 0 && mode == BENCH_CUTIN && b->plan.stages)
        rc = bench_stages_take(b, result->sample + from, result->n - from);
    if (rc == 0 && mode == BENCH_CUTIN)
        rc = break_trace_if_due(b);
    return rc;
}

/* ---- rounds -------------------------------------------------------------------------------- */

/* Runs in the new process. A distance needs the library, so that is there natively, too. Then it
 * has no daemon: processes know nothing of each other, and one that is alone is not capped. */
_Noreturn static void child_exec(const struct bench *b, const struct worker *w, int mode,
                                 int socket)
{
    const struct bench_plan *p = &b->plan;
    bool under = workers_mode(mode) == BENCH_CUTIN, traced = under && b->trace.scratch.folder[0];
    bool be = under && strcmp(w->role, "be") == 0;
    bool timed = p->stages && p->events;
    const char *library = under || p->distance_us[0] ? b->paths.library : NULL;
    /* Room for the records of a block. A timed trace keeps only the first records, so it needs room
     * for all blocks. */
    const char *keep = timed ? "first" : "newest", *records = timed ? "1048576" : "262144";
    const struct variable rows[] = {
        {"SIMGPU_ID", p->sim ? b->sim_id : NULL},
        {"CUTIN_GRAPH_GATES", be && mode == BENCH_UNGATED ? "off" : NULL},
        {"CUTIN_DEPTH", be && !getenv("CUTIN_DEPTH") ? p->depth : NULL},
        {"CUTIN_BUDGET_US", be && !getenv("CUTIN_BUDGET_US") ? p->budget_us : NULL},
        {"SIMGPU_LOG", traced && !timed ? b->trace.log : NULL},
        {"CUTIN_TRACE", traced ? b->trace.pattern : NULL},
        {"CUTIN_TRACE_KEEP", traced ? keep : NULL},
        {"CUTIN_TRACE_RECORDS", traced ? records : NULL},
        {"CUTIN_PRIORITY", library ? w->role : NULL},
        {"CUTIN_PROFILE", library ? "off" : NULL},
        {"CUTIN_SOCKET", library ? (under ? b->daemon.socket : "") : NULL},
        {0},
    };

    if (p->set && environment_set(p->set) != 0)
        _exit(EXIT_CANNOT_RUN);
    worker_exec(rows, library, p->sim ? b->paths.simulator : NULL, w->shared_fd, socket,
                b->paths.command,
                (const char *const[]){"cutin", "latency", "--worker", w->role, NULL});
}

/* Starts a worker and waits until it is ready, its kernels loaded. */
static int start(struct bench *b, struct worker *w, int mode)
{
    int pair[2], rc;

    if ((workers_mode(mode) == BENCH_CUTIN || b->plan.distance_us[0]) && strcmp(w->role, "be") == 0)
        gates_probe(&b->paths, b->plan.sim, false);
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return fail(b, -errno, "cannot start a worker: %s", strerror(errno));
    w->pid = fork_in_group(SIGKILL);
    if (w->pid == 0)
        child_exec(b, w, mode, pair[1]);
    rc = w->pid < 0 ? -errno : 0;
    close(pair[1]);
    w->socket = pair[0];
    if (rc == 0)
        rc = worker_reply(w, START_MS, &progress_cancel);
    if (rc == 0 || rc == -ECANCELED)
        return rc;
    fail(b, rc, "the %s worker did not start: %s", w->role, worker_error(w, rc));
    worker_end(w, WORKER_GIVEN_UP_MS);
    return rc;
}

static int round_run(struct bench *b, uint32_t round, uint32_t rounds)
{
    struct worker *rt = &b->rt[BENCH_CUTIN];
    const struct bench_plan *p = &b->plan;
    /* Rounded so that the shares add up to the whole. */
    uint32_t count = (uint32_t)((uint64_t)p->samples * (round + 1) / rounds -
                                (uint64_t)p->samples * round / rounds);
    int order[BENCH_MODES], rc = 0;
    char path[300];
    pid_t pid;

    /* Each round has a random order, so no mode always follows the same one. */
    for (int m = 0; m < BENCH_MODES; m++)
        order[m] = m;
    for (uint32_t i = BENCH_MODES; i > 1; i--) {
        uint32_t k = random_below(&b->order_seed, i);
        int last = order[i - 1];
        order[i - 1] = order[k];
        order[k] = last;
    }
    /* Best effort by itself. Under cutin no client is above yet. */
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN && rc == 0 && !progress_cancel; m++)
        if (wanted(b, m))
            rc = solo_block(b, m, p->solo_ms / rounds);
    if (rc == 0 && (wanted(b, BENCH_CUTIN) || wanted(b, BENCH_UNGATED)))
        rc = start(b, rt, BENCH_CUTIN);
    for (uint32_t i = 0; i < BENCH_MODES && rc == 0 && !progress_cancel && !b->broke.broke; i++) {
        if (wanted(b, order[i]))
            rc = sample_block(b, order[i], count);
    }
    pid = rt->pid;
    rc = end_worker(b, rt, rc);
    snprintf(path, sizeof(path), "%s/%d.trace", b->trace.scratch.folder, (int)pid);
    if (b->trace.scratch.folder[0])
        unlink(path); /* everything in it was read */
    return rc;
}

static int rounds_run(struct bench *b)
{
    uint32_t rounds = rounds_of(&b->plan);
    int rc = 0;

    b->order_seed = b->plan.seed + 1;
    for (uint32_t round = 0; round < rounds && rc == 0 && !progress_cancel && !b->broke.broke;
         round++)
        rc = round_run(b, round, rounds);
    progress_end();
    b->identical = true;
    for (struct worker *be = b->be; be < b->be + BENCH_MODES; be++) {
        if ((rc != 0 && rc != -ECANCELED) || be->pid <= 0)
            continue;
        rc = worker_ask(be, WORKER_RESULT, 0);
        if (rc == 0)
            rc = worker_reply(be, PATIENCE_MS, NULL);
        if (rc != 0)
            return fail_worker(b, be, rc);
        b->identical &=
            be->shared->checksum == worker_expected_sum(be->shared->kernels, b->plan.be_graph);
        b->checked = true;
    }
    return rc == -ECANCELED ? 0 : rc;
}

/* ---- set-up and end ------------------------------------------------------------------------ */

/* Makes the memory, and the workers' parameters. Draws all arrivals before anything runs, so a slow
 * request does not delay the next arrival. */
static int prepare(struct bench *b)
{
    struct bench_plan *p = &b->plan;
    double sum_ns = 0;
    bool room;
    int rc;

    b->gap_ns = calloc(p->samples, sizeof(*b->gap_ns));
    room = !!b->gap_ns;
    for (int m = 0; m < BENCH_MODES; m++) {
        b->mode[m].latency_ns = calloc(p->samples, sizeof(uint64_t));
        b->mode[m].sample = calloc(p->samples, sizeof(*b->mode[m].sample));
        room &= b->mode[m].latency_ns && b->mode[m].sample;
    }
    for (int side = BENCH_NATIVE; side <= BENCH_CUTIN; side++)
        for (int rt = 0; rt < 2 && room; rt++) {
            struct worker *w = rt ? &b->rt[side] : &b->be[side];

            room = worker_prepare(w, rt ? "rt" : "be", rt ? 2 * p->samples : 1) == 0;
            if (!room)
                break;
            w->shared->closed = !arrivals_is_open(&p->arrivals);
            w->shared->rt_kernels = p->rt_kernels;
            w->shared->rt_kernel_us = p->rt_kernel_us;
            w->shared->be_kernel_us = p->be_kernel_us;
            w->shared->be_graph = p->be_graph;
            w->shared->be_batch = p->be_batch;
            w->shared->warm_up = (p->warm_up + rounds_of(p) - 1) / rounds_of(p);
        }
    if (!room)
        return fail(b, -ENOMEM, "no memory for %u samples", p->samples);
    rc = arrivals_draw(&p->arrivals, p->gap_us * 1000, p->seed, b->gap_ns, p->samples, b->why,
                       sizeof(b->why));
    for (uint32_t i = 0; i < p->samples && rc == 0; i++)
        sum_ns += (double)b->gap_ns[i];
    if (rc == 0 && p->arrivals.kind == ARRIVALS_TRACE)
        p->gap_us = sum_ns / p->samples / 1000;
    return rc;
}

static int prepare_environment(struct bench *b)
{
    struct bench_trace *t = &b->trace;
    int rc = 0;

    if (b->plan.stages || b->plan.break_us > 0) {
        rc = scratch_make(&t->scratch, "cutin", sizeof(t->scratch.folder));
        snprintf(t->pattern, sizeof(t->pattern), "%s/%%p.trace", t->scratch.folder);
        snprintf(t->log, sizeof(t->log), "%s/device.log", t->scratch.folder);
        b->stages.ns = calloc(STAGE_COUNT, sizeof(*b->stages.ns) * b->plan.samples);
        rc = rc == 0 && !b->stages.ns ? -ENOMEM : rc;
    }
    if (b->plan.sim && !b->paths.simulator[0])
        return fail(b, -ENOENT, "the simulated driver is not installed beside cutin");
    snprintf(b->sim_id, sizeof(b->sim_id), "latency-%d", (int)getpid());
    if (b->plan.distance_us[0] && (!b->paths.library[0] || !b->paths.distance[0]))
        return fail(b, -ENOENT, "%s is not installed beside cutin: no --distance",
                    b->paths.library[0] ? "libcutin_distance.so (of cutin-lab)" : "libcutin.so");
    if (b->plan.distance_us[0] && (setenv("CUTIN_DISTANCE_US", b->plan.distance_us, 1) != 0 ||
                                   environment_preload(b->paths.distance, NULL) != 0))
        return -ENOMEM;
    if (rc != 0)
        return fail(b, rc, "cannot make a folder for traces: %s", strerror(-rc));
    if (!wanted(b, BENCH_CUTIN) && !wanted(b, BENCH_UNGATED))
        return 0;
    b->rt[BENCH_CUTIN].shared->break_ns = (uint64_t)(b->plan.break_us * 1000);
    if (!b->paths.library[0] || !b->paths.daemon[0])
        return fail(b, -ENOENT, "%s is not installed beside cutin; try --mode native --mode alone",
                    b->paths.library[0] ? "cutind" : "libcutin.so");
    /* A private daemon, so that figures do not depend on other users of the machine. */
    return daemon_own_start(&b->daemon, b->paths.daemon, "cutin-latency", b->why, sizeof(b->why));
}

/* Starts all workers but cutin's real-time worker, which starts anew in each round. Then measures
 * the noise floor, before best effort runs for the first time. */
static int start_workers(struct bench *b)
{
    struct worker *rt = &b->rt[BENCH_NATIVE];
    int rc = 0;

    if (wanted(b, BENCH_ALONE) || wanted(b, BENCH_NATIVE) || b->plan.floor_ms)
        rc = start(b, rt, BENCH_NATIVE);
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN && rc == 0; m++)
        if (wanted(b, m))
            rc = start(b, &b->be[m], m);
    if (rc != 0 || !b->plan.floor_ms)
        return rc;
    rc = worker_ask(rt, WORKER_FLOOR, b->plan.floor_ms);
    if (rc == 0)
        rc = worker_reply(rt, PATIENCE_MS + 2 * b->plan.floor_ms, &progress_cancel);
    return rc == 0 ? 0 : fail_worker(b, rt, rc);
}

int bench_run(struct bench *b)
{
    double start_s = now_s();
    bool measured = false;
    int rc;

    paths_find(&b->paths);
    rc = prepare(b);
    if (rc == 0)
        rc = prepare_environment(b);
    if (rc == 0)
        rc = start_workers(b);
    if (rc == 0)
        rc = rounds_run(b);
    for (int side = BENCH_NATIVE; side <= BENCH_CUTIN; side++) {
        rc = end_worker(b, &b->rt[side], rc);
        rc = end_worker(b, &b->be[side], rc);
    }
    daemon_own_end(&b->daemon);
    scratch_remove(&b->trace.scratch);
    if (rc == 0)
        bench_describe(b);
    b->cancelled = progress_cancel != 0;
    b->seconds = now_s() - start_s;
    for (int m = 0; m < BENCH_MODES; m++)
        measured |= bench_has(b, m);
    if (rc == -ECANCELED || (progress_cancel && rc == 0 && !measured))
        return fail(b, -ECANCELED, "interrupted before anything was measured");
    return rc;
}

void bench_free(struct bench *b)
{
    for (int m = 0; m < BENCH_MODES; m++) {
        free(b->mode[m].latency_ns);
        free(b->mode[m].sample);
    }
    free(b->gap_ns);
    free(b->stages.ns);
    stage_sources_free(&b->stages.sources);
    for (int side = BENCH_NATIVE; side <= BENCH_CUTIN; side++) {
        worker_free(&b->be[side]);
        worker_free(&b->rt[side]);
    }
}
