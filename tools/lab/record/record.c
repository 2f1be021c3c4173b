/*
 * record.c - `cutin-lab record`: writes the kernels and copies of a program to a workload file.
 *
 * The program runs as real time without a daemon, so none of its calls waits for another process.
 * Its trace keeps the first records and has every call timed by events. The workload is made of the
 * trace of the process that asked most of the GPU.
 */
#include "tools/cutin/run/run.h"
#include "tools/cutin/paths.h"
#include "tools/lab/lab.h"
#include "kernel_times.h"
#include "tools/cutin/progress.h"
#include "spans.h"
#include "tools/cutin/trace/trace_view.h"
#include "workload.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOW_EVERY = 1024 }; /* steps from one show of the progress to the next */

static struct plan {
    const char *output, *times, *records;
    bool sim;
} given = {.output = "workload.cutw", .records = "1048576"};

static const struct option_row options[] = {
    {"output", "FILE", "the workload file (workload.cutw)", 'o', TAKE_TEXT(given.output)},
    {"kernel-times", "FILE",
     "also write the kernels' durations as a table for the\n"
     "simulated GPU (SIMGPU_KERNEL_TIMES)",
     TAKE_TEXT(given.times)},
    {"sim", NULL, "run on the simulated GPU", TAKE_FLAG(given.sim)},
    {"records", "N",
     "room for N records of 64 bytes, about two per kernel; later\n"
     "ones are not recorded (1048576)",
     TAKE_NUMBER(given.records, TRACE_LEAST_RECORDS, TRACE_MOST_RECORDS)},
    {0},
};

/* ---- from trace to workload ----------------------------------------------------------------- */

/* A call. The list is sorted by the time of the call. */
struct step {
    struct trace_record record;
    uint64_t duration_ns; /* UINT64_MAX: not timed */
};

struct steps {
    struct step *list;
    size_t n;
    uint64_t last_ns; /* when the last known work was complete */
    uint64_t busy_ns; /* how long the GPU had a kernel */
};

static const struct {
    const char *part;
    enum workload_direction direction;
} directions[] = {
    {"cuMemset", WORKLOAD_SET}, {"HtoD", WORKLOAD_TO_DEVICE}, {"HtoA", WORKLOAD_TO_DEVICE},
    {"DtoH", WORKLOAD_TO_HOST}, {"AtoH", WORKLOAD_TO_HOST},   {"cuMemcpy", WORKLOAD_ON_DEVICE},
};

static int direction_of(const char *name)
{
    for (size_t i = 0; i < sizeof(directions) / sizeof(*directions); i++)
        if (strstr(name, directions[i].part))
            return (int)directions[i].direction;
    return -1;
}

static bool is_graph(const char *name)
{
    return strcmp(name, "cuGraphLaunch") == 0;
}

/* Whether the workload takes this record. */
static bool step_wanted(const struct trace_view *v, const struct trace_record *r)
{
    const char *name = trace_view_name(v, r->name);

    return r->kind == TRACE_KERNEL || r->kind == TRACE_SYNC ||
           (r->kind == TRACE_COPY && (is_graph(name) || direction_of(name) >= 0));
}

static int by_time(const void *a, const void *b)
{
    const struct trace_record *x = &((const struct step *)a)->record;
    const struct trace_record *y = &((const struct step *)b)->record;

    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns)
                          : (x->seq > y->seq) - (x->seq < y->seq);
}

static int by_op(const void *a, const void *b)
{
    uint32_t x = ((const struct step *)a)->record.copy.op;
    uint32_t y = ((const struct step *)b)->record.copy.op;

    return (x > y) - (x < y);
}

static void steps_note_end(struct steps *s, uint64_t ns)
{
    if (s->last_ns < ns)
        s->last_ns = ns;
}

