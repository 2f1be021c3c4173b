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

static json_t *interval_json(bool known, const struct interval *i)
{
    return known ? json_pack("[o, o]", result_number(i->least), result_number(i->most)) : NULL;
}

static json_t *estimate_json(const struct bench_estimate *e, double percent)
{
    if (!e->known)
        return json_pack("{s:f, s:I}", "percent", percent, "needs_samples",
                         (json_int_t)figures_least_samples(percent));
    return json_pack("{s:f, s:o, s:o, s:o*, s:o*, s:o*, s:o*}", "percent", percent, "us",
                     result_number(e->us), "us_95", interval_json(true, &e->us_within), "vs_alone",
                     e->compared ? result_number(e->ratio) : NULL, "vs_alone_95",
                     interval_json(e->compared, &e->ratio_within), "added_us",
                     e->compared ? result_number(e->added_us) : NULL, "added_us_95",
                     interval_json(e->compared, &e->added_within));
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

/* What the modes measured, and what cutin and the plain driver add to alone. */
static void put_modes(const struct bench *b, json_t *root)
{
    const struct bench_work *native = &b->mode[BENCH_NATIVE].solo,
                            *cutin = &b->mode[BENCH_CUTIN].solo;
    json_t *modes = json_object(), *added = json_object(), *be = json_object();
    json_t *shares = json_object(); /* the added p99 as a share of the time that one graph takes */
    double graph_us = bench_graph_us(b);

    for (int m = 0; m < BENCH_MODES; m++) {
        const struct bench_result *r = &b->mode[m];
        const char *name = bench_mode_names[m];
        struct bench_added a = bench_added(b, m);
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
            json_pack("{s:o, s:o}", "p50", result_number(a.p50_us), "p99",
                      bench_p99_known(b, m) ? result_number(a.p99_us) : json_null()));
        if (graph_us > 0)
            put(shares, name, bench_p99_known(b, m) ? json_real(a.p99_us / graph_us) : json_null());
    }
    if (native->kernels && cutin->elapsed_ns)
        put(be, "cutin_ratio", result_number(bench_rate(cutin) / bench_rate(native)));
    if (b->engagement.gates)
        put(be, "gate_us", result_number(bench_gate_us(b)));
    if (b->checked)
        put(be, "checksum", json_string(b->identical ? "identical" : "DIFFERENT"));
    put(root, "modes", modes);
    put(root, "added_us", added);
    if (b->plan.be_graph)
        put(root, "graph",
            json_pack("{s:i, s:o, s:O}", "kernels", (int)b->plan.be_graph, "length_us",
                      result_number(graph_us), "added_p99_share", shares));
    json_decref(shares);
    put(root, "be", be);
}

json_t *bench_json(const struct bench *b)
{
    const struct floor_spin *f = &b->floor.spin;
    const struct bench_engagement *e = &b->engagement;
    json_t *root = json_object(), *stages = json_object();
    char when[RESULT_TIME];

    put_modes(b, root);
    if (b->floor.measured)
        put(root, "floor",
            json_pack("{s:{s:o, s:i, s:I, s:o, s:o}, s:o, s:o}", "spin", "seconds",
                      result_number((double)f->ns / 1e9), "gap_us", FLOOR_GAP_NS / 1000, "gaps",
                      (json_int_t)f->gaps, "sum_us", result_number((double)f->gap_ns / 1e3),
                      "max_us", result_number((double)f->most_ns / 1e3), "launch_us",
                      result_figures(&b->floor.launch), "p99_us",
                      result_number(bench_floor_us(b))));
    put(root, "claim",
        json_pack("{s:o, s:b, s:b}", "processor",
                  b->claim.cpu < 0 ? json_null() : json_integer(b->claim.cpu), "locked",
                  b->claim.locked, "realtime", b->claim.realtime));
    if (bench_has(b, BENCH_CUTIN))
        put(root, "engagement",
            json_pack("{s:b, s:I, s:I, s:I}", "engaged", bench_engaged(b), "cut_ins",
                      (json_int_t)e->cut_ins, "holds", (json_int_t)e->holds, "gates",
                      (json_int_t)e->gates));
    for (int i = 0; i < STAGE_COUNT; i++) {
        json_t *one = result_brief(&b->stages.figures[i]);
        put(one, "what", json_string(stage_rows[i].is));
        put(stages, stage_rows[i].name, one);
    }
    if (b->plan.stages)
        put(root, "stages",
            json_pack("{s:s, s:i, s:i, s:O}", "method", bench_trace_methods[b->plan.method],
                      "cut_ins", (int)b->stages.cut_ins, "paused", (int)b->stages.paused, "us",
                      stages));
    json_decref(stages);
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
