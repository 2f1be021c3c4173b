/*
 * latency_print.c - prints the figures of `cutin latency` for people.
 */
#include "bench.h"
#include "tools/cutin/result.h"

#include <inttypes.h>

static void print_arrivals(const struct bench *b)
{
    const struct bench_plan *p = &b->plan;
    char text[256];

    arrivals_text(&p->arrivals, text, sizeof(text));
    if (!arrivals_is_open(&p->arrivals)) {
        printf("a closed loop, a pause of %g us after each answer: latency counts from the launch, "
               "and\nrequests that would have arrived meanwhile are left out\n",
               p->gap_us);
        return;
    }
    printf("an open loop, arrivals %s, %.1f/s: latency counts from the arrival\n", text,
           1e6 / p->gap_us);
    for (int m = 0; m < BENCH_MODES; m++)
        if (bench_has(b, m))
            printf(
                "backlog, %-7s %u requests came while one was served; at most %u waited, %.2f on "
                "average\n",
                bench_mode_names[m], b->mode[m].backlog.late, b->mode[m].backlog.most,
                b->mode[m].backlog.mean);
}

static void print_break(const struct bench *b)
{
    char when[RESULT_TIME];

    if (b->broke.broke)
        printf("broke at request %u under cutin: %.1f us, arrived %s; the last 50 ms of all are "
               "in\n%s "
               "(%" PRIu64 " events, %" PRIu64 " on the simulated GPU): "
               "https://ui.perfetto.dev opens it\n",
               b->broke.sample + 1, b->broke.us,
               result_time(bench_since_1970_ns(b->broke.at_ns), when), b->plan.break_trace,
               b->broke.events, b->broke.works);
    else if (b->plan.break_us > 0)
        printf("no answer under cutin took longer than %g us: no trace was written\n",
               b->plan.break_us);
}

static void print_floor(const struct bench *b)
{
    const struct floor_spin *f = &b->floor.spin;
    char text[128];

    printf("real time is %s\n", claim_text(&b->claim, text, sizeof(text)));
    if (!b->floor.measured)
        return;
    printf("noise floor: %" PRIu64
           " gaps of %d us or more in %.1f s on that processor, the longest "
           "%.1f us;\na launch on the idle GPU p50 %.1f us, p99 %.1f us, max %.1f us\n",
           f->gaps, FLOOR_GAP_NS / 1000, (double)f->ns / 1e9, (double)f->most_ns / 1000,
           b->floor.launch.p50_us, b->floor.launch.p99_us, b->floor.launch.max_us);
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (bench_in_floor(b, m))
            printf("%s: its p99 lies within the noise floor of %.1f us and says nothing about the "
                   "GPU\n",
                   bench_mode_names[m], bench_floor_us(b));
}

/* Prints no figure if there are too few samples for the percentile. */
static void print_figure(size_t samples, double us, double percent)
{
    if (samples >= figures_least_samples(percent))
        printf(" %9.1f", us);
    else
        printf(" %9s", "-");
}

static void print_estimate(const char *name, const struct bench_estimate *e, double percent)
{
    if (percent <= 0)
        return;
    printf("%-8s p%-5g", name, percent);
    if (!e->known) {
        printf(" refused: it needs %zu samples\n", figures_least_samples(percent));
        return;
    }
    printf(" %9.1f (%.1f to %.1f)", e->us, e->us_within.least, e->us_within.most);
    if (e->compared)
        printf(", %.2f x alone (%.2f to %.2f)", e->ratio, e->ratio_within.least,
               e->ratio_within.most);
    putchar('\n');
}

