/*
 * rt_inference.c - a small inference server: requests arrive on a clock, each is a chain of short
 * kernels with an input and an output copy, and each answer is checked.
 *
 * Latency counts from the arrival, not from when the program begins the request: a request that
 * waits behind a late one is late, too. Beside it are the device's own figures, from CUDA events.
 * They do not contain how late the processor was. On a GPU they begin when the device comes to the
 * request, so they lack the time in which it waited for its turn. On the simulated GPU they begin
 * with the submission.
 *
 *   rt_inference --rate 100 --requests 300
 *   cutin run --priority rt -- rt_inference --rate 100 --seconds 10 --realtime --spin-us 200 --json
 */
#include "common.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 256, MOST_REQUESTS = 1000000 };

static double rate = 100, requests = 0, seconds = 0, kernels = 70, kernel_us = 10;
static double warm_up = 0, spin_us = 0;
static bool json, realtime, announce;

static const struct setting settings[] = {
    {"rate", &rate, NULL, 0.1, 100000, "requests per second"},
    {"requests", &requests, NULL, 0, MOST_REQUESTS,
     "stop after this many; 0: 100, or as --seconds says"},
    {"seconds", &seconds, NULL, 0, 86400, "stop after this many; 0: no limit"},
    {"kernels", &kernels, NULL, 1, 1000, "kernels per request"},
    {"kernel-us", &kernel_us, NULL, 0, 100000, "microseconds per kernel"},
    {"warm-up", &warm_up, NULL, 0, MOST_REQUESTS, "first requests, which do not count"},
    {"realtime", NULL, &realtime, 0, 0,
     "use a real-time class and a processor of its own, where permitted"},
    {"spin-us", &spin_us, NULL, 0, 1000000,
     "spin this long before an arrival, and until the answer is there; 0: sleep"},
    {"announce", NULL, &announce, 0, 0, "say on stderr when it is warm: later requests count"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

struct model {
    struct gpu gpu;
    CUstream stream;
    CUdeviceptr x;
    uint32_t *input, *output; /* pinned */
    CUevent began, first, ended;
};

/* Times of each request, in nanoseconds. */
struct times {
    uint64_t *latency; /* from its arrival until the program has the answer */
    uint64_t *device;  /* by the device's clock, until its last work is done */
    uint64_t *first;   /* by the device's clock, until its first kernel is done */
};

struct figures {
    struct times times;
    size_t served, wrong;
    uint64_t warm_worst_ns; /* the longest latency of the warm-up */
    uint64_t checksum;
};

/* How the operating system runs the program. */
struct host {
    bool class; /* SCHED_RR */
    int processor;
};

/* ---- the host -------------------------------------------------------------------------------- */

static bool processors(cpu_set_t *set)
{
    return sched_getaffinity(0, sizeof(*set), set) == 0 && CPU_COUNT(set) > 1;
}

/* Call this before the driver starts threads, because they inherit the class. On a single processor
 * no other thread would run while this one spins, so the class stays ordinary. */
static bool class_take(void)
{
    const struct sched_param least = {.sched_priority = 1};
    cpu_set_t set;

    return processors(&set) && sched_setscheduler(0, SCHED_RR, &least) == 0;
}

/* Takes the last processor allowed; -1: none. Call this after the driver has started threads: they
 * would inherit the processor and be stuck behind this thread. */
static int processor_take(void)
{
    size_t last = CPU_SETSIZE - 1;
    cpu_set_t set;

    if (!processors(&set))
        return -1;
    while (!CPU_ISSET(last, &set))
        last--;
    CPU_ZERO(&set);
    CPU_SET(last, &set);
    return sched_setaffinity(0, sizeof(set), &set) == 0 ? (int)last : -1;
}

static void host_say(const struct host *host, char *text, size_t room)
{
    int n = snprintf(text, room, "%s", host->class ? "SCHED_RR" : "ordinary class");

    if (host->processor >= 0)
        n += snprintf(text + n, room - (size_t)n, ", processor %d", host->processor);
    if (spin_us > 0)
        snprintf(text + n, room - (size_t)n, ", spins %g us", spin_us);
}

/* ---- the model ------------------------------------------------------------------------------- */

static void model_open(struct model *m)
{
    gpu_open(&m->gpu);
    CHECK(cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&m->x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&m->input, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&m->output, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuEventCreate(&m->began, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&m->first, CU_EVENT_DEFAULT));
    CHECK(cuEventCreate(&m->ended, CU_EVENT_DEFAULT));
}

static void model_close(struct model *m)
{
    CHECK(cuEventDestroy(m->ended));
    CHECK(cuEventDestroy(m->first));
    CHECK(cuEventDestroy(m->began));
    CHECK(cuStreamDestroy(m->stream));
    CHECK(cuMemFreeHost(m->output));
    CHECK(cuMemFreeHost(m->input));
    CHECK(cuMemFree(m->x));
    gpu_close(&m->gpu);
}

/* Spins if --spin-us is given, because a thread that sleeps wakes up late. */
static void stream_wait(CUstream stream)
{
    CUresult result = CUDA_ERROR_NOT_READY;

    if (spin_us <= 0)
        result = cuStreamSynchronize(stream);
    while (result == CUDA_ERROR_NOT_READY)
        result = cuStreamQuery(stream);
    check(result, spin_us > 0 ? "cuStreamQuery" : "cuStreamSynchronize");
}

static void infer(struct model *m, uint64_t request)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        m->input[i] = (uint32_t)request * 7919u + i;
    CHECK(cuEventRecord(m->began, m->stream));
    CHECK(cuMemcpyHtoDAsync(m->x, m->input, ELEMENTS * sizeof(uint32_t), m->stream));
    for (uint64_t k = 0; k < (uint64_t)kernels; k++) {
        gpu_mix(&m->gpu, m->stream, m->x, k, ELEMENTS, (uint64_t)(kernel_us * 1000));
        if (k == 0)
            CHECK(cuEventRecord(m->first, m->stream));
    }
    CHECK(cuMemcpyDtoHAsync(m->output, m->x, ELEMENTS * sizeof(uint32_t), m->stream));
    CHECK(cuEventRecord(m->ended, m->stream));
    stream_wait(m->stream);
}

static uint64_t since_began_ns(const struct model *m, CUevent event)
{
    float ms;

    CHECK(cuEventElapsedTime(&ms, m->began, event));
    return (uint64_t)((double)ms * 1e6 + 0.5);
}

/* Compares with the same chain on the processor, where all kernels are one x * a + b. */
static bool answer_right(const struct model *m)
{
    uint32_t a, b;

    mix_chain((uint64_t)kernels, &a, &b);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        if (m->output[i] != m->input[i] * a + b)
            return false;
    return true;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void times_note(const struct model *m, const struct times *t, size_t i, uint64_t latency_ns)
{
    t->latency[i] = latency_ns;
    t->device[i] = since_began_ns(m, m->ended);
    t->first[i] = since_began_ns(m, m->first);
}

/* Returns the request's latency; 0: the program has to stop. */
static uint64_t request_serve(struct model *m, uint64_t request, uint64_t arrival_ns)
{
    sleep_until(arrival_ns - (uint64_t)(spin_us * 1000));
    while (!stopped && now_ns() < arrival_ns)
        ;
    if (stopped)
        return 0;
    infer(m, request);
    return now_ns() - arrival_ns;
}

/* Returns when the first request that counts arrives. */
static uint64_t warm(struct model *m, struct figures *f, uint64_t period_ns)
{
    uint64_t arrival_ns, latency_ns;

    infer(m, 0); /* loads the kernels */
    f->wrong += !answer_right(m);
    arrival_ns = now_ns() + period_ns;
    for (size_t i = 0; i < (size_t)warm_up && !stopped; i++, arrival_ns += period_ns) {
        latency_ns = request_serve(m, 0, arrival_ns);
        if (latency_ns > f->warm_worst_ns)
            f->warm_worst_ns = latency_ns;
    }
    if (announce)
        fprintf(stderr, "serving\n");
    return arrival_ns;
}

static void serve(struct model *m, struct figures *f, size_t limit)
{
    uint64_t period_ns = (uint64_t)(1e9 / rate), start_ns = warm(m, f, period_ns);
    uint64_t arrival_ns, latency_ns;

    for (; f->served < limit; f->served++) {
        arrival_ns = start_ns + f->served * period_ns;
        if (seconds > 0 && arrival_ns - start_ns >= (uint64_t)(seconds * 1e9))
            break;
        latency_ns = request_serve(m, f->served, arrival_ns);
        if (latency_ns == 0)
            break;
        times_note(m, &f->times, f->served, latency_ns);
        f->wrong += !answer_right(m);
        f->checksum = checksum(f->checksum, m->output, ELEMENTS);
    }
}

/* ---- the report ------------------------------------------------------------------------------ */

static void print_times(const char *json_prefix, const char *what, uint64_t *ns, size_t n)
{
    static const struct {
        const char *name;
        double percent;
    } shown[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}};

    sort_ns(ns, n);
    if (!json)
        printf("%s, us:", what);
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        double us = percentile_us(ns, n, shown[i].percent);
        if (json)
            printf("\"%s%s_us\": %.1f, ", json_prefix, shown[i].name, us);
        else
            printf("  %s %.1f", shown[i].name, us);
    }
    if (!json)
        putchar('\n');
}

