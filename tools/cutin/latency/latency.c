/*
 * latency.c - `cutin latency`: how long does real-time work wait on a busy GPU?
 *
 * A best-effort process keeps the GPU busy. A real-time process launches a short kernel for each
 * request; it measures on the host from the request's arrival until it knows the kernel complete.
 * Modes alternate in rounds, so other work of the machine hits all alike: `alone` (no best effort),
 * `native` (both on the plain driver), `cutin` (both under libcutin.so, with a private daemon), and
 * `ungated` (bench.h). In each round best effort also runs by itself, which shows what it loses
 * with no client above. Its checksum shows whether an update was lost, repeated or swapped.
 *
 * With --attach: how long a running process above best effort waits, and which processes it holds.
 * This is read from what exists anyway: its page (through the daemon), its trace if it writes one,
 * and the simulated device's log. It is sent nothing and not stopped.
 */
#include "bench.h"
#include "tools/cutin/operate/clients.h"
#include "tools/cutin/kernel_name.h"
#include "common/clock.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <glob.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/level.h"
#include "common/list.h"

enum { WORST = 10, LOG_SETTLES_US = 20000, LOOK_BACK = 64 };

/* A cut-in of the process, from its trace and the device's log, and what delayed it. */
struct cut {
    uint64_t call_ns, in_ns, out_ns; /* 0: not known */
    uint64_t begin_ns;               /* when its first kernel began; 0: not known */
    uint32_t op;
    pid_t by;       /* the process whose kernel delayed it; 0: not known */
    uint64_t by_ns; /* how long that kernel delayed it */
    char kernel[96];
};

struct attach {
    const char *who; /* a process id, or a level: its busiest process; NULL: no --attach */
    double seconds;
    struct clients before, after;
    const struct message_row *row; /* the process's row at the end */
    uint64_t from_ns, to_ns;
    bool traced, logged;
    struct cut *cut; /* in the end only the worst, sorted */
    size_t cuts, room;
    struct figures wait, held;
    uint64_t n; /* cut-ins as the process's page counts them */
};

static uint64_t cut_held_ns(const struct cut *c)
{
    return c->out_ns > c->in_ns ? c->out_ns - c->in_ns : 0;
}

/* Of the hold, if the call is not known. */
static uint64_t cut_call_ns(const struct cut *c)
{
    return c->call_ns ? c->call_ns : c->in_ns;
}

/* From the call until the first kernel began. 0 if the begin is not known. */
static uint64_t cut_wait_ns(const struct cut *c)
{
    return c->begin_ns > cut_call_ns(c) ? c->begin_ns - cut_call_ns(c) : 0;
}

/* Takes the cut-ins up to `to_ns`, and when kernels began that the trace has timed. */
static int add_record(struct attach *a, const struct trace_clocks *clocks,
                      const struct trace_record *r)
{
    uint64_t start_ns, took_ns;
    int rc = 0;

    switch (r->kind) {
    case TRACE_CUT_IN:
        if (r->ns <= a->to_ns && (rc = list_grow(&a->cut, &a->room, a->cuts, sizeof(*a->cut))) == 0)
            a->cut[a->cuts++] = (struct cut){.in_ns = r->ns};
        return rc;
    case TRACE_CUT_OUT:
        if (a->cuts && !a->cut[a->cuts - 1].out_ns)
            a->cut[a->cuts - 1].out_ns = r->ns;
        return 0;
    case TRACE_KERNEL:
    case TRACE_COPY:
        /* Finds the cut-ins during this call. A call's record comes when it has returned. */
        for (size_t i = a->cuts; i-- > 0 && i + LOOK_BACK > a->cuts;) {
            struct cut *c = &a->cut[i];
            if (!c->call_ns && r->ns <= c->in_ns && c->in_ns <= r->ns + r->copy.took_ns) {
                c->call_ns = r->ns;
                c->op = r->copy.op;
            }
        }
        return 0;
    case TRACE_SAMPLE:
        for (size_t i = a->cuts; r->sample.op && i-- > 0;)
            if (a->cut[i].op == r->sample.op &&
                trace_clocks_convert(clocks, r, &start_ns, &took_ns))
                a->cut[i].begin_ns = start_ns;
    }
    return 0;
}

