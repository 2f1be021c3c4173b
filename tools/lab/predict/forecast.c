/*
 * forecast.c - runs a recorded program on a modelled machine (see forecast.h).
 */
#include "forecast.h"
#include "rerun.h"
#include "tools/cutin/statistics/random.h"

#include <errno.h>
#include <stdlib.h>

const uint64_t forecast_class_ns[FORECAST_CLASSES] = {10000, 50000, 200000, 800000, UINT64_MAX};

static void load_draw(uint64_t *ns, size_t n, const struct forecast_load *load)
{
    uint64_t state = load->seed;
    double at = 0;

    for (size_t i = 0; i < n; i++) {
        at += random_exponential(&state) * 1e9 / load->per_s;
        ns[i] = (uint64_t)at;
    }
}

static int job_open(struct rerun_job *job, const struct machine *m, const struct workload *w,
                    const struct forecast_load *load)
{
    bool clocked = load->per_s > 0;
    size_t requests = clocked ? load->requests : 1;

    *job = (struct rerun_job){.w = w,
                              .device_ns = calloc(w->ops + 1, sizeof(*job->device_ns)),
                              .wait_ns = distance_delta_ns(&m->distance),
                              .host_speed = m->host_speed,
                              .start = calloc(w->ops + 2, sizeof(*job->start)),
                              .starts = 1,
                              .arrival_ns = calloc(requests + 1, sizeof(*job->arrival_ns)),
                              .requests = requests,
                              .latency_ns = calloc(requests + 1, sizeof(*job->latency_ns))};
    if (!job->device_ns || !job->start || !job->arrival_ns || !job->latency_ns)
        return -ENOMEM;
    if (clocked) {
        load_draw(job->arrival_ns, requests, load);
        job->starts = workload_request_starts(w, job->start);
    } else { /* the whole program is one request */
        job->start[1] = w->ops;
    }
    return machine_times(m, w, job->device_ns);
}

static void job_close(struct rerun_job *job)
{
    free(job->device_ns);
    free(job->start);
    free(job->arrival_ns);
    free(job->latency_ns);
}

static void classes_fill(struct forecast *out, const struct rerun_job *job)
{
    const struct workload *w = job->w;

    for (size_t i = 0; i < w->ops; i++) {
        size_t k = 0;

        if (w->op[i].kind != WORKLOAD_KERNEL)
            continue;
        while (w->op[i].duration_ns > forecast_class_ns[k])
            k++;
        out->by_duration[k].kernels++;
        out->by_duration[k].recorded_ns += (double)w->op[i].duration_ns;
        out->by_duration[k].ns += (double)job->device_ns[i];
    }
}

int forecast_calibrate(struct workload *w, const struct machine *recorded)
{
    const struct rerun_device device = {.processors = recorded->processors};
    const struct forecast_load once = {0};
    struct rerun_job job;
    int rc = job_open(&job, recorded, w, &once);

    job.work_ns = job.device_ns; /* each op's time is read before it is written */
    if (rc == 0)
        rc = rerun(&device, &job, 1);
    for (size_t i = 0; i < w->ops && rc == 0; i++)
        if (w->op[i].kind != WORKLOAD_SYNC)
            w->op[i].duration_ns = job.device_ns[i];
    job_close(&job);
    return rc;
}

int forecast_run(struct forecast *out, const struct machine *machine, const struct workload *w,
                 const struct forecast_load *load, const struct workload *real_time,
                 const struct forecast_load *real_time_load, uint64_t budget_ns)
{
    struct rerun_device device = {.processors = machine->processors, .budget_ns = budget_ns};
    struct rerun_job jobs[2] = {0};
    int rc = job_open(&jobs[0], machine, w, load);

    *out = (struct forecast){0};
    if (rc == 0 && real_time)
        rc = job_open(&jobs[1], machine, real_time, real_time_load);
    if (rc == 0)
        rc = rerun(&device, jobs, real_time ? 2 : 1);
    if (rc == 0) {
        out->total_ns = (double)jobs[0].end_ns;
        classes_fill(out, &jobs[0]);
        if (load->per_s > 0)
            figures_make(&out->latency, jobs[0].latency_ns, jobs[0].served);
        if (real_time && jobs[1].served)
            figures_make(&out->real_time, jobs[1].latency_ns, jobs[1].served);
    }
    for (size_t i = 0; i < 2; i++)
        job_close(&jobs[i]);
    return rc;
}