static void report(const struct model *m, const struct host *host, struct figures *f)
{
    char where[96];

    host_say(host, where, sizeof(where));
    if (json)
        printf("{\"gpu\": \"%s\", \"host\": \"%s\", \"requests\": %zu, ", m->gpu.name, where,
               f->served);
    else
        printf("%s: %zu requests of %g kernels, %g/s; host: %s\n", m->gpu.name, f->served, kernels,
               rate, where);
    print_times("", "latency from arrival", f->times.latency, f->served);
    print_times("device_", "on the device, by events", f->times.device, f->served);
    print_times("first_", "until the first kernel is done", f->times.first, f->served);
    if (json)
        printf("\"warm_max_us\": %.1f, \"wrong\": %zu, \"checksum\": \"%016llx\"}\n",
               (double)f->warm_worst_ns / 1000, f->wrong, (unsigned long long)f->checksum);
    else
        printf("answers: %s, checksum %016llx\n", f->wrong ? "WRONG" : "all right",
               (unsigned long long)f->checksum);
}

static size_t limit_of_requests(void)
{
    if (requests > 0)
        return (size_t)requests;
    return seconds > 0 ? MOST_REQUESTS : 100;
}

static void times_make(struct times *t, size_t limit)
{
    uint64_t *all = calloc(limit, 3 * sizeof(uint64_t));

    if (!all) {
        fprintf(stderr, "rt_inference: no memory for %zu latencies\n", limit);
        exit(EXIT_FAILURE);
    }
    *t = (struct times){all, all + limit, all + 2 * limit};
}

int main(int argc, char **argv)
{
    struct model model;
    struct host host = {.processor = -1};
    struct figures figures = {.checksum = CHECKSUM_SEED};
    size_t limit;

    settings_read(settings, argc, argv,
                  "Answers periodic requests on the GPU and prints their latency.");
    limit = limit_of_requests();
    times_make(&figures.times, limit);
    stop_on_signals();
    if (realtime)
        host.class = class_take();
    model_open(&model);
    if (realtime)
        host.processor = processor_take();
    serve(&model, &figures, limit);
    report(&model, &host, &figures);
    model_close(&model);
    free(figures.times.latency);
    return figures.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