/* FNV-1a of what a kernel's time depends on. */
static uint64_t shape_of(const struct trace_record *r)
{
    uint32_t word[8] = {r->name};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (r->kind == TRACE_KERNEL) {
        memcpy(word + 1, r->kernel.grid, sizeof(r->kernel.grid));
        for (int i = 0; i < 3; i++)
            word[4 + i] = r->kernel.block[i];
        word[7] = r->kernel.shared;
    }
    for (int i = 0; i < 8; i++)
        hash = (hash ^ word[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* Whether it takes multiprocessors, and so waits while others have them: any work but a copy. */
static bool step_uses_sms(const struct trace_view *v, const struct trace_record *r)
{
    return r->kind == TRACE_KERNEL || is_graph(trace_view_name(v, r->name));
}

/* Finds the times of calls. Their samples come later, and in another order. */
static int steps_time(struct steps *s, const struct trace_view *v)
{
    struct span *span = calloc(s->n + 1, sizeof(*span));
    struct trace_clocks clocks;
    struct trace_record r;
    size_t spans = 0;

    if (!span)
        return -ENOMEM;
    trace_clocks_read(&clocks, v);
    qsort(s->list, s->n, sizeof(*s->list), by_op);
    for (uint64_t i = v->first; i < v->end; i++) {
        struct step key, *found;
        uint64_t start_ns, took_ns;

        if (!trace_view_get(v, i, &r) || r.kind != TRACE_SAMPLE || !r.sample.op ||
            !trace_clocks_convert(&clocks, &r, &start_ns, &took_ns))
            continue;
        key.record.copy.op = r.sample.op;
        found = bsearch(&key, s->list, s->n, sizeof(key), by_op);
        if (!found || found->record.kind == TRACE_SYNC)
            continue;
        if (found->duration_ns == UINT64_MAX && step_uses_sms(v, &found->record))
            span[spans++] = (struct span){.from_ns = start_ns,
                                          .until_ns = start_ns + took_ns,
                                          .shape = shape_of(&found->record),
                                          .stream = found->record.stream,
                                          .took_ns = &found->duration_ns};
        found->duration_ns = took_ns;
        steps_note_end(s, start_ns + took_ns);
    }
    spans_estimate(span, spans);
    s->busy_ns = spans_busy_ns(span, spans);
    free(span);
    qsort(s->list, s->n, sizeof(*s->list), by_time);
    return 0;
}

/* False: stop. Shows the progress once for many calls. */
static bool proceed(size_t done, size_t total, const char *what)
{
    if (done % SHOW_EVERY == 0)
        progress_show((double)done, (double)total, what);
    return !progress_cancel;
}

static int steps_read(struct steps *s, const struct trace_view *v)
{
    struct trace_record r;

    *s = (struct steps){.list = calloc(v->end - v->first + 1, sizeof(*s->list))};
    if (!s->list)
        return -ENOMEM;
    for (uint64_t i = v->first; i < v->end && proceed(i - v->first, v->end - v->first, "trace");
         i++)
        if (trace_view_get(v, i, &r) && step_wanted(v, &r)) {
            s->list[s->n++] = (struct step){.record = r, .duration_ns = UINT64_MAX};
            steps_note_end(s, r.ns + r.copy.took_ns);
        }
    return steps_time(s, v);
}

/* Streams are numbered in the order of first use. */
struct streams {
    uint32_t seen[WORKLOAD_MOST_STREAMS];
    uint32_t n;
};

static uint16_t stream_number(struct streams *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->n; i++)
        if (s->seen[i] == id)
            return (uint16_t)i;
    if (s->n < WORKLOAD_MOST_STREAMS)
        s->seen[s->n++] = id;
    return (uint16_t)(s->n - 1);
}

static struct workload_op op_of(const struct step *step, const char *name, uint64_t first_ns)
{
    const struct trace_record *r = &step->record;
    struct workload_op op = {.at_ns = r->ns - first_ns, .kind = WORKLOAD_KERNEL};

    if (r->kind == TRACE_SYNC) {
        op.kind = WORKLOAD_SYNC;
        op.duration_ns = r->copy.took_ns;
        return op;
    }
    op.duration_ns = step->duration_ns;
    if (r->kind == TRACE_COPY && !is_graph(name)) {
        op.kind = WORKLOAD_COPY;
        op.direction = (uint8_t)direction_of(name);
        op.bytes = r->copy.bytes;
        return op;
    }
    for (int i = 0; i < 3; i++) { /* a whole graph is one kernel of one block */
        op.grid[i] = r->kind == TRACE_KERNEL ? r->kernel.grid[i] : 1;
        op.block[i] = r->kind == TRACE_KERNEL ? r->kernel.block[i] : 1;
    }
    op.shared = r->kind == TRACE_KERNEL ? r->kernel.shared : 0;
    return op;
}

/* An op that could not be timed gets the mean of others of its name or direction, and size. */
static size_t fill_untimed(struct workload *w)
{
    size_t untimed = 0;

    for (size_t i = 0; i < w->ops; i++) {
        struct workload_op *op = &w->op[i];
        uint64_t sum = 0, n = 0;

        if (op->duration_ns != UINT64_MAX)
            continue;
        untimed++;
        for (size_t k = 0; k < w->ops && proceed(i, w->ops, "times"); k++) {
            const struct workload_op *o = &w->op[k];
            if (o->duration_ns == UINT64_MAX || o->kind != op->kind || o->name != op->name ||
                o->direction != op->direction || o->bytes != op->bytes)
                continue;
            sum += o->duration_ns;
            n++;
            if (n == 64)
                break;
        }
        op->duration_ns = n ? sum / n : 0;
    }
    return untimed;
}

/* Ops that were not timed have a duration of UINT64_MAX. */
static int convert(struct workload *w, const struct trace_view *v, uint64_t *busy_ns)
{
    struct streams *streams = calloc(1, sizeof(*streams));
    struct steps s = {0};
    int rc = streams ? steps_read(&s, v) : -ENOMEM;
    bool cut = progress_cancel != 0; /* then the workload is what was read so far */

    for (size_t i = 0; i < s.n && rc == 0 && (proceed(i, s.n, "workload") || cut); i++) {
        const char *name = trace_view_name(v, s.list[i].record.name);
        struct workload_op op = op_of(&s.list[i], name, s.list[0].record.ns);

        if (op.kind != WORKLOAD_SYNC)
            op.stream = stream_number(streams, s.list[i].record.stream);
        if (op.kind == WORKLOAD_KERNEL) {
            rc = workload_kernel(w, name);
            op.name = (uint32_t)(rc > 0 ? rc : 0);
        }
        if (rc >= 0)
            rc = workload_add(w, &op);
    }
    if (rc == 0 && s.n && w->total_ns < s.last_ns - s.list[0].record.ns)
        w->total_ns = s.last_ns - s.list[0].record.ns;
    *busy_ns = s.busy_ns;
    free(s.list);
    free(streams);
    return rc;
}

/* ---- the command ---------------------------------------------------------------------------- */

/* Opens the trace with the most records. `n` gets the number of traces. */
static int busiest(char *const *files, struct trace_view *best, size_t *n)
{
    struct trace_view v;
    char why[512];

    *n = 0;
    *best = (struct trace_view){0};
    for (; *files; files++) {
        if (trace_view_open(&v, *files, why, sizeof(why)) != 0) {
            say(&subcommand_record, "%s", why);
            continue;
        }
        ++*n;
        if (best->file && best->end - best->first + best->lost >= v.end - v.first + v.lost) {
            trace_view_close(&v);
            continue;
        }
        trace_view_close(best);
        *best = v;
    }
    return *n ? 0 : -ENODATA;
}

/* `busy_ns` is the GPU's time: less than the sum where kernels ran side by side. */
static void report(const struct plan *p, const struct workload *w, uint64_t busy_ns,
                   const struct trace_view *v, size_t processes, size_t untimed)
{
    uint64_t kernel_ns, copy_ns, wait_ns;
    size_t kernels = workload_count(w, WORKLOAD_KERNEL, &kernel_ns);
    size_t copies = workload_count(w, WORKLOAD_COPY, &copy_ns);
    size_t syncs = workload_count(w, WORKLOAD_SYNC, &wait_ns);

    fprintf(
        stderr,
        "cutin-lab record: %s: %zu kernels (%u names, %.3f s of GPU time), %zu copies, %zu waits, "
        "%.3f s\n",
        p->output, kernels, w->kernels, (double)busy_ns / 1e9, copies, syncs,
        (double)w->total_ns / 1e9);
    if (processes > 1)
        say(&subcommand_record, "%zu processes used the GPU; recorded process %u, the busiest",
            processes, v->file->header.pid);
    if (v->lost)
        say(&subcommand_record, "%llu records did not fit; see --records",
            (unsigned long long)v->lost);
    if (untimed)
        say(&subcommand_record, "%zu operations were not timed, and got the mean of their kind",
            untimed);
    if (progress_cancel)
        say(&subcommand_record, "interrupted; the file has what was converted");
}

static int save_times(const struct plan *p, const struct workload *w)
{
    char why[512];
    size_t lines;
    int rc = kernel_times_write(w, p->times, &lines, why, sizeof(why));

    if (rc != 0)
        say(&subcommand_record, "%s", why);
    else
        fprintf(stderr, "cutin-lab record: %s: the times of %zu shapes of kernels\n", p->times,
                lines);
    return rc;
}

/* The child plan's `use_files`. */
static int save(void *user, char *const *files, size_t n)
{
    const struct plan *p = user;
    struct workload w = {0};
    struct trace_view v;
    char why[512];
    size_t processes, untimed = 0;
    uint64_t busy_ns = 0;
    int rc = busiest(files, &v, &processes), times = 0;

    if (rc == 0)
        rc = convert(&w, &v, &busy_ns);
    if (rc == 0 && w.ops == 0)
        rc = -ENODATA;
    if (rc == 0 && p->times)
        times = save_times(p, &w);
    if (rc == 0)
        untimed = fill_untimed(&w);
    if (rc == -ENODATA)
        say(&subcommand_record, "nothing was recorded: the program did nothing on the GPU");
    else if (rc != 0)
        say(&subcommand_record, "%s",
            rc == -E2BIG ? "more than a workload file can hold" : strerror(-rc));
    else if ((rc = workload_write(&w, p->output, why, sizeof(why))) != 0)
        say(&subcommand_record, "%s", why);
    else
        report(p, &w, busy_ns, &v, processes, untimed);
    progress_end();
    trace_view_close(&v);
    workload_free(&w);
    return rc ? rc : times;
}

static int run(struct plan *p, char *const argv[])
{
    const struct variable set[] = {{"CUTIN_TRACE_KEEP", "first"},
                                   {"CUTIN_TRACE_RECORDS", p->records},
                                   {"CUTIN_PRIORITY", "rt"},
                                   {"CUTIN_SOCKET", ""},
                                   {0}};
    struct child_plan plan = {.set = set, .sim = p->sim, .use_files = save, .user = p};

    return child_run(&subcommand_record, &plan, argv);
}

static int record(const struct subcommand *cmd, int argc, char **argv)
{
    options_read(cmd, argc, argv);
    if (optind >= argc)
        fail_usage(cmd, "no program given");
    if (output_check(cmd, given.output) != 0 || output_check(cmd, given.times) != 0)
        return EXIT_FAILURE;
    return run(&given, argv + optind);
}

const struct subcommand subcommand_record = {
    .name = "record",
    .summary = "record what a program asks of the GPU",
    .synopsis = "[OPTIONS] [--] PROGRAM [ARGUMENT...]",
    .about =
        "Runs PROGRAM and writes its kernels (name, grid, block, shared memory, stream, measured\n"
        "duration), copies and pauses to a workload file, for cutin-lab replay. Every kernel is\n"
        "timed, which slows PROGRAM down. The exit status is PROGRAM's; 125 to 127 as with env(1).",
    .options = options,
    .run = record,
};
