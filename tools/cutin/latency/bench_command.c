/*
 * bench_command.c - a command that runs a bench: its options, and the figures for people and as one
 * JSON object.
 */
#include "bench.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"
#include "common/atomic_file.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- for people ------------------------------------------------------------------------------ */

/* How it was measured: the machine's noise, the arrivals, and what was asked for in addition. */
static void print_conditions(const struct bench *b)
{
    const struct bench_plan *p = &b->plan;
    const struct floor_spin *f = b->floor.spin;
    char text[256];

    printf("real time is %s\n", claim_text(&b->claim, text, sizeof(text)));
    if (b->floor.launch.samples)
        printf("noise floor: %" PRIu64
               " gaps of %d us or more in %.1f s on that processor, the longest "
               "%.1f us;\na launch on the idle GPU p50 %.1f us, p99 %.1f us, max %.1f us\n",
               f->gaps, FLOOR_GAP_NS / 1000, (double)f->ns / 1e9, (double)f->most_ns / 1000,
               b->floor.launch.p50_us, b->floor.launch.p99_us, b->floor.launch.max_us);
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (b->mode[m].in_floor)
            printf("%s: its p99 lies within the noise floor of %.1f us and says nothing about the "
                   "GPU\n",
                   bench_mode_names[m], b->floor.p99_us);
    if (arrivals_is_open(&p->arrivals))
        printf("an open loop, arrivals %s, %.1f/s: latency counts from the arrival\n",
               arrivals_text(&p->arrivals, text, sizeof(text)), 1e6 / p->gap_us);
    else
        printf("a closed loop, a pause of %g us after each answer: latency counts from the launch, "
               "and\nrequests that would have arrived meanwhile are left out\n",
               p->gap_us);
    for (int m = 0; m < BENCH_MODES && arrivals_is_open(&p->arrivals); m++)
        if (bench_has(b, m))
            printf(
                "backlog, %-7s %u requests came while one was served; at most %u waited, %.2f on "
                "average\n",
                bench_mode_names[m], b->mode[m].backlog.late, b->mode[m].backlog.most,
                b->mode[m].backlog.mean);
    for (int m = 0; m < BENCH_MODES && p->bound_us > 0; m++)
        if (bench_has(b, m))
            printf("bound, %-7s   %u of %u later than %g us; with 99 %% confidence at most %.2f %% "
                   "of all\n",
                   bench_mode_names[m], b->mode[m].late, b->mode[m].n, p->bound_us,
                   bench_late_limit(b->mode[m].late, b->mode[m].n));
    if (b->broke.broke)
        printf("stopped at request %u under cutin: %.1f us, arrived %s; the last 50 ms of "
               "all are in\n%s "
               "(%" PRIu64 " events, %" PRIu64 " on the simulated GPU): "
               "https://ui.perfetto.dev opens it\n",
               b->broke.sample + 1, b->broke.us,
               result_time(bench_since_1970_ns(b->broke.at_ns), text), p->break_trace,
               b->broke.events, b->broke.works);
    else if (p->break_us > 0)
        printf("no answer under cutin took longer than %g us: no trace was written\n", p->break_us);
}

/* Prints no figure if there are too few samples for the percentile. */
static void print_figure(size_t samples, double us, double percent)
{
    if (samples >= figures_least_samples(percent))
        printf(" %9.1f", us);
    else
        printf(" %9s", "-");
}

static void print_estimate(const char *name, const struct bench_estimate *e)
{
    if (e->percent <= 0)
        return;
    printf("%-8s p%-5g", name, e->percent);
    if (!e->known) {
        printf(" refused: it needs %zu samples\n", figures_least_samples(e->percent));
        return;
    }
    printf(" %9.1f (%.1f to %.1f)", e->us, e->us_within.least, e->us_within.most);
    if (e->compared)
        printf(", %.2f x alone (%.2f to %.2f)", e->ratio, e->ratio_within.least,
               e->ratio_within.most);
    putchar('\n');
}

static const char *stage_method(const struct bench *b)
{
    return b->plan.events ? "timing events behind every kernel, less its duration"
                          : "the simulated device's log";
}

