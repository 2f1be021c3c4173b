/*
 * whatif_print.c - prints predictions for people and as JSON (see whatif_print.h).
 */
#include "whatif_print.h"
#include "papers.h"
#include "tools/lab/lab.h"

#include <math.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* How many times as slow as the first row, by the median latency if there is a clock. */
static double slowdown(const struct whatif_print *p, size_t row)
{
    const struct forecast *a = &p->row[0].forecast, *b = &p->row[row].forecast;

    if (a->latency.samples)
        return b->latency.p50_us / fmax(a->latency.p50_us, 1e-3);
    return b->total_ns / fmax(a->total_ns, 1);
}

static double fit(const struct whatif_print *p)
{
    return p->modelled_ns / fmax((double)p->w.total_ns, 1);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

static json_t *figures_json(const struct figures *f)
{
    json_t *o = json_object();

#define FIGURE(field, heading, percent) json_object_set_new(o, #field, json_real(f->field));
    FIGURES(FIGURE)
#undef FIGURE
    json_object_set_new(o, "samples", json_integer((json_int_t)f->samples));
    return o;
}

static json_t *classes_json(const struct forecast *f)
{
    json_t *list = json_array();

    for (int i = 0; i < FORECAST_CLASSES; i++) {
        const struct forecast_class *c = &f->by_duration[i];
        json_t *o = json_pack("{s:I,s:f,s:f}", "kernels", (json_int_t)c->kernels, "recorded_s",
                              c->recorded_ns / 1e9, "s", c->ns / 1e9);

        if (i < FORECAST_CLASSES - 1)
            json_object_set_new(o, "up_to_us", json_real((double)forecast_class_ns[i] / 1000));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *row_json(const struct whatif_print *p, size_t i)
{
    const struct forecast *f = &p->row[i].forecast;
    json_t *o =
        json_pack("{s:s,s:f,s:f,s:o}", "machine", p->row[i].name, "total_s", f->total_ns / 1e9,
                  "slowdown", slowdown(p, i), "kernels", classes_json(f));

    if (f->latency.samples)
        json_object_set_new(o, "latency", figures_json(&f->latency));
    if (f->real_time.samples)
        json_object_set_new(o, "real_time", figures_json(&f->real_time));
    return o;
}

static int print_json(const struct whatif_print *p, const char *path)
{
    json_t *rows = json_array(), *top;

    for (size_t i = 0; i < p->rows; i++)
        json_array_append_new(rows, row_json(p, i));
    top = json_pack("{s:s,s:f,s:f,s:b,s:o,s:s}", "file", path, "recorded_s",
                    (double)p->w.total_ns / 1e9, "modelled_s", p->modelled_ns / 1e9, "predicted", 1,
                    "machines", rows, "version", CUTIN_VERSION);
    if (p->rt_alone.samples)
        json_object_set_new(top, "real_time_alone", figures_json(&p->rt_alone));
    return print_object(top, JSON_REAL_PRECISION(9));
}

/* ---- text ----------------------------------------------------------------------------------- */

static void print_assumptions(const struct machine *m)
{
    const struct distance *d = &m->distance;

    if (distance_delta_ns(d))
        printf("at a distance: round trip %.1f us, %.1f more than recorded; host to device at most "
               "%.2f GB/s\n",
               (double)d->rtt_ns / 1000, (double)distance_delta_ns(d) / 1000, distance_read_gbs(d));
    if (m->modular)
        printf("of %u modules, links of %.0f GB/s; kernels assumed: %s (%s), %.0f %% of their time "
               "memory\n",
               m->modules.modules, m->modules.link_gbs, m->pattern->name, m->pattern->says,
               100 * m->memory);
}

static void print_figures(const char *name, const struct figures *f)
{
    printf("%-16s", name);
#define FIGURE(field, heading, percent) printf("  " heading " %.1f", f->field);
    FIGURES(FIGURE)
#undef FIGURE
    printf("  (%zu)\n", f->samples);
}

static void print_latencies(const struct whatif_print *p)
{
    if (p->row[0].forecast.latency.samples)
        puts("\nlatency of requests from their arrival, us:");
    for (size_t i = 0; i < p->rows && p->row[0].forecast.latency.samples; i++)
        print_figures(p->row[i].name, &p->row[i].forecast.latency);
    if (p->row[1].forecast.real_time.samples)
        puts("\nlatency of real-time requests beside it, us:");
    if (p->rt_alone.samples)
        print_figures("alone", &p->rt_alone);
    for (size_t i = 1; i < p->rows && p->row[i].forecast.real_time.samples; i++)
        print_figures(p->row[i].name, &p->row[i].forecast.real_time);
}

static void print_classes(const struct forecast *f)
{
    static const char *const names[FORECAST_CLASSES] = {"up to 10 us", "to 50", "to 200", "to 800",
                                                        "longer"};

    puts("\nkernels by duration           number  recorded, ms  predicted, ms     x");
    for (int i = 0; i < FORECAST_CLASSES; i++) {
        const struct forecast_class *c = &f->by_duration[i];

        if (c->kernels)
            printf("%-28s%8zu  %12.3f  %13.3f  %4.2f\n", names[i], c->kernels, c->recorded_ns / 1e6,
                   c->ns / 1e6, c->ns / fmax(c->recorded_ns, 1));
    }
}

static void print_text(const struct whatif_print *p, const char *path, const struct machine *m)
{
    uint64_t ns;

    printf("%s: %zu kernels, %zu copies, %zu waits, %.3f ms; the model of the recording predicts "
           "%.2f of that%s\n",
           path, workload_count(&p->w, WORKLOAD_KERNEL, &ns),
           workload_count(&p->w, WORKLOAD_COPY, &ns), workload_count(&p->w, WORKLOAD_SYNC, &ns),
           (double)p->w.total_ns / 1e6, fit(p),
           fabs(fit(p) - 1) > 0.1 ? ": over 10 % off, so do not rely on it" : "");
    print_assumptions(m);
    puts("\nmachine             total, ms  slowdown  speed kept, %");
    for (size_t i = 0; i < p->rows; i++)
        printf("%-16s  %11.3f  %8.3f  %13.1f\n", p->row[i].name, p->row[i].forecast.total_ns / 1e6,
               slowdown(p, i), 100 / slowdown(p, i));
    print_classes(&p->row[p->rows - 1].forecast);
    print_latencies(p);
    puts("\nPredicted by models, not measured (docs/whatif.md).");
}

int whatif_print(const struct whatif_print *p, const char *path, const struct machine *m)
{
    if (p->json)
        return print_json(p, path);
    print_text(p, path, m);
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the papers ----------------------------------------------------------------------------- */

static json_t *papers_json(const struct papers_row *rows, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list,
                              json_pack("{s:s,s:s,s:s,s:f,s:f,s:f}", "model", rows[i].model, "what",
                                        rows[i].what, "unit", rows[i].unit, "paper", rows[i].theirs,
                                        "here", rows[i].ours, "tolerance", rows[i].tolerance));
    return json_pack("{s:o,s:s}", "papers", list, "version", CUTIN_VERSION);
}

int whatif_print_papers(bool json)
{
    struct papers_row rows[PAPERS_MOST];
    size_t n;

    if (papers_compare(rows, &n) != 0) {
        fputs("cutin-lab whatif: no memory\n", stderr);
        return EXIT_FAILURE;
    }
    if (json)
        return print_object(papers_json(rows, n), JSON_REAL_PRECISION(9));
    printf("%-8s %-56s %8s %8s %6s\n", "model", "", "paper", "here", "apart");
    for (size_t i = 0; i < n; i++)
        printf("%-8s %-56s %8.2f %8.2f %6.2f %s%s\n", rows[i].model, rows[i].what, rows[i].theirs,
               rows[i].ours, fabs(rows[i].ours - rows[i].theirs), rows[i].unit,
               fabs(rows[i].ours - rows[i].theirs) > rows[i].tolerance ? ", more than allowed"
                                                                       : "");
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
