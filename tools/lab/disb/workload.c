/*
 * workload.c - makes workloads (clients and their arrivals) and models from JSON (docs/disb.md).
 */
#include "disb.h"
#include "tools/cutin/statistics/random.h"
#include "tools/lab/record/workload.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "disb_json.h"

enum { MOST_ARRIVALS = 10000000, MOST_KERNELS = 100000 };

struct complaint {
    char *why;
    size_t bytes;
    const char *workload;
    uint32_t client;
};

static int refuse(const struct complaint *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int refuse(const struct complaint *c, const char *format, ...)
{
    va_list args;
    int n = snprintf(c->why, c->bytes, "workload %s, client %u: ", c->workload, c->client);

    va_start(args, format);
    if (n > 0 && (size_t)n < c->bytes)
        vsnprintf(c->why + n, c->bytes - (size_t)n, format, args);
    va_end(args);
    return -EINVAL;
}

json_t *disb_load(const char *path, char *why, size_t why_bytes)
{
    json_error_t error;
    json_t *root = path ? json_load_file(path, JSON_REJECT_DUPLICATES, &error)
                        : json_loads(disb_json, 0, &error);

    if (!root) {
        if (error.line > 0)
            snprintf(why, why_bytes, "%s, line %d: %s", path, error.line, error.text);
        else
            snprintf(why, why_bytes, "%s", error.text);
        return NULL;
    }
    if (json_object_size(json_object_get(root, "workloads")) > 0)
        return root;
    snprintf(why, why_bytes, "%s has no \"workloads\"; see docs/disb.md", path);
    json_decref(root);
    return NULL;
}

/* ---- arrivals ------------------------------------------------------------------------------ */

struct arrivals {
    double first_ns, next_ns;
    uint64_t seed;
    double period_ns, least_ns, most_ns; /* each kind uses some of these */
    const json_t *trace;
};

static int number(const json_t *client, const char *key, double least, double most,
                  const struct complaint *c, double *out)
{
    const json_t *value = json_object_get(client, key);

    *out = json_is_number(value) ? json_number_value(value) : NAN;
    if (*out >= least && *out <= most)
        return 0;
    return refuse(c, "\"%s\" has to be a number from %g to %g", key, least, most);
}

/* The i-th arrival. Later ones are never earlier than that. */
static double periodic(struct arrivals *a, uint64_t i)
{
    /* A random phase, and each arrival up to a tenth of a period late. So two clients of one rate
     * do not keep the phase in which they begin. */
    if (i == 0)
        a->first_ns = random_unit(&a->seed) * a->period_ns;
    return a->first_ns + a->period_ns * ((double)i + 0.1 * random_unit(&a->seed));
}

static double poisson(struct arrivals *a, uint64_t i)
{
    return a->next_ns -= a->period_ns * log(random_unit(&a->seed));
}

static double uniform(struct arrivals *a, uint64_t i)
{
    double gap_ns = a->least_ns + (a->most_ns - a->least_ns) * random_unit(&a->seed);

    /* The first one comes at a random phase. */
    a->next_ns += i == 0 ? gap_ns * random_unit(&a->seed) : gap_ns;
    return a->next_ns;
}

static double traced(struct arrivals *a, uint64_t i)
{
    const json_t *at = json_array_get(a->trace, i);

    return at ? json_number_value(at) * 1e6 : INFINITY;
}

static int read_rate(const json_t *client, struct arrivals *a, const struct complaint *c)
{
    double per_s;
    int rc = number(client, "per_s", 0.001, 100000, c, &per_s);

    a->period_ns = 1e9 / per_s;
    return rc;
}

static int read_range(const json_t *client, struct arrivals *a, const struct complaint *c)
{
    int rc = number(client, "least_ms", 0.01, 1e6, c, &a->least_ns);

    if (rc == 0)
        rc = number(client, "most_ms", a->least_ns, 1e6, c, &a->most_ns);
    a->least_ns *= 1e6;
    a->most_ns *= 1e6;
    return rc;
}

static int read_trace(const json_t *client, struct arrivals *a, const struct complaint *c)
{
    double before = 0;

    a->trace = json_object_get(client, "at_ms");
    if (json_array_size(a->trace) == 0)
        return refuse(c, "\"at_ms\" has to be an array of milliseconds");
    for (size_t i = 0; i < json_array_size(a->trace); i++) {
        const json_t *at = json_array_get(a->trace, i);
        if (!json_is_number(at) || json_number_value(at) < before)
            return refuse(c, "\"at_ms\" has to be numbers that rise from 0 on");
        before = json_number_value(at);
    }
    return 0;
}

static const struct kind {
    const char *name;
    int (*read)(const json_t *client, struct arrivals *a, const struct complaint *c);
    double (*at)(struct arrivals *a, uint64_t i); /* NULL: closed */
} kinds[] = {
    {"periodic", read_rate, periodic},
    {"poisson", read_rate, poisson},
    {"uniform", read_range, uniform},
    {"trace", read_trace, traced},
    {"closed", NULL, NULL},
};

static int fill_arrivals(struct disb_client *client, const struct kind *kind, struct arrivals *a,
                         double until_ns, const struct complaint *c)
{
    size_t room = 0;

    for (uint32_t i = 0;; i++) {
        double at_ns = kind->at(a, i);
        if (at_ns >= until_ns)
            return 0;
        if (i == MOST_ARRIVALS)
            return refuse(c, "more than %d requests", MOST_ARRIVALS);
        if (list_grow(&client->arrival_ns, &room, i, sizeof(*client->arrival_ns)) != 0)
            return refuse(c, "no memory for its arrivals");
        client->arrival_ns[i] = (uint64_t)at_ns;
        client->arrivals = i + 1;
    }
}

/* ---- clients ------------------------------------------------------------------------------- */

static int make_client(struct disb_client *client, const json_t *json, double seconds,
                       double beyond_s, uint64_t seed, const struct complaint *c)
{
    const char *model = json_string_value(json_object_get(json, "model")),
               *priority = json_string_value(json_object_get(json, "priority")),
               *arrivals = json_string_value(json_object_get(json, "arrivals"));
    struct arrivals a = {.seed = seed};
    const struct kind *kind = kinds, *end = kinds + sizeof(kinds) / sizeof(kinds[0]);
    int rc;

    if (!model || strlen(model) >= DISB_NAME)
        return refuse(c, "\"model\" has to be a name of at most %d characters", DISB_NAME - 1);
    if (!priority || (strcmp(priority, "rt") != 0 && strcmp(priority, "be") != 0))
        return refuse(c, "\"priority\" has to be \"rt\" or \"be\"");
    while (kind < end && (!arrivals || strcmp(arrivals, kind->name) != 0))
        kind++;
    if (kind == end)
        return refuse(c, "\"arrivals\" has to be periodic, poisson, uniform, trace or closed");
    snprintf(client->model, sizeof(client->model), "%s", model);
    client->rt = strcmp(priority, "rt") == 0;
    client->closed = !kind->at;
    if (client->closed)
        return 0;
    rc = kind->read(json, &a, c);
    if (rc != 0)
        return rc;
    return fill_arrivals(client, kind, &a, (seconds + (client->rt ? 0 : beyond_s)) * 1e9, c);
}

int disb_workload_make(struct disb_workload *w, const char *name, const json_t *definition,
                       double seconds, double beyond_s, uint64_t seed, char *why, size_t why_bytes)
{
    const json_t *clients = json_object_get(definition, "clients");
    struct complaint c = {why, why_bytes, name, 0};
    int rc = 0;

    *w = (struct disb_workload){0};
    snprintf(w->name, sizeof(w->name), "%s", name);
    for (; c.client < json_array_size(clients) && rc == 0; c.client++) {
        const json_t *json = json_array_get(clients, c.client),
                     *count = json_object_get(json, "count");
        json_int_t n = count ? json_integer_value(count) : 1;

        if (n < 1 || n > DISB_CLIENTS - (json_int_t)w->clients)
            rc = refuse(&c, "a workload has 1 to %d clients", DISB_CLIENTS);
        for (; n > 0 && rc == 0; n--, w->clients++)
            rc = make_client(&w->client[w->clients], json, seconds, beyond_s,
                             seed * 1000003 + w->clients, &c);
    }
    if (rc == 0 && w->clients == 0) {
        snprintf(why, why_bytes, "workload %s has no clients", name);
        rc = -EINVAL;
    }
    if (rc != 0)
        disb_workload_free(w);
    return rc;
}

void disb_workload_free(struct disb_workload *w)
{
    for (uint32_t i = 0; i < DISB_CLIENTS; i++)
        free(w->client[i].arrival_ns);
    *w = (struct disb_workload){0};
}

/* ---- models -------------------------------------------------------------------------------- */

static int model_check_fits(struct disb *d, const char *name)
{
    if (d->models < DISB_CLIENTS && strlen(name) < DISB_NAME)
        return 0;
    snprintf(d->why, sizeof(d->why), "model %s: at most %d models, of %d characters", name,
             DISB_CLIENTS, DISB_NAME - 1);
    return -E2BIG;
}

static struct model *model_add(struct disb *d, const char *name, const char *source)
{
    struct disb_model *m = &d->model[d->models++];

    snprintf(m->name, sizeof(m->name), "%s", name);
    snprintf(m->source, sizeof(m->source), "%s", source);
    return &m->model;
}

int disb_model_add_file(struct disb *d, const char *name, const char *path)
{
    int rc = model_check_fits(d, name);

    if (rc == 0)
        rc = model_read(model_add(d, name, path), path, d->why, sizeof(d->why));
    return rc;
}

/* [[blocks, threads, us], ...] */
static int model_kernels(struct disb *d, const char *name, const json_t *kernels)
{
    size_t n = json_array_size(kernels);
    struct model *m;
    int rc = model_check_fits(d, name);

    if (rc != 0)
        return rc;
    m = model_add(d, name, "the workloads' file");
    m->kernel = n && n <= MOST_KERNELS ? calloc(n, sizeof(*m->kernel)) : NULL;
    for (size_t i = 0; m->kernel && i < n; i++) {
        double v[3];
        for (size_t k = 0; k < 3; k++)
            v[k] = json_number_value(json_array_get(json_array_get(kernels, i), k));
        if (v[0] < 1 || v[0] > INT32_MAX || v[1] < 1 || v[1] > 1024 || v[2] < 0.1 || v[2] > 1e7)
            break;
        m->kernel[m->kernels++] =
            (struct model_kernel){(uint32_t)v[0], (uint32_t)v[1], (uint64_t)(v[2] * 1000)};
    }
    if (m->kernels == n && n)
        return 0;
    snprintf(
        d->why, sizeof(d->why),
        "model %s: \"kernels\" has to be [[blocks, threads up to 1024, microseconds], ...], at "
        "most %d",
        name, MOST_KERNELS);
    return -EINVAL;
}

int disb_models_add(struct disb *d, const json_t *models)
{
    const char *name;
    json_t *model;
    int rc = 0;

    json_object_foreach((json_t *)(uintptr_t)models, name, model)
    {
        const char *file = json_string_value(json_object_get(model, "file"));
        rc = file ? disb_model_add_file(d, name, file)
                  : model_kernels(d, name, json_object_get(model, "kernels"));
        if (rc != 0)
            break;
    }
    return rc;
}

const struct model *disb_model(struct disb *d, const char *name)
{
    struct model generated;
    char source[64];
    uint64_t seed = d->seed;

    for (uint32_t i = 0; i < d->models; i++)
        if (strcmp(d->model[i].name, name) == 0)
            return &d->model[i].model;
    for (const char *c = name; *c; c++) /* gives models of one seed different orders */
        seed = seed * 31 + (unsigned char)*c;
    if (model_check_fits(d, name) != 0)
        return NULL;
    if (model_generate(&generated, name, d->speed, seed) != 0) {
        snprintf(d->why, sizeof(d->why),
                 "there is no model %s; define it in the file's \"models\" or by --model %s=FILE",
                 name, name);
        return NULL;
    }
    snprintf(source, sizeof(source), "generated, %g times as fast as published", d->speed);
    *model_add(d, name, source) = generated;
    return &d->model[d->models - 1].model;
}