static void add_work(struct attach *a, const struct device_work *w, bool begins)
{
    for (struct cut *c = a->cut; c < a->cut + a->cuts; c++) {
        /* The part of the kernel's time that lies between the hold and the begin. */
        uint64_t from_ns = w->start_ns > c->in_ns ? w->start_ns : c->in_ns,
                 to_ns = w->end_ns < c->begin_ns ? w->end_ns : c->begin_ns;

        if (!begins && w->pid != a->row->pid && from_ns < to_ns && to_ns - from_ns > c->by_ns) {
            c->by_ns = to_ns - from_ns;
            c->by = w->pid;
            snprintf(c->kernel, sizeof(c->kernel), "%s",
                     kernel_name(w->name, KERNEL_NAME_EVENT, false));
        }
        if (begins && w->pid == a->row->pid && w->start_ns >= cut_call_ns(c) &&
            (!c->out_ns || w->start_ns <= c->out_ns) && (!c->begin_ns || w->start_ns < c->begin_ns))
            c->begin_ns = w->start_ns;
    }
}

/* Reads the simulated device's log, if the process appends to one: when its first kernels began,
 * and the kernel of another process that delayed each most. Takes two passes, because the second
 * question needs the answer to the first. */
static void read_log(struct attach *a)
{
    uint64_t first_ns = a->cuts ? a->cut[0].in_ns : 0;
    FILE *environment, *log = NULL;
    char path[48], *text = NULL;
    struct device_work w;
    size_t room = 0;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)a->row->pid);
    environment = fopen(path, "re");
    while (environment && !log && getdelim(&text, &room, '\0', environment) > 0)
        if (strncmp(text, "SIMGPU_LOG=", 11) == 0)
            log = fopen(text + 11, "re");
    if (environment)
        fclose(environment);
    a->logged = !!log;
    for (size_t i = 0; i < a->cuts && log; i++)
        a->cut[i].begin_ns = 0;
    for (int pass = 0; pass < 2 && log; pass++) {
        rewind(log);
        while (getline(&text, &room, log) > 0)
            if (device_log_parse(text, &w) && strcmp(w.kind, "kernel") == 0 &&
                w.end_ns + 1000000 >= first_ns)
                add_work(a, &w, pass == 0);
    }
    if (log)
        fclose(log);
    free(text);
}

/* Without a log, a cut-in with no known cause is put down to what was submitted last before it. */
static void read_below(struct attach *a, const struct trace_view *v)
{
    struct trace_record r;

    for (struct cut *c = a->cut; c < a->cut + a->cuts; c++) {
        uint64_t last_ns = 0;
        uint32_t op = 0;
        for (uint64_t k = v->first; k < v->end && !c->by; k++)
            if (trace_view_get(v, k, &r) && r.kind == TRACE_SUBMITTED && r.ns <= c->in_ns &&
                r.ns >= last_ns && r.queue.op) {
                last_ns = r.ns;
                op = r.queue.op;
            }
        if (!op)
            continue;
        c->by = (pid_t)v->file->header.pid;
        /* The kernel's name is in the trace if the launch is still there. */
        for (uint64_t k = v->first; k < v->end; k++)
            if (trace_view_get(v, k, &r) && r.kind == TRACE_KERNEL && r.kernel.op == op)
                snprintf(c->kernel, sizeof(c->kernel), "%s",
                         kernel_name(trace_view_name(v, r.name), KERNEL_NAME_EVENT, false));
    }
}

