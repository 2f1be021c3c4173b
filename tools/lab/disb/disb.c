/*
 * disb.c - `cutin-lab disb`: the inference benchmark of the REEF paper, mode by mode.
 *
 * Clients send real-time and best-effort inference requests, each at its own rate. Each mode serves
 * the same arrivals: by one process or two, on the plain driver or under cutin. The figures are how
 * long real time waits (from the arrival on) and how much work the GPU does in all, compared with
 * the mode in which real time has the GPU to itself.
 */
#include "disb.h"
#include "tools/lab/lab.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The texts of an option that may be repeated. */
struct texts {
    const char *text[DISB_CLIENTS];
    uint32_t n;
};

static struct plan {
    struct disb disb;
    const char *file;
    struct texts workload, model; /* none given: all workloads */
    uint32_t modes;               /* a mask; 0: all */
    uint32_t percent, worker;
    bool json, measured; /* measured: there is at least one result */
    json_t *definitions;
} given = {.disb = {.seconds = 5, .seed = 1}, .percent = 200, .worker = UINT32_MAX};

static const char *mode_names[DISB_MODES + 1];

static void take_another(const struct subcommand *cmd, int row, void *at)
{
    struct texts *all = at;

    if (all->n == DISB_CLIENTS)
        fail_usage(cmd, "--%s given more than %d times", cmd->options[row].name, DISB_CLIENTS);
    all->text[all->n++] = optarg;
}

static const struct option_row options[] = {
    {"sim", NULL, "run on private simulated GPUs", TAKE_FLAG(given.disb.sim)},
    {"workload", "NAME", "A, B, C, D, E, REAL, or one of --file; may be repeated (all)",
     TAKE_BY(take_another, given.workload)},
    {"seconds", "N", "duration of each mode (5)", TAKE_DECIMAL(given.disb.seconds, 1, 3600)},
    {"mode", "MODE",
     "rt-only, sequential, streams, priority-streams, native, cutin,\n"
     "cutin-streams or cutin-padding; may be repeated (all)",
     TAKE_WORDS(given.modes, mode_names)},
    {"file", "FILE", "use the workloads of this JSON file instead of A to REAL",
     TAKE_TEXT(given.file)},
    {"model", "NAME=FILE", "use the first request of this .cutw file as model NAME",
     TAKE_BY(take_another, given.model)},
    {"speed", "N", "speed of generated models, in percent of the published GPU (200)",
     TAKE_NUMBER(given.percent, 1, 100000)},
    {"apart", NULL, "run each best-effort client in its own process, in native and cutin",
     TAKE_FLAG(given.disb.apart)},
    {"seed", "N", "random seed of arrivals and generated models (1)",
     TAKE_NUMBER(given.disb.seed, 0, UINT64_MAX)},
    {"json", NULL, "one JSON object on stdout, instead of tables", TAKE_FLAG(given.json)},
    {"worker", "N", NULL, TAKE_NUMBER(given.worker, 0, DISB_CLIENTS)},
    {0},
};

/* ---- models and workloads ------------------------------------------------------------------ */

static int load_models(struct plan *p)
{
    struct disb *d = &p->disb;
    int rc = 0;

    /* The first definition of a name counts, so those of the command line come first. */
    for (uint32_t i = 0; i < p->model.n && rc == 0; i++) {
        const char *text = p->model.text[i], *file = strchr(text, '=');
        char name[DISB_NAME];

        if (!file || file == text || file - text >= DISB_NAME)
            fail_usage(&subcommand_disb, "--model=%s is not NAME=FILE", text);
        snprintf(name, sizeof(name), "%.*s", (int)(file - text), text);
        rc = disb_model_add_file(d, name, file + 1);
    }
    return rc == 0 ? disb_models_add(d, json_object_get(p->definitions, "models")) : rc;
}

/* Checks that all workloads named are there, so that this does not fail after minutes. */
static int check_workloads(struct plan *p)
{
    const json_t *all = json_object_get(p->definitions, "workloads");

    for (uint32_t i = 0; i < p->workload.n; i++) {
        if (strcmp(p->workload.text[i], "all") == 0) {
            p->workload.n = 0;
            break;
        }
        if (!json_object_get(all, p->workload.text[i])) {
            snprintf(p->disb.why, sizeof(p->disb.why), "no workload %s in %s", p->workload.text[i],
                     p->file ? p->file : "A, B, C, D, E and REAL");
            return -ENOENT;
        }
    }
    return 0;
}

