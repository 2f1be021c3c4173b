/*
 * attach.c - `cutin latency --attach`: how long a running process above best effort waits, and
 * which processes it holds. This is read from what exists anyway: its page (through the daemon),
 * its trace if it writes one, and the simulated device's log. It is sent nothing and not stopped.
 */
#include "bench.h"
#include "tools/cutin/operate/clients.h"
#include "tools/cutin/kernel_name.h"
#include "tools/cutin/nap.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <glob.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "common/level.h"
#include "common/list.h"

enum { WORST = 10, LOG_SETTLES_US = 20000, LOOK_BACK = 64 };

/* The cut-ins of one process, from its trace and the device's log, and what delayed each of
 * them. */
struct cut {
    uint64_t call_ns, in_ns, out_ns; /* 0: not known */
    uint64_t begin_ns;               /* when its first kernel began; 0: not known */
    uint32_t op;
    pid_t by;       /* the process whose kernel delayed it; 0: not known */
    uint64_t by_ns; /* how long that kernel delayed it */
    char kernel[96];
};
struct cuts {
    struct cut *at;
    size_t n, room;
};

struct attach {
    const struct attach_plan *plan;
    const char *socket;
    struct clients before, after;
    const struct message_row *row; /* the process's row at the end */
    uint64_t from_ns, to_ns;
    bool traced, logged;
    struct cuts cuts;
    struct figures wait, held;
    size_t waits;
    size_t worst; /* how many of the sorted cuts are shown */
    uint64_t n;   /* cut-ins as the process's page counts them */
};

static uint64_t cut_held_ns(const struct cut *c)
{
    return c->out_ns > c->in_ns ? c->out_ns - c->in_ns : 0;
}

/* From the call (from the hold, if the call is not known) until the first kernel began. 0 if the
 * begin is not known. */
static uint64_t cut_wait_ns(const struct cut *c)
{
    uint64_t from_ns = c->call_ns ? c->call_ns : c->in_ns;

    return c->begin_ns > from_ns ? c->begin_ns - from_ns : 0;
}

/* ---- the process's own trace ---------------------------------------------------------------- */

static int add_record(struct cuts *c, const struct trace_clocks *clocks,
                      const struct trace_record *r, uint64_t to_ns)
{
    bool kernel = r->kind == TRACE_KERNEL;
    uint64_t start_ns, took_ns;
    int rc = 0;

    switch (r->kind) {
    case TRACE_CUT_IN:
        if (r->ns <= to_ns && (rc = list_grow(&c->at, &c->room, c->n, sizeof(*c->at))) == 0)
            c->at[c->n++] = (struct cut){.in_ns = r->ns};
        return rc;
    case TRACE_CUT_OUT:
        if (c->n && !c->at[c->n - 1].out_ns)
            c->at[c->n - 1].out_ns = r->ns;
        return 0;
    case TRACE_KERNEL:
    case TRACE_COPY:
        /* Finds the cut-ins during this call. A call's record comes when it has returned. */
        took_ns = kernel ? r->kernel.took_ns : r->copy.took_ns;
        for (size_t i = c->n; i-- > 0 && i + LOOK_BACK > c->n;)
            if (!c->at[i].call_ns && r->ns <= c->at[i].in_ns && c->at[i].in_ns <= r->ns + took_ns) {
                c->at[i].call_ns = r->ns;
                c->at[i].op = kernel ? r->kernel.op : r->copy.op;
            }
        return 0;
    case TRACE_SAMPLE:
        for (size_t i = c->n; r->sample.op && i-- > 0;)
            if (c->at[i].op == r->sample.op && trace_clocks_convert(clocks, r, &start_ns, &took_ns))
                c->at[i].begin_ns = start_ns;
    }
    return 0;
}

/* ---- the device ----------------------------------------------------------------------------- */