/* `who` is a process id or a level. A level means its process that cut in most often. */
static const struct message_row *find(const struct clients *c, const char *who)
{
    const struct message_row *found = NULL;
    long pid = strtol(who, NULL, 10);

    for (size_t i = 0; i < c->n; i++) {
        const struct message_row *r = &c->rows[i];
        bool of_level = strcmp(level_name(r->level), who) == 0;
        if (r->pid == pid && pid > PAGE_LEVELS)
            return r;
        if (of_level && (!found || row_sums_make(r).cut_ins > row_sums_make(found).cut_ins))
            found = r;
    }
    return found;
}

/* Opens the trace that a process writes: one of its threads has the file open. False: it writes
 * none, or belongs to another user. */
static bool open_trace(pid_t pid, struct trace_view *v)
{
    char path[48], why[256];
    bool found = false;
    glob_t files = {0};
    struct stat st;

    snprintf(path, sizeof(path), "/proc/%d/task/*/fd/*", (int)pid);
    glob(path, GLOB_NOSORT, NULL, &files);
    for (size_t i = 0; i < files.gl_pathc && !found; i++)
        found = stat(files.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode) &&
                trace_view_await(v, files.gl_pathv[i], clock_ns(), why, sizeof(why)) == 0;
    globfree(&files);
    return found;
}

/* Sorts by the wait, or by the time of the hold if the begin is not known. */
static int worse(const void *a, const void *b)
{
    const struct cut *c = a, *d = b;
    uint64_t x = c->begin_ns ? cut_wait_ns(c) : cut_held_ns(c),
             y = d->begin_ns ? cut_wait_ns(d) : cut_held_ns(d);

    return (x < y) - (x > y);
}

/* Makes figures of all cut-ins, and keeps the worst. Returns 0 or -ENOMEM. */
static int describe(struct attach *a)
{
    uint64_t *waits = calloc(2 * a->cuts + 1, sizeof(*waits)), *helds;
    size_t waited = 0, held = 0;
    struct trace_view v;

    if (!waits)
        return -ENOMEM;
    helds = waits + a->cuts;
    for (const struct cut *c = a->cut; c < a->cut + a->cuts; c++) {
        if (c->begin_ns)
            waits[waited++] = cut_wait_ns(c);
        if (c->out_ns)
            helds[held++] = cut_held_ns(c);
    }
    figures_make(&a->wait, waits, waited);
    figures_make(&a->held, helds, held);
    free(waits);
    /* If the begin of some is known, the worst are chosen among these. */
    for (struct cut *c = a->cut; c < a->cut + a->cuts && waited; c++)
        if (!c->begin_ns)
            c->out_ns = c->in_ns;
    if (a->cuts)
        qsort(a->cut, a->cuts, sizeof(*a->cut), worse);
    a->cuts = a->cuts < WORST ? a->cuts : WORST;
    /* Without a log, the traces of the processes below name what delayed the worst. */
    for (size_t i = 0; i < a->after.n && !a->logged; i++) {
        if (a->after.rows[i].level >= a->row->level || !open_trace(a->after.rows[i].pid, &v))
            continue;
        read_below(a, &v);
        trace_view_close(&v);
    }
    return 0;
}

/* Reads what the process did from `from_ns` on. Returns 0 or -ENOMEM. */
static int read_files(struct attach *a)
{
    struct trace_view trace;
    struct trace_clocks clocks;
    struct trace_record r;
    int rc = 0;

    a->traced = open_trace(a->row->pid, &trace);
    if (!a->traced)
        return 0;
    trace_clocks_read(&clocks, &trace);
    for (uint64_t i = trace.first; i < trace.end && rc == 0; i++)
        if (trace_view_get(&trace, i, &r) && r.ns >= a->from_ns)
            rc = add_record(a, &clocks, &r);
    trace_view_close(&trace);
    if (rc != 0)
        return rc;
    read_log(a);
    return describe(a);
}