static void print_table(const struct bench *b)
{
    char when[RESULT_TIME];

    printf("%s, best-effort ", b->on->gpu);
    if (b->plan.be_graph)
        printf("graphs of %u ", b->plan.be_graph);
    printf("kernels of %u us\n\n", b->plan.be_kernel_us);
    printf("%-8s", "us");
#define HEADING(field, heading, percent) printf(" %9s", heading);
    FIGURES(HEADING)
#undef HEADING
    printf(" %9s\n", "samples");
    for (int m = 0; m < BENCH_MODES; m++) {
        if (!bench_has(b, m))
            continue;
        printf("%-8s", bench_mode_names[m]);
#define CELL(field, heading, percent) print_figure(b->mode[m].n, b->mode[m].figures.field, percent);
        FIGURES(CELL)
#undef CELL
        printf(" %9zu\n", b->mode[m].figures.samples);
    }
    printf("\n%d %% intervals, by resampling of rounds and of samples in them\n",
           BOOTSTRAP_PERCENT);
    for (int m = 0; m < BENCH_MODES; m++)
        for (int k = 0; bench_has(b, m) && k < BENCH_ESTIMATES; k++)
            print_estimate(bench_mode_names[m], &b->mode[m].estimate[k]);
    putchar('\n');
    print_conditions(b);
    for (int m = 0; m < BENCH_MODES; m++)
        if (bench_has(b, m))
            printf("max, %-7s     %.1f us, arrived %s\n", bench_mode_names[m],
                   b->mode[m].figures.max_us, result_time(b->mode[m].max_at_ns, when));
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (bench_has(b, m) && bench_has(b, BENCH_ALONE)) {
            printf("added by %-7s p50 %.1f us", bench_mode_names[m], b->mode[m].added_p50_us);
            if (b->mode[m].p99_known)
                printf(", p99 %.1f us", b->mode[m].added_p99_us);
            putchar('\n');
        }
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (b->graph_us > 0 && bench_has(b, m) && b->mode[m].p99_known)
            printf("added by %-7s p99 is %.2f %% of a graph's %.1f us\n", bench_mode_names[m],
                   100 * b->mode[m].added_p99_us / b->graph_us, b->graph_us);
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (bench_has(b, m))
            printf("best effort, %-7s %.0f kernels/s beside real time, %.0f without real time\n",
                   bench_mode_names[m], bench_rate(&b->mode[m].shared),
                   bench_rate(&b->mode[m].solo));
    if (b->engagement.gates)
        printf("a gate every %.1f us of best-effort work beside real time\n",
               b->engagement.gate_us);
    if (bench_has(b, BENCH_CUTIN))
        printf("engaged: %" PRIu64 " cut-ins, %" PRIu64 " holds of buffered work, %" PRIu64
               " gates\n",
               b->engagement.cut_ins, b->engagement.holds, b->engagement.gates);
    if (b->checked)
        printf("best-effort result: %s\n", b->identical ? "identical" : "DIFFERENT");
}