static void add_work(struct cuts *c, const struct device_work *w, pid_t pid, bool begins)
{
    for (size_t i = 0; i < c->n; i++) {
        struct cut *cut = &c->at[i];
        uint64_t call_ns = cut->call_ns ? cut->call_ns : cut->in_ns;
        /* The part of the kernel's time that lies between the hold and the begin. */
        uint64_t from_ns = w->start_ns > cut->in_ns ? w->start_ns : cut->in_ns,
                 to_ns = w->end_ns < cut->begin_ns ? w->end_ns : cut->begin_ns;

        if (!begins && w->pid != pid && from_ns < to_ns && to_ns - from_ns > cut->by_ns) {
            cut->by_ns = to_ns - from_ns;
            cut->by = w->pid;
            snprintf(cut->kernel, sizeof(cut->kernel), "%s",
                     kernel_name(w->name, KERNEL_NAME_EVENT, false));
        }
        if (begins && w->pid == pid && w->start_ns >= call_ns &&
            (!cut->out_ns || w->start_ns <= cut->out_ns) &&
            (!cut->begin_ns || w->start_ns < cut->begin_ns))
            cut->begin_ns = w->start_ns;
    }
}

/* Finds when the first kernels of `pid` began, and the kernel of another process that delayed each
 * most. Takes two passes, because the second question needs the answer to the first. */
static void cuts_read_log(struct cuts *c, FILE *log, pid_t pid)
{
    uint64_t first_ns = c->n ? c->at[0].in_ns : 0;
    struct device_work w;
    char *text = NULL;
    size_t room = 0;

    for (size_t i = 0; i < c->n; i++)
        c->at[i].begin_ns = 0;
    for (int pass = 0; pass < 2; pass++) {
        rewind(log);
        while (getline(&text, &room, log) > 0)
            if (device_log_parse(text, &w) && strcmp(w.kind, "kernel") == 0 &&
                w.end_ns + 1000000 >= first_ns)
                add_work(c, &w, pid, pass == 0);
    }
    free(text);
}

/* ---- other processes' traces ---------------------------------------------------------------- */

/* Without a log, a cut-in with no known cause is put down to what was submitted last before it. */
static void cuts_read_below(struct cuts *c, const struct trace_view *v)
{
    struct trace_record r;

    for (size_t i = 0; i < c->n; i++) {
        uint64_t last_ns = 0;
        uint32_t op = 0;
        if (c->at[i].by)
            continue;
        for (uint64_t k = v->first; k < v->end; k++)
            if (trace_view_get(v, k, &r) && r.kind == TRACE_SUBMITTED && r.ns <= c->at[i].in_ns &&
                r.ns >= last_ns && r.queue.op) {
                last_ns = r.ns;
                op = r.queue.op;
            }
        if (!op)
            continue;
        c->at[i].by = (pid_t)v->file->header.pid;
        /* The kernel's name is in the trace if the launch is still there. */
        for (uint64_t k = v->first; k < v->end; k++)
            if (trace_view_get(v, k, &r) && r.kind == TRACE_KERNEL && r.kernel.op == op)
                snprintf(c->at[i].kernel, sizeof(c->at[i].kernel), "%s",
                         kernel_name(trace_view_name(v, r.name), KERNEL_NAME_EVENT, false));
    }
}

/* ---- choosing the process ------------------------------------------------------------------- */

static uint64_t cut_ins(const struct message_row *row)
{
    uint64_t n = 0;

    for (uint32_t i = 0; row && i < row->devices && i < PAGE_DEVICES; i++)
        n += row->device[i].cut_ins;
    return n;
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
        if (of_level && (!found || cut_ins(r) > cut_ins(found)))
            found = r;
    }
    return found;
}

/* ---- the process's files -------------------------------------------------------------------- */

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

/* Opens the simulated device's log, if the process appends to one. */
static FILE *open_log(pid_t pid)
{
    char path[48], *entry = NULL;
    FILE *environment, *log = NULL;
    size_t room = 0;

    snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
    environment = fopen(path, "re");
    while (environment && !log && getdelim(&entry, &room, '\0', environment) > 0)
        if (strncmp(entry, "SIMGPU_LOG=", 11) == 0)
            log = fopen(entry + 11, "re");
    if (environment)
        fclose(environment);
    free(entry);
    return log;
}

/* ---- figures -------------------------------------------------------------------------------- */

/* Sorts by the wait, or by the time of the hold if the begin is not known. */
static int worse(const void *a, const void *b)
{
    const struct cut *c = a, *d = b;
    uint64_t x = c->begin_ns ? cut_wait_ns(c) : cut_held_ns(c),
             y = d->begin_ns ? cut_wait_ns(d) : cut_held_ns(d);

    return (x < y) - (x > y);
}