static const char *wait_method(const struct attach *a)
{
    return a->logged         ? "the simulated device's log"
           : a->wait.samples ? "timing events around some of its calls"
                             : "not known: its kernels were not timed";
}

static void print_figures(const char *what, const struct figures *f)
{
    printf("%-22s", what);
    if (f->samples == 0) {
        puts(" not known");
        return;
    }
    printf(" p50 %.1f us", f->p50_us);
    if (f->samples >= figures_least_samples(99))
        printf(", p99 %.1f us", f->p99_us);
    printf(", max %.1f us, of %zu\n", f->max_us, f->samples);
}

static void print_process(const struct attach *a)
{
    printf("%d (%.*s), %s: %" PRIu64 " cut-ins in %.1f s, by its page\n", a->row->pid,
           (int)PAGE_NAME, a->row->name, level_name(a->row->level), a->n,
           (double)(a->to_ns - a->from_ns) / 1e9);
    if (a->traced) {
        print_figures("preemption latency", &a->wait);
        printf("%-22s %s\n", "", wait_method(a));
        print_figures("hold times", &a->held);
    } else {
        puts("no latencies: it writes no trace that this command can read; start it with "
             "CUTIN_TRACE=FILE");
    }
}

static struct bench bench = {.plan = BENCH_ONE_PLAN};

/* As text without --json. Returns the exit status. */
static int give(const struct attach *a, int argc, char **argv)
{
    json_t *below = json_array(), *worst = json_array();
    bool text = !bench.plan.json;
    char when[RESULT_TIME];

    if (text)
        print_process(a);
    for (const struct message_row *r = a->after.rows; r < a->after.rows + a->after.n; r++) {
        struct row_figures f = row_figures_make(r, &a->before);
        if (r->level >= a->row->level)
            continue;
        if (text)
            printf("below it: %d (%.*s), %s: held %" PRIu64
                   " times, p50 %.1f us, p99 %.1f us; its last "
                   "command done\nafter p50 %.1f us, p99 %.1f us (by its page)\n",
                   r->pid, (int)PAGE_NAME, r->name, level_name(r->level), f.hold.count,
                   f.hold.p50_ns / 1e3, f.hold.p99_ns / 1e3, f.preemption.p50_ns / 1e3,
                   f.preemption.p99_ns / 1e3);
        json_array_append_new(
            below,
            json_pack("{s:i, s:I, s:o, s:o, s:o, s:o}", "pid", (int)r->pid, "holds",
                      (json_int_t)f.hold.count, "hold_p50_us", result_number(f.hold.p50_ns / 1e3),
                      "hold_p99_us", result_number(f.hold.p99_ns / 1e3), "preemption_p50_us",
                      result_number(f.preemption.p50_ns / 1e3), "preemption_p99_us",
                      result_number(f.preemption.p99_ns / 1e3)));
    }
    if (text && a->cuts)
        puts("the worst:");
    for (const struct cut *c = a->cut; c < a->cut + a->cuts; c++) {
        double wait_us = (double)cut_wait_ns(c) / 1e3, held_us = (double)cut_held_ns(c) / 1e3;

        result_time(bench_since_1970_ns(c->in_ns), when);
        if (text)
            printf("  %s  waited %.1f us, held %.1f us; ", when, wait_us, held_us);
        if (text && c->by)
            printf("in its way: %s of %d\n", c->kernel, (int)c->by);
        else if (text)
            puts("nothing is known to have been in its way");
        json_array_append_new(worst,
                              json_pack("{s:s, s:o, s:o, s:o, s:o}", "at", when, "preemption_us",
                                        c->begin_ns ? result_number(wait_us) : json_null(),
                                        "held_us", result_number(held_us), "by",
                                        c->by ? json_integer(c->by) : json_null(), "kernel",
                                        c->by ? json_string(c->kernel) : json_null()));
    }
    return result_give(
        json_pack("{s:{s:i, s:s, s:o, s:I, s:b, s:s, s:o, s:o, s:o, s:o}, s:{s:s, s:o, s:o}}",
                  "attached", "pid", (int)a->row->pid, "level", level_name(a->row->level),
                  "seconds", result_number((double)(a->to_ns - a->from_ns) / 1e9), "cut_ins",
                  (json_int_t)a->n, "traced", a->traced, "method", wait_method(a), "preemption_us",
                  result_brief(&a->wait), "hold_us", result_brief(&a->held), "below", below,
                  "worst", worst, "config", "version", CUTIN_VERSION, "command",
                  result_command(argc, argv), "machine", result_machine()),
        bench.plan.json);
}