static int load(struct plan *p)
{
    struct disb *d = &p->disb;
    int rc;

    p->definitions = disb_load(p->file, d->why, sizeof(d->why));
    if (!p->definitions)
        return -EINVAL;
    rc = load_models(p);
    return rc == 0 ? check_workloads(p) : rc;
}

static bool wanted(const struct plan *p, const char *name)
{
    for (uint32_t i = 0; i < p->workload.n; i++)
        if (strcmp(p->workload.text[i], name) == 0)
            return true;
    return p->workload.n == 0;
}

static bool wanted_mode(const struct plan *p, int mode)
{
    return p->modes == 0 || p->modes >> mode & 1;
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void put(json_t *object, const char *key, json_t *value)
{
    json_object_set_new(object, key, value);
}

/* Puts no ratio if one of the two was not measured. */
static void put_ratio(json_t *object, const char *key, double value, double of)
{
    if (of > 0)
        put(object, key, result_number(value / of));
}

static double per_s(const struct disb_result *r)
{
    return r->seconds > 0 ? (double)r->completed / r->seconds : 0;
}

static json_t *mode_json(const struct disb_result *r, const struct disb_result *all)
{
    const struct disb_result *alone = &all[DISB_RT_ONLY];
    json_t *object = json_object(), *rt = result_figures(&r->rt);

    put(rt, "mean_us", result_number(r->mean_us));
    put(object, "rt", rt);
    put_ratio(object, "rt_vs_alone", r->rt.p99_us, alone->rt.p99_us);
    put_ratio(object, "rt_mean_vs_alone", r->mean_us, alone->mean_us);
    put(object, "throughput_per_s", result_number(per_s(r)));
    put_ratio(object, "throughput_vs_rt_only", per_s(r), per_s(alone));
    put_ratio(object, "throughput_vs_streams", per_s(r), per_s(&all[DISB_STREAMS]));
    put(object, "rt_per_s", result_number((double)r->rt_completed / r->seconds));
    put(object, "rt_unserved", json_integer(r->late));
    put(object, "preempt_us",
        json_pack("{s:o, s:o}", "p50", result_number(r->preempt.p50_us), "p99",
                  result_number(r->preempt.p99_us)));
    return object;
}

static json_t *workload_json(const struct disb_workload *w, const struct disb_result *results)
{
    json_t *clients = json_array(), *modes = json_object();

    for (uint32_t i = 0; i < w->clients; i++)
        json_array_append_new(clients, json_pack("{s:s, s:s, s:i}", "model", w->client[i].model,
                                                 "priority", w->client[i].rt ? "rt" : "be",
                                                 "requests", (int)w->client[i].arrivals));
    for (int m = 0; m < DISB_MODES; m++)
        if (results[m].measured)
            put(modes, disb_modes[m].name, mode_json(&results[m], results));
    return json_pack("{s:o, s:o}", "clients", clients, "modes", modes);
}

static json_t *models_json(const struct disb *d)
{
    json_t *models = json_object();

    for (uint32_t i = 0; i < d->models; i++)
        put(models, d->model[i].name,
            json_pack("{s:i, s:o, s:s}", "kernels", (int)d->model[i].model.kernels, "solo_us",
                      result_number((double)model_ns(&d->model[i].model) / 1000), "source",
                      d->model[i].source));
    return models;
}

static json_t *config_json(const struct plan *p, int argc, char **argv)
{
    const struct disb *d = &p->disb;

    return json_pack("{s:s, s:s, s:i, s:b, s:f, s:f, s:b, s:I, s:o, s:o, s:o}", "version",
                     CUTIN_VERSION, "gpu", d->gpu, "driver_version", (int)d->driver_version,
                     "simulated", d->sim || strstr(d->gpu, "simulated"), "seconds", d->seconds,
                     "speed", d->speed, "apart", d->apart, "seed", (json_int_t)d->seed, "command",
                     result_command(argc, argv), "machine", result_machine(), "environment",
                     result_environment());
}

/* ---- tables -------------------------------------------------------------------------------- */

static void print_ratio(double value, double of)
{
    if (of > 0)
        printf(" %8.2f", value / of);
    else
        printf(" %8s", "-");
}

static void print_mode(const struct disb_mode *mode, const struct disb_result *r,
                       const struct disb_result *all)
{
    const struct disb_result *alone = &all[DISB_RT_ONLY];

    printf("%-17s %8.0f %8.0f %8.0f %8.0f", mode->name, r->mean_us, r->rt.p50_us, r->rt.p99_us,
           r->rt.p999_us);
    print_ratio(r->rt.p99_us, alone->rt.p99_us);
    printf(" %9.1f", per_s(r));
    print_ratio(per_s(r), per_s(alone));
    printf(" %9.0f %8.0f\n", r->preempt.p50_us, r->preempt.p99_us);
    if (r->late)
        printf("%-17s %u real-time requests were not served in time\n", "", r->late);
}

static void print_workload(const struct disb_workload *w, const struct disb_result *results)
{
    printf("\nworkload %s: real-time latency in us from the arrival; requests/s of all\n%-17s %8s "
           "%8s %8s %8s %8s %9s %8s %9s %8s\n",
           w->name, "", "mean", "p50", "p99", "p99.9", "p99 x", "req/s", "req/s x", "preempt50",
           "99");
    for (int m = 0; m < DISB_MODES; m++)
        if (results[m].measured)
            print_mode(&disb_modes[m], &results[m], results);
    fflush(stdout);
}

/* ---- running ------------------------------------------------------------------------------- */

static uint32_t runs_of_all(const struct plan *p)
{
    uint32_t workloads = 0, modes = 0;
    const json_t *definition;
    const char *name;

    json_object_foreach(json_object_get(p->definitions, "workloads"), name, definition) workloads +=
        wanted(p, name);
    for (int m = 0; m < DISB_MODES; m++)
        modes += wanted_mode(p, m);
    return workloads * modes;
}

/* Runs all modes of one workload. Prints what was measured, or puts it into `out`, also after an
 * error. */
static int run_workload(struct plan *p, const char *name, const json_t *definition, json_t *out)
{
    struct disb_result results[DISB_MODES] = {0};
    struct disb *d = &p->disb;
    struct disb_workload w;
    int rc = disb_workload_make(&w, name, definition, d->seconds, disb_grace_s(d->seconds), d->seed,
                                d->why, sizeof(d->why));

    if (rc != 0)
        return rc;
    for (int m = 0; m < DISB_MODES && rc == 0 && !progress_cancel; m++) {
        if (!wanted_mode(p, m))
            continue;
        rc = disb_run(d, &w, &disb_modes[m], &results[m]);
        p->measured |= results[m].measured;
        d->run++;
    }
    progress_end();
    if (!p->json)
        print_workload(&w, results);
    put(out, name, workload_json(&w, results));
    disb_workload_free(&w);
    return rc;
}

static int run_all(struct plan *p, json_t *out)
{
    json_t *definitions = json_object_get(p->definitions, "workloads"), *definition;
    const char *name;
    int rc = 0;

    p->disb.runs = runs_of_all(p);
    json_object_foreach(definitions, name, definition)
    {
        if (rc == 0 && !progress_cancel && wanted(p, name))
            rc = run_workload(p, name, definition, out);
    }
    return rc;
}

static int report(struct plan *p, json_t *workloads, int argc, char **argv)
{
    json_t *root =
        json_pack("{s:o, s:o, s:b, s:o}", "workloads", workloads, "models", models_json(&p->disb),
                  "interrupted", (int)progress_cancel, "config", config_json(p, argc, argv));
    int rc = result_give(root, p->json);

    if (progress_cancel)
        say(&subcommand_disb, "interrupted; the figures cover what was measured");
    return rc;
}

static int disb(const struct subcommand *cmd, int argc, char **argv)
{
    int rc, status = EXIT_FAILURE;
    json_t *workloads;

    for (int m = 0; m < DISB_MODES; m++)
        mode_names[m] = disb_modes[m].name;
    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    if (given.worker <= DISB_CLIENTS)
        return disb_worker_main(given.worker);
    given.disb.speed = given.percent / 100.0;
    paths_find(&given.disb.paths);
    rc = load(&given);
    if (rc == 0) {
        progress_begin();
        workloads = json_object();
        rc = run_all(&given, workloads);
        if (rc == -ECANCELED && given.measured)
            rc = 0;
        if (rc != -ECANCELED) {
            status = report(&given, workloads, argc, argv);
        } else {
            snprintf(given.disb.why, sizeof(given.disb.why),
                     "interrupted before anything was measured");
            json_decref(workloads);
        }
    }
    if (rc != 0) {
        say(cmd, "%s", given.disb.why);
        status = EXIT_FAILURE;
    }
    for (uint32_t i = 0; i < given.disb.models; i++)
        model_free(&given.disb.model[i].model);
    json_decref(given.definitions);
    return status;
}

const struct subcommand subcommand_disb = {
    .name = "disb",
    .summary = "run the REEF paper's benchmark: inference clients on one GPU",
    .synopsis = "[OPTIONS]",
    .about =
        "Serves the same real-time and best-effort requests in several modes, on the plain driver\n"
        "and under cutin, and compares latency and throughput with real time by itself.",
    .options = options,
    .run = disb,
};