static int describe(struct attach *a)
{
    uint64_t *ns = calloc(a->cuts.n + 1, sizeof(*ns));
    const struct cut *c = a->cuts.at, *end = c + a->cuts.n;
    size_t helds = 0;

    if (!ns)
        return -ENOMEM;
    for (; c < end; c++)
        if (c->begin_ns)
            ns[a->waits++] = cut_wait_ns(c);
    figures_make(&a->wait, ns, a->waits);
    for (c = a->cuts.at; c < end; c++)
        if (c->out_ns)
            ns[helds++] = cut_held_ns(c);
    figures_make(&a->held, ns, helds);
    free(ns);
    return 0;
}

/* If the begin of some cut-ins is known, the worst are chosen among these. Without a log, the
 * traces of the processes below name what delayed the worst. */
static void find_worst(struct attach *a)
{
    struct cuts *c = &a->cuts, worst;

    for (size_t i = 0; i < c->n; i++)
        if (a->waits && !c->at[i].begin_ns)
            c->at[i].out_ns = c->at[i].in_ns;
    if (c->n)
        qsort(c->at, c->n, sizeof(*c->at), worse);
    a->worst = c->n < WORST ? c->n : WORST;
    worst = (struct cuts){.at = c->at, .n = a->worst};
    for (size_t i = 0; i < a->after.n && !a->logged; i++) {
        struct trace_view v;
        if (a->after.rows[i].level >= a->row->level || !open_trace(a->after.rows[i].pid, &v))
            continue;
        cuts_read_below(&worst, &v);
        trace_view_close(&v);
    }
}

static int read_files(struct attach *a)
{
    struct trace_view trace;
    struct trace_clocks clocks;
    struct trace_record r;
    FILE *log;
    int rc = 0;

    a->traced = open_trace(a->row->pid, &trace);
    if (!a->traced)
        return 0;
    /* Takes the cut-ins that began from `from_ns` to `to_ns`, and when kernels began that the trace
     * has timed. */
    trace_clocks_read(&clocks, &trace);
    for (uint64_t i = trace.first; i < trace.end && rc == 0; i++)
        if (trace_view_get(&trace, i, &r) && r.ns >= a->from_ns)
            rc = add_record(&a->cuts, &clocks, &r, a->to_ns);
    trace_view_close(&trace);
    log = rc == 0 ? open_log(a->row->pid) : NULL;
    if (log) {
        a->logged = true;
        cuts_read_log(&a->cuts, log, a->row->pid);
        fclose(log);
    }
    if (rc == 0)
        rc = describe(a);
    if (rc == 0)
        find_worst(a);
    return rc;
}

/* ---- output --------------------------------------------------------------------------------- */

