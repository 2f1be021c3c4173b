/*
 * bench_json.c - the figures of `cutin latency` as one JSON object.
 */
#include "bench.h"
#include "tools/cutin/result.h"

#include <stdlib.h>
#include <string.h>

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

static json_t *interval_json(const struct interval *i)
{
    return json_pack("[o, o]", result_number(i->least), result_number(i->most));
}

static json_t *estimate_json(const struct bench_estimate *e, double percent)
{
    json_t *all = json_pack("{s:f}", "percent", percent);

    if (!e->known) {
        put(all, "needs_samples", json_integer((json_int_t)figures_least_samples(percent)));
        return all;
    }
    put(all, "us", result_number(e->us));
    put(all, "us_95", interval_json(&e->us_within));
    if (!e->compared)
        return all;
    put(all, "vs_alone", result_number(e->ratio));
    put(all, "vs_alone_95", interval_json(&e->ratio_within));
    put(all, "added_us", result_number(e->added_us));
    put(all, "added_us_95", interval_json(&e->added_within));
    return all;
}

static json_t *mode_json(const struct bench *b, const struct bench_result *r)
{
    json_t *mode = result_figures(&r->figures), *estimates = json_array();
    char when[RESULT_TIME];

    for (int k = 0; k < BENCH_ESTIMATES; k++)
        if (bench_percent(b, k) > 0)
            json_array_append_new(estimates, estimate_json(&r->estimate[k], bench_percent(b, k)));
    result_refuse(mode, r->n);
    put(mode, "estimates", estimates);
    put(mode, "max_at", json_string(result_time(r->max_at_ns, when)));
    if (b->floor.measured)
        put(mode, "within_floor", json_boolean(bench_in_floor(b, (int)(r - b->mode))));
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

static json_t *floor_json(const struct bench *b)
{
    const struct floor_spin *f = &b->floor.spin;

    return json_pack("{s:{s:o, s:i, s:I, s:o, s:o}, s:o, s:o}", "spin", "seconds",
                     result_number((double)f->ns / 1e9), "gap_us", FLOOR_GAP_NS / 1000, "gaps",
                     (json_int_t)f->gaps, "sum_us", result_number((double)f->gap_ns / 1e3),
                     "max_us", result_number((double)f->most_ns / 1e3), "launch_us",
                     result_figures(&b->floor.launch), "p99_us", result_number(bench_floor_us(b)));
}

static json_t *added_json(const struct bench *b)
{
    json_t *added = json_object();

    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++) {
        struct bench_added a = bench_added(b, m);
        if (bench_has(b, m) && bench_has(b, BENCH_ALONE))
            put(added, bench_mode_names[m],
                json_pack("{s:o, s:o}", "p50", result_number(a.p50_us), "p99",
                          bench_p99_known(b, m) ? result_number(a.p99_us) : json_null()));
    }
    return added;
}

/* The added p99 as a share of the time that one graph takes. */
static json_t *graph_json(const struct bench *b)
{
    json_t *shares = json_object();
    double graph_us = bench_graph_us(b);

    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++)
        if (bench_has(b, m) && bench_has(b, BENCH_ALONE) && graph_us > 0)
            put(shares, bench_mode_names[m],
                bench_p99_known(b, m) ? json_real(bench_added(b, m).p99_us / graph_us)
                                      : json_null());
    return json_pack("{s:i, s:o, s:o}", "kernels", (int)b->plan.be_graph, "length_us",
                     result_number(graph_us), "added_p99_share", shares);
}

static json_t *work_json(const struct bench_work *work)
{
    return json_pack("{s:o, s:I, s:o}", "kernels_per_s", result_number(bench_rate(work)), "kernels",
                     (json_int_t)work->kernels, "seconds",
                     result_number((double)work->elapsed_ns / 1e9));
}

static json_t *be_json(const struct bench *b)
{
    const struct bench_work *native = &b->mode[BENCH_NATIVE].solo,
                            *cutin = &b->mode[BENCH_CUTIN].solo;
    json_t *be = json_object();

    for (int m = BENCH_NATIVE; m <= BENCH_CUTIN; m++) {
        char key[32];
        if (!bench_has(b, m))
            continue;
        put(be, bench_mode_names[m], work_json(&b->mode[m].shared));
        snprintf(key, sizeof(key), "%s_solo", bench_mode_names[m]);
        if (b->mode[m].solo.elapsed_ns)
            put(be, key, work_json(&b->mode[m].solo));
    }
    if (native->kernels && cutin->elapsed_ns)
        put(be, "cutin_ratio", result_number(bench_rate(cutin) / bench_rate(native)));
    if (b->engagement.gates)
        put(be, "gate_us", result_number(bench_gate_us(b)));
    if (b->checked)
        put(be, "checksum", json_string(b->identical ? "identical" : "DIFFERENT"));
    return be;
}

static json_t *broke_json(const struct bench *b)
{
    char when[RESULT_TIME];

    return json_pack("{s:o, s:i, s:o, s:s, s:s, s:I}", "bound_us", result_number(b->plan.break_us),
                     "request", (int)b->broke.sample, "us", result_number(b->broke.us), "arrived",
                     result_time(bench_since_1970_ns(b->broke.at_ns), when), "trace",
                     b->plan.break_trace, "events", (json_int_t)b->broke.events);
}

static json_t *stages_json(const struct bench *b)
{
    json_t *stages = json_object();

    for (int i = 0; i < STAGE_COUNT; i++) {
        json_t *one = result_brief(&b->stages.figures[i]);
        put(one, "what", json_string(stage_rows[i].is));
        put(stages, stage_rows[i].name, one);
    }
    return json_pack("{s:s, s:i, s:i, s:o}", "method", bench_trace_methods[b->plan.method],
                     "cut_ins", (int)b->stages.cut_ins, "paused", (int)b->stages.paused, "us",
                     stages);
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
        "version", CUTIN_VERSION, "gpu", b->gpu, "driver_version", (int)b->driver_version,
        "simulated", p->sim || strstr(b->gpu, "simulated"), "samples", (int)p->samples,
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

json_t *bench_json(const struct bench *b)
{
    const struct bench_engagement *e = &b->engagement;
    const struct claim *c = &b->claim;
    json_t *modes = json_object(), *engagement = NULL;

    for (int m = 0; m < BENCH_MODES; m++)
        if (bench_has(b, m))
            put(modes, bench_mode_names[m], mode_json(b, &b->mode[m]));
    if (bench_has(b, BENCH_CUTIN))
        engagement = json_pack("{s:b, s:I, s:I, s:I}", "engaged", bench_engaged(b), "cut_ins",
                               (json_int_t)e->cut_ins, "holds", (json_int_t)e->holds, "gates",
                               (json_int_t)e->gates);
    return json_pack(
        "{s:o, s:o, s:o*, s:o, s:o*, s:{s:o, s:b, s:b}, s:o*, s:o*, s:o*, s:b, s:o, "
        "s:o}",
        "modes", modes, "added_us", added_json(b), "graph", b->plan.be_graph ? graph_json(b) : NULL,
        "be", be_json(b), "floor", b->floor.measured ? floor_json(b) : NULL, "claim", "processor",
        c->cpu < 0 ? json_null() : json_integer(c->cpu), "locked", c->locked, "realtime",
        c->realtime, "engagement", engagement, "stages", b->plan.stages ? stages_json(b) : NULL,
        "broke", b->broke.broke ? broke_json(b) : NULL, "interrupted", b->cancelled, "seconds",
        result_number(b->seconds), "config", bench_config_json(b));
}