static void print(const struct bench *b)
{
    double alone = b->mode[BENCH_ALONE].figures.p99_us, cutin = b->mode[BENCH_CUTIN].figures.p99_us,
           native = b->mode[BENCH_NATIVE].figures.p99_us;
    struct histogram_column columns[BENCH_MODES];
    size_t n = 0;

    print_table(b);
    if (b->plan.stages) {
        const struct bench_stages *s = &b->stages;

        printf("\nstages of %u cut-ins, us; device times by %s\n%-52s %9s %9s %9s %9s %8s\n",
               s->cut_ins, stage_method(b), "", "p50", "p90", "p99", "max", "known");
        for (int i = 0; i < STAGE_COUNT; i++) {
            const struct figures *f = &s->figures[i];
            printf("%-52s %9.1f %9.1f", stage_rows[i].is, f->p50_us, f->p90_us);
            print_figure(f->samples, f->p99_us, 99);
            printf(" %9.1f %8zu\n", f->max_us, f->samples);
        }
        if (s->paused)
            printf("in %u of them a best-effort kernel was paused for real time: nothing waited "
                   "for it\n",
                   s->paused);
    }
    for (int m = 0; m < BENCH_MODES; m++)
        if (bench_has(b, m))
            columns[n++] = (struct histogram_column){bench_mode_names[m], b->mode[m].latency_ns,
                                                     b->mode[m].figures.samples};
    putchar('\n');
    histogram_print(stdout, columns, n);
    /* The verdict comes last, so that it stays in view. */
    if (!bench_has(b, BENCH_ALONE) || !bench_has(b, BENCH_CUTIN) || b->cancelled ||
        b->mode[BENCH_CUTIN].figures.samples < figures_least_samples(99) || alone <= 0)
        return;
    if (b->mode[BENCH_CUTIN].in_floor) {
        printf("\nreal time's p99 under cutin lies within the noise floor of %.1f us: no verdict\n",
               b->floor.p99_us);
        return;
    }
    printf("\nreal time's p99 under cutin: %.2f times alone", cutin / alone);
    if (bench_has(b, BENCH_NATIVE))
        printf("; natively %.2f times, so cutin makes it %.1f times better", native / alone,
               native / cutin);
    if (b->floor.launch.samples)
        printf("; noise floor %.1f us", b->floor.p99_us);
    putchar('\n');
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *interval_json(bool known, const struct interval *i)
{
    return known ? json_pack("[o, o]", result_number(i->least), result_number(i->most)) : NULL;
}

static json_t *mode_json(const struct bench *b, const struct bench_result *r)
{
    json_t *mode = result_figures(&r->figures), *estimates = json_array();
    char when[RESULT_TIME];

    for (const struct bench_estimate *e = r->estimate; e < r->estimate + BENCH_ESTIMATES; e++) {
        if (e->percent <= 0)
            continue;
        json_array_append_new(
            estimates,
            e->known
                ? json_pack("{s:f, s:o, s:o, s:o*, s:o*, s:o*, s:o*}", "percent", e->percent, "us",
                            result_number(e->us), "us_95", interval_json(true, &e->us_within),
                            "vs_alone", e->compared ? result_number(e->ratio) : NULL, "vs_alone_95",
                            interval_json(e->compared, &e->ratio_within), "added_us",
                            e->compared ? result_number(e->added_us) : NULL, "added_us_95",
                            interval_json(e->compared, &e->added_within))
                : json_pack("{s:f, s:I}", "percent", e->percent, "needs_samples",
                            (json_int_t)figures_least_samples(e->percent)));
    }
    result_refuse(mode, r->n);
    put(mode, "estimates", estimates);
    put(mode, "max_at", json_string(result_time(r->max_at_ns, when)));
    if (b->floor.launch.samples)
        put(mode, "within_floor", json_boolean(r->in_floor));
    if (b->plan.bound_us > 0)
        put(mode, "bound",
            json_pack("{s:o, s:i, s:o}", "us", result_number(b->plan.bound_us), "late",
                      (int)r->late, "limit_percent",
                      result_number(bench_late_limit(r->late, r->n))));
    if (arrivals_is_open(&b->plan.arrivals))
        put(mode, "backlog",
            json_pack("{s:i, s:o, s:i}", "most", (int)r->backlog.most, "mean",
                      result_number(r->backlog.mean), "late", (int)r->backlog.late));
    return mode;
}

static json_t *work_json(const struct bench_work *work)
{
    return json_pack("{s:o, s:I, s:o}", "kernels_per_s", result_number(bench_rate(work)), "kernels",
                     (json_int_t)work->kernels, "seconds",
                     result_number((double)work->elapsed_ns / 1e9));
}

json_t *bench_config_json(const struct bench *b)
{
    const struct bench_plan *p = &b->plan;
    json_t *modes = json_array();
    char arrivals[256];

    for (int m = 0; m < BENCH_MODES; m++)
        if (p->modes >> m & 1)
            json_array_append_new(modes, json_string(bench_mode_names[m]));
    return json_pack(
        "{s:s, s:s, s:i, s:b, s:i, s:i, s:i, s:i, s:i, s:o, s:s, s:s, s:o, s:i, s:i, s:I, "
        "s:o, s:o, s:o, s:o}",
        "version", CUTIN_VERSION, "gpu", b->on->gpu, "driver_version", (int)b->on->driver_version,
        "simulated", p->sim || strstr(b->on->gpu, "simulated"), "samples", (int)p->samples,
        "be_kernel_us", (int)p->be_kernel_us, "be_graph", (int)p->be_graph, "rt_kernels",
        (int)p->rt_kernels, "rt_kernel_us", (int)p->rt_kernel_us, "gap_us",
        result_number(p->gap_us), "loop", arrivals_is_open(&p->arrivals) ? "open" : "closed",
        "arrivals", arrivals_text(&p->arrivals, arrivals, sizeof(arrivals)), "rate_per_s",
        arrivals_is_open(&p->arrivals) ? result_number(1e6 / p->gap_us) : json_null(), "warm_up",
        (int)p->warm_up, "solo_ms", (int)p->solo_ms, "seed", (json_int_t)p->seed, "modes", modes,
        "distance_us",
        p->distance_us[0] ? result_number(strtod(p->distance_us, NULL)) : json_null(), "machine",
        result_machine(), "environment", result_environment());
}

/* What the modes measured, and what cutin and the plain driver add to alone. */
static void put_modes(const struct bench *b, json_t *root)
{
    const struct bench_work *native = &b->mode[BENCH_NATIVE].solo,
                            *cutin = &b->mode[BENCH_CUTIN].solo;
    json_t *modes = json_object(), *added = json_object(), *be = json_object();
    json_t *shares = json_object(); /* the added p99 as a share of the time that one graph takes */

    for (int m = 0; m < BENCH_MODES; m++) {
        const struct bench_result *r = &b->mode[m];
        const char *name = bench_mode_names[m];
        char solo[32];

        if (!bench_has(b, m))
            continue;
        put(modes, name, mode_json(b, r));
        if (m == BENCH_ALONE)
            continue;
        put(be, name, work_json(&r->shared));
        snprintf(solo, sizeof(solo), "%s_solo", name);
        if (r->solo.elapsed_ns)
            put(be, solo, work_json(&r->solo));
        if (!bench_has(b, BENCH_ALONE))
            continue;
        put(added, name,
            json_pack("{s:o, s:o}", "p50", result_number(r->added_p50_us), "p99",
                      r->p99_known ? result_number(r->added_p99_us) : json_null()));
        if (b->graph_us > 0)
            put(shares, name,
                r->p99_known ? json_real(r->added_p99_us / b->graph_us) : json_null());
    }
    if (native->kernels && cutin->elapsed_ns)
        put(be, "cutin_ratio", result_number(bench_rate(cutin) / bench_rate(native)));
    if (b->engagement.gates)
        put(be, "gate_us", result_number(b->engagement.gate_us));
    if (b->checked)
        put(be, "checksum", json_string(b->identical ? "identical" : "DIFFERENT"));
    put(root, "modes", modes);
    put(root, "added_us", added);
    if (b->plan.be_graph)
        put(root, "graph",
            json_pack("{s:i, s:o, s:O}", "kernels", (int)b->plan.be_graph, "length_us",
                      result_number(b->graph_us), "added_p99_share", shares));
    json_decref(shares);
    put(root, "be", be);
}

static json_t *whole_json(const struct bench *b)
{
    const struct floor_spin *f = b->floor.spin;
    const struct bench_engagement *e = &b->engagement;
    json_t *root = json_object();
    char when[RESULT_TIME];

    put_modes(b, root);
    if (b->floor.launch.samples)
        put(root, "floor",
            json_pack("{s:{s:o, s:i, s:I, s:o, s:o}, s:o, s:o}", "spin", "seconds",
                      result_number((double)f->ns / 1e9), "gap_us", FLOOR_GAP_NS / 1000, "gaps",
                      (json_int_t)f->gaps, "sum_us", result_number((double)f->gap_ns / 1e3),
                      "max_us", result_number((double)f->most_ns / 1e3), "launch_us",
                      result_figures(&b->floor.launch), "p99_us", result_number(b->floor.p99_us)));
    put(root, "claim",
        json_pack("{s:o, s:b, s:b}", "processor",
                  b->claim.cpu < 0 ? json_null() : json_integer(b->claim.cpu), "locked",
                  b->claim.locked, "realtime", b->claim.realtime));
    if (bench_has(b, BENCH_CUTIN))
        put(root, "engagement",
            json_pack("{s:b, s:I, s:I, s:I}", "engaged", e->engaged, "cut_ins",
                      (json_int_t)e->cut_ins, "holds", (json_int_t)e->holds, "gates",
                      (json_int_t)e->gates));
    if (b->plan.stages) {
        json_t *stages = json_object();
        for (int i = 0; i < STAGE_COUNT; i++) {
            json_t *one = result_brief(&b->stages.figures[i]);
            put(one, "what", json_string(stage_rows[i].is));
            put(stages, stage_rows[i].name, one);
        }
        put(root, "stages",
            json_pack("{s:s, s:i, s:i, s:o}", "method", stage_method(b), "cut_ins",
                      (int)b->stages.cut_ins, "paused", (int)b->stages.paused, "us", stages));
    }
    if (b->broke.broke)
        put(root, "broke",
            json_pack("{s:o, s:i, s:o, s:s, s:s, s:I}", "bound_us", result_number(b->plan.break_us),
                      "request", (int)b->broke.sample, "us", result_number(b->broke.us), "arrived",
                      result_time(bench_since_1970_ns(b->broke.at_ns), when), "trace",
                      b->plan.break_trace, "events", (json_int_t)b->broke.events));
    put(root, "interrupted", json_boolean(b->cancelled));
    put(root, "seconds", result_number(b->seconds));
    put(root, "config", bench_config_json(b));
    return root;
}

/* ---- options and the command ----------------------------------------------------------------- */

const char *const bench_trace_words[] = {"log", "events", "auto", NULL};

void bench_take_arrivals(const struct subcommand *cmd, int row, void *plan)
{
    struct bench_plan *p = plan;
    char why[256];

    if (arrivals_parse(&p->arrivals, optarg, why, sizeof(why)) != 0)
        fail_usage(cmd, "--arrivals=%s", why);
    p->arrivals_given = true;
}

void bench_options_fill(struct bench_plan *p)
{
    if (p->rt_kernels == 0)
        p->rt_kernels = 1;
    if (p->rt_kernel_us == 0)
        p->rt_kernel_us = 20;
    if (p->rate == 0)
        p->rate = arrivals_is_open(&p->arrivals) ? 200 : 500;
    p->gap_us = 1e6 / p->rate;
    p->stages |= !!p->method;
    p->events =
        p->method && strcmp(p->method, "auto") != 0 ? strcmp(p->method, "events") == 0 : !p->sim;
}

static void check(const struct subcommand *cmd, struct bench_plan *p)
{
    if ((p->modes >> BENCH_UNGATED & 1) && !p->be_graph)
        fail_usage(cmd, "--mode ungated needs --be-graph");
    /* Defaults. */
    if (p->samples == 0)
        p->samples = 1000;
    if (p->be_kernel_us == 0)
        p->be_kernel_us = 200;
    if (p->modes == 0)
        p->modes = ((1u << BENCH_MODES) - 1) & ~(p->be_graph ? 0 : 1u << BENCH_UNGATED);
    bench_options_fill(p);
    if (p->break_us > 0 && !(p->modes >> BENCH_CUTIN & 1))
        fail_usage(cmd, "--break needs --mode cutin");
    if (p->break_us > 0 && p->stages && p->events)
        fail_usage(cmd,
                   "--break keeps the newest trace records, --stages events the first: use one");
    if (p->stages && !(p->modes >> BENCH_CUTIN & 1))
        fail_usage(cmd, "--stages needs --mode cutin");
    if (p->samples < figures_least_samples(p->percentile))
        fail_usage(cmd, "--percentile %g needs at least %zu samples, not %u", p->percentile,
                   figures_least_samples(p->percentile), p->samples);
}

/* As --latencies says. Returns 0 or -errno. */
static int write_latencies(const struct bench *b, const char *path)
{
    uint64_t from_ns = bench_since_1970_ns(0);
    struct atomic_file whole;
    FILE *out = atomic_file_open(&whole, path);

    for (int m = 0; m < BENCH_MODES && out; m++)
        for (const struct worker_sample *s = b->mode[m].sample;
             s < b->mode[m].sample + b->mode[m].n; s++)
            fprintf(out, "%s %" PRIu64 " %" PRIu64 "\n", bench_mode_names[m],
                    from_ns + s->arrival_ns, bench_latency_ns(b, s));
    return out ? atomic_file_close(&whole, 0) : -errno;
}

int bench_command(const struct subcommand *cmd, struct bench *b, int argc, char **argv,
                  void (*more)(const struct bench *b, json_t *root))
{
    const struct bench_plan *p = &b->plan;
    json_t *root;
    int rc, wrote;

    check(cmd, &b->plan);
    if (output_check(cmd, p->latencies) != 0 ||
        (p->break_us > 0 && output_check(cmd, p->break_trace) != 0))
        return EXIT_FAILURE;
    progress_begin();
    if (bench_run(b) != 0) {
        say(cmd, "%s", b->why);
        bench_free(b);
        return EXIT_FAILURE;
    }
    root = whole_json(b);
    json_object_set_new(json_object_get(root, "config"), "command", result_command(argc, argv));
    if (!p->json)
        print(b);
    if (more)
        more(b, root);
    rc = result_give(root, p->json);
    if (p->latencies && (wrote = write_latencies(b, p->latencies)) != 0)
        rc = say(cmd, "%s: %s", p->latencies, strerror(-wrote));
    if (b->cancelled && rc == EXIT_SUCCESS)
        say(cmd, "interrupted; the figures cover what was measured");
    if (b->checked && !b->identical)
        rc = EXIT_FAILURE;
    if (bench_has(b, BENCH_CUTIN) && !b->engagement.engaged && !b->cancelled && !b->broke.broke)
        rc = say(cmd,
                 "cutin held nothing (%" PRIu64 " cut-ins, %" PRIu64 " holds, %" PRIu64
                 " gates): the figures do not show its effect",
                 b->engagement.cut_ins, b->engagement.holds, b->engagement.gates);
    bench_free(b);
    return rc;
}
