/*
 * rt_inference.c - an inference server in small: requests arrive on a clock, each is a chain of
 * short kernels with an input and an output copy, and each answer is checked.
 *
 * Latency counts from the arrival, not from the moment the program came round to it: a request that
 * waits behind a late one is late too.
 *
 *   rt_inference --rate 100 --requests 300
 *   cutin run --priority rt -- rt_inference --rate 100 --seconds 10 --json
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 256, MOST_REQUESTS = 1000000 };

static double rate = 100, requests = 0, seconds = 0, kernels = 70, kernel_us = 10;
static bool json;

static const struct setting settings[] = {
    {"rate", &rate, NULL, 0.1, 100000, "requests per second"},
    {"requests", &requests, NULL, 0, MOST_REQUESTS,
     "stop after so many; 0: 100, or as --seconds says"},
    {"seconds", &seconds, NULL, 0, 86400, "stop after so long; 0: no limit"},
    {"kernels", &kernels, NULL, 1, 1000, "kernels per request"},
    {"kernel-us", &kernel_us, NULL, 0, 100000, "microseconds per kernel"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

struct model {
    struct gpu gpu;
    CUstream stream;
    CUdeviceptr x;
    uint32_t *input, *output; /* pinned */
};

struct figures {
    uint64_t *latency_ns;
    size_t served, wrong;
    uint64_t checksum;
};

static void model_open(struct model *m)
{
    gpu_open(&m->gpu);
    CHECK(cuStreamCreate(&m->stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&m->x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&m->input, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&m->output, ELEMENTS * sizeof(uint32_t)));
}

static void model_close(struct model *m)
{
    CHECK(cuStreamDestroy(m->stream));
    CHECK(cuMemFreeHost(m->output));
    CHECK(cuMemFreeHost(m->input));
    CHECK(cuMemFree(m->x));
    gpu_close(&m->gpu);
}

static void infer(struct model *m, uint64_t request)
{
    for (uint32_t i = 0; i < ELEMENTS; i++)
        m->input[i] = (uint32_t)request * 7919u + i;
    CHECK(cuMemcpyHtoDAsync(m->x, m->input, ELEMENTS * sizeof(uint32_t), m->stream));
    for (uint64_t k = 0; k < (uint64_t)kernels; k++)
        gpu_mix(&m->gpu, m->stream, m->x, k, ELEMENTS, (uint64_t)(kernel_us * 1000));
    CHECK(cuMemcpyDtoHAsync(m->output, m->x, ELEMENTS * sizeof(uint32_t), m->stream));
    CHECK(cuStreamSynchronize(m->stream));
}

/* The same chain on the processor: all kernels together are one multiplication and one addition. */
static bool answer_right(const struct model *m)
{
    uint32_t a, b;

    mix_chain((uint64_t)kernels, &a, &b);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        if (m->output[i] != m->input[i] * a + b)
            return false;
    return true;
}

static void serve(struct model *m, struct figures *f, size_t limit)
{
    uint64_t period_ns = (uint64_t)(1e9 / rate), start_ns, arrival_ns;

    infer(m, 0); /* loads the kernels */
    start_ns = now_ns() + period_ns;
    for (; !stopped && f->served < limit; f->served++) {
        arrival_ns = start_ns + f->served * period_ns;
        if (seconds > 0 && arrival_ns - start_ns >= (uint64_t)(seconds * 1e9))
            break;
        sleep_until(arrival_ns);
        if (stopped)
            break;
        infer(m, f->served);
        f->latency_ns[f->served] = now_ns() - arrival_ns;
        f->wrong += !answer_right(m);
        f->checksum = checksum(f->checksum, m->output, ELEMENTS);
    }
}

static void report(const struct model *m, struct figures *f)
{
    double p50, p90, p99, max;

    sort_ns(f->latency_ns, f->served);
    p50 = percentile_us(f->latency_ns, f->served, 50);
    p90 = percentile_us(f->latency_ns, f->served, 90);
    p99 = percentile_us(f->latency_ns, f->served, 99);
    max = percentile_us(f->latency_ns, f->served, 100);
    if (json)
        printf("{\"gpu\": \"%s\", \"requests\": %zu, \"p50_us\": %.1f, \"p90_us\": %.1f, "
               "\"p99_us\": %.1f, \"max_us\": %.1f, \"wrong\": %zu, \"checksum\": \"%016llx\"}\n",
               m->gpu.name, f->served, p50, p90, p99, max, f->wrong,
               (unsigned long long)f->checksum);
    else
        printf("%s: %zu requests of %g kernels, %g/s\n"
               "latency from arrival, us: p50 %.1f  p90 %.1f  p99 %.1f  max %.1f\n"
               "answers: %s, checksum %016llx\n",
               m->gpu.name, f->served, kernels, rate, p50, p90, p99, max,
               f->wrong ? "WRONG" : "all right", (unsigned long long)f->checksum);
}

int main(int argc, char **argv)
{
    struct model model;
    struct figures figures = {.checksum = CHECKSUM_SEED};
    size_t limit = MOST_REQUESTS;

    settings_read(settings, argc, argv,
                  "Answers periodic requests on the GPU and prints their latency.");
    if (requests > 0)
        limit = (size_t)requests;
    else if (seconds <= 0)
        limit = 100;
    figures.latency_ns = calloc(limit, sizeof(uint64_t));
    if (!figures.latency_ns) {
        fprintf(stderr, "%s: no memory for %zu latencies\n", argv[0], limit);
        return EXIT_FAILURE;
    }
    stop_on_signals();
    model_open(&model);
    serve(&model, &figures, limit);
    report(&model, &figures);
    model_close(&model);
    free(figures.latency_ns);
    return figures.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