/* Comes last, so that it stays in view. */
static void print_verdict(const struct bench *b)
{
    double alone = b->mode[BENCH_ALONE].figures.p99_us, cutin = b->mode[BENCH_CUTIN].figures.p99_us,
           native = b->mode[BENCH_NATIVE].figures.p99_us;

    if (!bench_has(b, BENCH_ALONE) || !bench_has(b, BENCH_CUTIN) || b->cancelled ||
        b->mode[BENCH_CUTIN].figures.samples < figures_least_samples(99) || alone <= 0)
        return;
    if (bench_in_floor(b, BENCH_CUTIN)) {
        printf("\nreal time's p99 under cutin lies within the noise floor of %.1f us: no verdict\n",
               bench_floor_us(b));
        return;
    }
    printf("\nreal time's p99 under cutin: %.2f times alone", cutin / alone);
    if (bench_has(b, BENCH_NATIVE))
        printf("; natively %.2f times, so cutin makes it %.1f times better", native / alone,
               native / cutin);
    if (b->floor.measured)
        printf("; noise floor %.1f us", bench_floor_us(b));
    putchar('\n');
}

static void print_table(const struct bench *b)
{
    double graph_us = bench_graph_us(b);
    char when[RESULT_TIME];

    printf("%s, best-effort ", b->gpu);
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
            print_estimate(bench_mode_names[m], &b->mode[m].estimate[k], bench_percent(b, k));
    putchar('\n');
    print_floor(b);
    print_arrivals(b);
    for (int m = 0; m < BENCH_MODES && b->plan.bound_us > 0; m++)
        if (bench_has(b, m))
            printf("bound, %-7s   %u of %u later than %g us; with 99 %% confidence at most %.2f %% "
                   "of all\n",
                   bench_mode_names[m], b->mode[m].late, b->mode[m].n, b->plan.bound_us,
                   bench_late_limit(b->mode[m].late, b->mode[m].n));
    print_break(b);
    for (int m = 0; m < BENCH_MODES; m++)
        if (bench_has(b, m))
            printf("max, %-7s     %.1f us, arrived %s\n", bench_mode_names[m],
                   b->mode[m].figures.max_us, result_time(b->mode[m].max_at_ns, when));
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (bench_has(b, m) && bench_has(b, BENCH_ALONE)) {
            printf("added by %-7s p50 %.1f us", bench_mode_names[m], bench_added(b, m).p50_us);
            if (bench_p99_known(b, m))
                printf(", p99 %.1f us", bench_added(b, m).p99_us);
            putchar('\n');
        }
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (graph_us > 0 && bench_has(b, m) && bench_p99_known(b, m))
            printf("added by %-7s p99 is %.2f %% of a graph's %.1f us\n", bench_mode_names[m],
                   100 * bench_added(b, m).p99_us / graph_us, graph_us);
    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (bench_has(b, m))
            printf("best effort, %-7s %.0f kernels/s beside real time, %.0f without real time\n",
                   bench_mode_names[m], bench_rate(&b->mode[m].shared),
                   bench_rate(&b->mode[m].solo));
    if (b->engagement.gates)
        printf("a gate every %.1f us of best-effort work beside real time\n", bench_gate_us(b));
    if (bench_has(b, BENCH_CUTIN))
        printf("engaged: %" PRIu64 " cut-ins, %" PRIu64 " holds of buffered work, %" PRIu64
               " gates\n",
               b->engagement.cut_ins, b->engagement.holds, b->engagement.gates);
    if (b->checked)
        printf("best-effort result: %s\n", b->identical ? "identical" : "DIFFERENT");
}

void bench_print(const struct bench *b)
{
    struct histogram_column columns[BENCH_MODES];
    size_t n = 0;

    print_table(b);
    if (b->plan.stages) {
        const struct bench_stages *s = &b->stages;

        printf("\nstages of %u cut-ins, us; device times by %s\n%-52s %9s %9s %9s %9s %8s\n",
               s->cut_ins, bench_trace_methods[b->plan.method], "", "p50", "p90", "p99", "max",
               "known");
        for (int i = 0; i < STAGE_COUNT; i++) {
            const struct figures *f = &s->figures[i];
            printf("%-52s %9.1f %9.1f", stage_rows[i].is, f->p50_us, f->p90_us);
            print_figure(s->n[i], f->p99_us, 99);
            printf(" %9.1f %8u\n", f->max_us, s->n[i]);
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
    print_verdict(b);
}