static const char *wait_method(const struct attach *a)
{
    return a->logged  ? "the simulated device's log"
           : a->waits ? "timing events around some of its calls"
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

static void print(const struct attach *a)
{
    char when[RESULT_TIME];

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
    for (size_t i = 0; i < a->after.n; i++) {
        const struct message_row *r = &a->after.rows[i];
        struct row_figures f;
        if (r->level >= a->row->level)
            continue;
        row_figures_make(r, &a->before, &f);
        printf("below it: %d (%.*s), %s: held %" PRIu64
               " times, p50 %.1f us, p99 %.1f us; its last "
               "command done\nafter p50 %.1f us, p99 %.1f us (by its page)\n",
               r->pid, (int)PAGE_NAME, r->name, level_name(r->level), f.hold.count,
               f.hold.p50_ns / 1e3, f.hold.p99_ns / 1e3, f.preemption.p50_ns / 1e3,
               f.preemption.p99_ns / 1e3);
    }
    if (a->worst)
        puts("the worst:");
    for (size_t i = 0; i < a->worst; i++) {
        const struct cut *c = &a->cuts.at[i];
        printf("  %s  waited %.1f us, held %.1f us; ",
               result_time(bench_since_1970_ns(c->in_ns), when), (double)cut_wait_ns(c) / 1e3,
               (double)cut_held_ns(c) / 1e3);
        if (c->by)
            printf("in its way: %s of %d\n", c->kernel, (int)c->by);
        else
            puts("nothing is known to have been in its way");
    }
}

static json_t *worst_json(const struct attach *a)
{
    json_t *all = json_array();
    char when[RESULT_TIME];

    for (size_t i = 0; i < a->worst; i++) {
        const struct cut *c = &a->cuts.at[i];
        json_array_append_new(
            all, json_pack("{s:s, s:o, s:o, s:o, s:o}", "at",
                           result_time(bench_since_1970_ns(c->in_ns), when), "preemption_us",
                           c->begin_ns ? result_number((double)cut_wait_ns(c) / 1e3) : json_null(),
                           "held_us", result_number((double)cut_held_ns(c) / 1e3), "by",
                           c->by ? json_integer(c->by) : json_null(), "kernel",
                           c->by ? json_string(c->kernel) : json_null()));
    }
    return all;
}

static json_t *below_json(const struct attach *a)
{
    json_t *all = json_array();

    for (size_t i = 0; i < a->after.n; i++) {
        const struct message_row *r = &a->after.rows[i];
        struct row_figures f;
        if (r->level >= a->row->level)
            continue;
        row_figures_make(r, &a->before, &f);
        json_array_append_new(
            all,
            json_pack("{s:i, s:I, s:o, s:o, s:o, s:o}", "pid", (int)r->pid, "holds",
                      (json_int_t)f.hold.count, "hold_p50_us", result_number(f.hold.p50_ns / 1e3),
                      "hold_p99_us", result_number(f.hold.p99_ns / 1e3), "preemption_p50_us",
                      result_number(f.preemption.p50_ns / 1e3), "preemption_p99_us",
                      result_number(f.preemption.p99_ns / 1e3)));
    }
    return all;
}

static json_t *to_json(const struct attach *a, int argc, char **argv)
{
    return json_pack(
        "{s:{s:i, s:s, s:o, s:I, s:b, s:s, s:o, s:o, s:o, s:o}, s:{s:s, s:o, s:o}}", "attached",
        "pid", (int)a->row->pid, "level", level_name(a->row->level), "seconds",
        result_number((double)(a->to_ns - a->from_ns) / 1e9), "cut_ins", (json_int_t)a->n, "traced",
        a->traced, "method", wait_method(a), "preemption_us", result_brief(&a->wait), "hold_us",
        result_brief(&a->held), "below", below_json(a), "worst", worst_json(a), "config", "version",
        CUTIN_VERSION, "command", result_command(argc, argv), "machine", result_machine());
}

/* ---- running it ----------------------------------------------------------------------------- */

static int observe(struct attach *a)
{
    const struct message_row *then;
    uint64_t until_ns;
    int rc = query_clients(a->socket, &a->before.rows, &a->before.n);

    if (rc != 0)
        return say(&subcommand_latency, "%s", daemon_error(a->socket, rc));
    then = find(&a->before, a->plan->who);
    if (!then || then->level == 0)
        return say(&subcommand_latency,
                   then ? "process %s is best effort: it holds no other process"
                        : "no process %s under cutin; `cutin list` shows those that are",
                   a->plan->who);
    a->from_ns = clock_ns();
    until_ns = a->from_ns + (uint64_t)(a->plan->seconds * 1e9);
    while (!progress_cancel && clock_ns() < until_ns) {
        progress_show((double)(clock_ns() - a->from_ns) / 1e9, a->plan->seconds, "attached");
        nap_us(LOG_SETTLES_US);
    }
    progress_end();
    a->to_ns = clock_ns();
    nap_us(LOG_SETTLES_US); /* calls under way end */
    rc = query_clients(a->socket, &a->after.rows, &a->after.n);
    if (rc != 0)
        return say(&subcommand_latency, "%s", daemon_error(a->socket, rc));
    a->row = clients_find(&a->after, then->client);
    a->n = cut_ins(a->row) - cut_ins(then);
    return a->row ? EXIT_SUCCESS : say(&subcommand_latency, "process %d has ended", (int)then->pid);
}

int attach_run(const struct attach_plan *plan, int argc, char **argv)
{
    struct attach a = {.plan = plan, .socket = plan->socket ? plan->socket : daemon_socket()};
    int rc = observe(&a);

    if (rc == EXIT_SUCCESS && read_files(&a) != 0)
        rc = say(&subcommand_latency, "no memory for its cut-ins");
    if (rc == EXIT_SUCCESS && plan->json)
        rc = result_give(to_json(&a, argc, argv), true);
    else if (rc == EXIT_SUCCESS)
        print(&a);
    free(a.cuts.at);
    clients_free(&a.before);
    clients_free(&a.after);
    return rc;
}
