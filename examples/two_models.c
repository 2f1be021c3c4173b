/*
 * two_models.c - a real-time and a best-effort model in one process, which only CUDA's own stream
 * priorities tell apart.
 *
 *   CUTIN_STREAM_PRIORITY=inherit cutin run --priority rt -- two_models --seconds 5
 *
 * With CUTIN_STREAM_PRIORITY=inherit the stream of lowest priority is best effort, the one of
 * highest priority real time. Both models check their own results.
 */
#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { ELEMENTS = 256, MOST_REQUESTS = 200000, AHEAD = 32 };

static double rate = 100, seconds = 3, kernels = 20, kernel_us = 10, be_kernel_us = 200;
static bool json;

static const struct setting settings[] = {
    {"rate", &rate, NULL, 0.1, 100000, "real-time requests per second"},
    {"seconds", &seconds, NULL, 0.01, 86400, "seconds to run"},
    {"kernels", &kernels, NULL, 1, 1000, "kernels per request"},
    {"kernel-us", &kernel_us, NULL, 0, 100000, "microseconds per real-time kernel"},
    {"be-kernel-us", &be_kernel_us, NULL, 0, 1e6, "microseconds per best-effort kernel"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

struct model {
    struct gpu gpu; /* one for both models */
    CUstream stream;
    CUdeviceptr x;
    uint32_t *host; /* pinned */
    uint64_t end_ns, done;
    uint64_t *latency_ns; /* real time only */
    bool wrong;
};

static void model_open(struct model *m, const struct gpu *gpu, int priority)
{
    m->gpu = *gpu;
    CHECK(cuStreamCreateWithPriority(&m->stream, CU_STREAM_NON_BLOCKING, priority));
    CHECK(cuMemAlloc(&m->x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&m->host, ELEMENTS * sizeof(uint32_t)));
    for (uint32_t i = 0; i < ELEMENTS; i++)
        m->host[i] = i;
}

static void model_close(struct model *m)
{
    CHECK(cuStreamDestroy(m->stream));
    CHECK(cuMemFree(m->x));
    CHECK(cuMemFreeHost(m->host));
    free(m->latency_ns);
}

static void upload(struct model *m)
{
    CHECK(cuMemcpyHtoDAsync(m->x, m->host, ELEMENTS * sizeof(uint32_t), m->stream));
}

/* Reads x back. Compares it with `updates` updates of 0, 1, 2, ... on the processor. */
static bool download_right(struct model *m, uint64_t updates)
{
    uint32_t a, b;
    bool right = true;

    CHECK(cuMemcpyDtoHAsync(m->host, m->x, ELEMENTS * sizeof(uint32_t), m->stream));
    CHECK(cuStreamSynchronize(m->stream));
    mix_chain(updates, &a, &b);
    for (uint32_t i = 0; i < ELEMENTS; i++) {
        right = right && m->host[i] == i * a + b;
        m->host[i] = i;
    }
    return right;
}

static void request(struct model *m)
{
    upload(m);
    for (uint64_t k = 0; k < (uint64_t)kernels; k++)
        gpu_mix(&m->gpu, m->stream, m->x, k, ELEMENTS, (uint64_t)(kernel_us * 1000));
    m->wrong |= !download_right(m, (uint64_t)kernels);
}

static void *serve(void *arg)
{
    struct model *m = arg;
    uint64_t period_ns = (uint64_t)(1e9 / rate), arrival_ns = now_ns();

    CHECK(cuCtxSetCurrent(m->gpu.context));
    for (; arrival_ns < m->end_ns && m->done < MOST_REQUESTS; arrival_ns += period_ns) {
        sleep_until(arrival_ns);
        if (stopped)
            break;
        request(m);
        m->latency_ns[m->done++] = now_ns() - arrival_ns;
    }
    return NULL;
}

static void *train(void *arg)
{
    struct model *m = arg;
    CUevent done[AHEAD];

    CHECK(cuCtxSetCurrent(m->gpu.context));
    for (int i = 0; i < AHEAD; i++)
        CHECK(cuEventCreate(&done[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    m->gpu.blocks = m->gpu.full;
    upload(m);
    for (; !stopped && now_ns() < m->end_ns; m->done++) {
        CHECK(cuEventSynchronize(done[m->done % AHEAD])); /* at most AHEAD steps are queued */
        gpu_mix(&m->gpu, m->stream, m->x, m->done, ELEMENTS, (uint64_t)(be_kernel_us * 1000));
        CHECK(cuEventRecord(done[m->done % AHEAD], m->stream));
    }
    m->wrong = !download_right(m, m->done);
    for (int i = 0; i < AHEAD; i++)
        CHECK(cuEventDestroy(done[i]));
    return NULL;
}

static void report(struct model *rt, const struct model *be)
{
    double p50, p99, max, rate_be = (double)be->done / seconds;

    sort_ns(rt->latency_ns, rt->done);
    p50 = percentile_us(rt->latency_ns, rt->done, 50);
    p99 = percentile_us(rt->latency_ns, rt->done, 99);
    max = percentile_us(rt->latency_ns, rt->done, 100);
    printf(json ? "{\"gpu\": \"%s\", \"requests\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, "
                  "\"max_us\": %.1f, \"be_steps_per_s\": %.1f, \"results\": \"%s\"}\n"
                : "%s\nreal time:   %llu requests, latency us: p50 %.1f  p99 %.1f  max %.1f\n"
                  "best effort: %.1f steps/s\nresults:     %s\n",
           rt->gpu.name, (unsigned long long)rt->done, p50, p99, max, rate_be,
           rt->wrong || be->wrong ? "WRONG" : "right");
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    struct model rt = {0}, be = {0};
    pthread_t server, trainer;
    int least, greatest;

    settings_read(settings, argc, argv, "Two models in one process, by stream priority.");
    stop_on_signals();
    rt.latency_ns = calloc(MOST_REQUESTS, sizeof(uint64_t));
    if (!rt.latency_ns) {
        fprintf(stderr, "%s: no memory for the latencies\n", argv[0]);
        return EXIT_FAILURE;
    }
    gpu_open(&gpu);
    CHECK(cuCtxGetStreamPriorityRange(&least, &greatest));
    model_open(&rt, &gpu, greatest);
    model_open(&be, &gpu, least);
    request(&rt); /* loads the kernels */
    rt.end_ns = be.end_ns = now_ns() + (uint64_t)(seconds * 1e9);
    if (pthread_create(&trainer, NULL, train, &be) || pthread_create(&server, NULL, serve, &rt)) {
        fprintf(stderr, "%s: cannot start a thread\n", argv[0]);
        return EXIT_FAILURE;
    }
    pthread_join(server, NULL);
    pthread_join(trainer, NULL);
    report(&rt, &be);
    model_close(&rt);
    model_close(&be);
    gpu_close(&gpu);
    return rt.wrong || be.wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