static int observe(struct attach *a)
{
    const struct message_row *then;
    uint64_t until_ns;
    int rc = query_clients(daemon_socket(), &a->before.rows, &a->before.n);

    if (rc != 0)
        return say(&subcommand_latency, "%s", daemon_error(daemon_socket(), rc));
    then = find(&a->before, a->who);
    if (!then || then->level == 0)
        return say(&subcommand_latency,
                   then ? "process %s is best effort: it holds no other process"
                        : "no process %s under cutin; `cutin list` shows those that are",
                   a->who);
    a->from_ns = clock_ns();
    until_ns = a->from_ns + (uint64_t)(a->seconds * 1e9);
    while (!progress_cancel && clock_ns() < until_ns) {
        progress_show((double)(clock_ns() - a->from_ns) / 1e9, a->seconds, "attached");
        clock_sleep_us(LOG_SETTLES_US);
    }
    progress_end();
    a->to_ns = clock_ns();
    clock_sleep_us(LOG_SETTLES_US); /* calls under way end */
    rc = query_clients(daemon_socket(), &a->after.rows, &a->after.n);
    if (rc != 0)
        return say(&subcommand_latency, "%s", daemon_error(daemon_socket(), rc));
    a->row = clients_find(&a->after, then->client);
    a->n = row_sums_make(a->row).cut_ins - row_sums_make(then).cut_ins;
    return a->row ? EXIT_SUCCESS : say(&subcommand_latency, "process %d has ended", (int)then->pid);
}

static struct attach attach = {.seconds = 5};
static const char *worker;

static const struct option_row options[] = {
    BENCH_ONE_OPTION_ROWS(bench.plan),
    {"attach", "PID",
     "measure a running process from outside: PID, or the busiest process of a\n"
     "level (1, 2, rt)",
     TAKE_TEXT(attach.who)},
    {"seconds", "N", "how long to measure, with --attach (5)",
     TAKE_DECIMAL(attach.seconds, 0.01, 86400)},
    {"socket", "PATH", "the daemon's socket, with --attach", TAKE_TEXT(daemon_asked)},
    {"worker", "ROLE", NULL, TAKE_TEXT(worker)},
    {0},
};

static int latency(const struct subcommand *cmd, int argc, char **argv)
{
    int rc;

    options_read(cmd, argc, argv);
    if (worker)
        return worker_main(worker);
    options_no_operands(cmd, argc, argv);
    if (!attach.who)
        return bench_command(cmd, &bench, argc, argv, NULL);
    progress_begin();
    rc = observe(&attach);
    if (rc == EXIT_SUCCESS && read_files(&attach) != 0)
        rc = say(cmd, "no memory for its cut-ins");
    if (rc == EXIT_SUCCESS)
        rc = give(&attach, argc, argv);
    free(attach.cut);
    clients_free(&attach.before);
    clients_free(&attach.after);
    return rc;
}

const struct subcommand subcommand_latency = {
    .name = "latency",
    .summary = "measure how long real-time work waits on a busy GPU",
    .synopsis = "[OPTIONS]",
    .about =
        "Measures the time from a request's arrival to the completion of its short kernel: alone,\n"
        "beside a busy best-effort process on the plain driver (native), and with both under\n"
        "cutin.",
    .options = options,
    .run = latency,
};
