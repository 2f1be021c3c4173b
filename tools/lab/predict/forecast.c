/*
 * forecast.c - run a recorded program on a modelled machine (see forecast.h).
 */
#include "forecast.h"
#include "rerun.h"
#include "tools/cutin/statistics/random.h"

#include <errno.h>
#include <stdlib.h>

const uint64_t forecast_class_ns[FORECAST_CLASSES] = {10000, 50000, 200000, 800000, UINT64_MAX};

/* A program with all that a rerun wants of it. */
struct part {
    struct rerun_job job;
    uint64_t *device_ns, *arrival_ns, *latency_ns;
    size_t *start;
};

static void arrivals_draw(uint64_t *ns, size_t n, const struct forecast_load *load)
{
    uint64_t state = load->seed;
    double at = 0;

    for (size_t i = 0; i < n; i++) {
        at += random_exponential(&state) * 1e9 / load->per_s;
        ns[i] = (uint64_t)at;
    }
}

static int part_open(struct part *p, const struct machine *m, const struct workload *w,
                     const struct forecast_load *load)
{
    bool clocked = load->per_s > 0;
    size_t requests = clocked ? load->requests : 1;

    *p = (struct part){0};
    p->device_ns = calloc(w->ops + 1, sizeof(*p->device_ns));
    p->start = calloc(w->ops + 2, sizeof(*p->start));
    p->arrival_ns = calloc(requests + 1, sizeof(*p->arrival_ns));
    p->latency_ns = calloc(requests + 1, sizeof(*p->latency_ns));
    if (!p->device_ns || !p->start || !p->arrival_ns || !p->latency_ns)
        return -ENOMEM;
    if (clocked)
        arrivals_draw(p->arrival_ns, requests, load);
    else /* all of it is one request */
        p->start[1] = w->ops;
    p->job = (struct rerun_job){.w = w,
                                .device_ns = p->device_ns,
                                .wait_ns = distance_delta_ns(&m->distance),
                                .host_speed = m->host_speed,
                                .start = p->start,
                                .starts = clocked ? workload_requests(w, p->start) : 1,
                                .arrival_ns = p->arrival_ns,
                                .requests = requests,
                                .latency_ns = p->latency_ns};
    return machine_times(m, w, p->device_ns);
}

static void part_close(struct part *p)
{
    free(p->device_ns);
    free(p->start);
    free(p->arrival_ns);
    free(p->latency_ns);
}

static void classes_fill(struct forecast *out, const struct part *p)
{
    const struct workload *w = p->job.w;

    for (size_t i = 0; i < w->ops; i++) {
        size_t k = 0;

        if (w->op[i].kind != WORKLOAD_KERNEL)
            continue;
        while (w->op[i].duration_ns > forecast_class_ns[k])
            k++;
        out->by_duration[k].kernels++;
        out->by_duration[k].recorded_ns += (double)w->op[i].duration_ns;
        out->by_duration[k].ns += (double)p->device_ns[i];
    }
}

int forecast_calibrate(struct workload *w, const struct machine *recorded)
{
    const struct rerun_device device = {.processors = recorded->processors};
    const struct forecast_load once = {0};
    struct part part;
    int rc = part_open(&part, recorded, w, &once);

    part.job.work_ns = part.device_ns; /* each is read before it is written */
    if (rc == 0)
        rc = rerun(&device, &part.job, 1);
    for (size_t i = 0; i < w->ops && rc == 0; i++)
        if (w->op[i].kind != WORKLOAD_SYNC)
            w->op[i].duration_ns = part.device_ns[i];
    part_close(&part);
    return rc;
}

int forecast_run(struct forecast *out, const struct machine *machine, const struct workload *w,
                 const struct forecast_load *load, const struct workload *real_time,
                 const struct forecast_load *real_time_load, uint64_t budget_ns)
{
    struct rerun_device device = {.processors = machine->processors, .budget_ns = budget_ns};
    struct part part[2] = {0};
    struct rerun_job jobs[2];
    size_t n = real_time ? 2 : 1;
    int rc = part_open(&part[0], machine, w, load);

    *out = (struct forecast){0};
    if (rc == 0 && real_time)
        rc = part_open(&part[1], machine, real_time, real_time_load);
    for (size_t i = 0; i < n; i++)
        jobs[i] = part[i].job;
    if (rc == 0)
        rc = rerun(&device, jobs, n);
    if (rc == 0) {
        out->total_ns = (double)jobs[0].end_ns;
        classes_fill(out, &part[0]);
        if (load->per_s > 0)
            figures_make(&out->latency, part[0].latency_ns, jobs[0].served);
        if (real_time && jobs[1].served)
            figures_make(&out->real_time, part[1].latency_ns, jobs[1].served);
    }
    for (size_t i = 0; i < 2; i++)
        part_close(&part[i]);
    return rc;
}
