/*
 * hints.c - a real-time service that tells cutin what it knows: when a request has come, and when
 * one is under way. It also runs without cutin.
 *
 *   cutin run -- be_training & cutin run --priority rt -- hints --seconds 5
 *
 * A request prepares its input on the processor, copies it, and runs kernels with work on the
 * processor between them. Without hints best effort goes on in every gap.
 */
#include "common.h"

#include <stdio.h>
#include <stdlib.h>

#include "shim/cutin.h" /* <cutin.h> where cutin is installed */

enum { ELEMENTS = 256, MOST_REQUESTS = 100000 };

static double rate = 100, seconds = 3, kernels = 5, kernel_us = 20, host_us = 50;
static bool plain, json;

static const struct setting settings[] = {
    {"rate", &rate, NULL, 0.1, 100000, "requests per second"},
    {"seconds", &seconds, NULL, 0.01, 86400, "seconds to run"},
    {"kernels", &kernels, NULL, 1, 1000, "kernels per request"},
    {"kernel-us", &kernel_us, NULL, 0, 100000, "microseconds per kernel"},
    {"host-us", &host_us, NULL, 0, 100000, "microseconds of processor time before each kernel"},
    {"plain", NULL, &plain, 0, 0, "give no hints"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

struct service {
    struct gpu gpu;
    CUstream stream;
    CUdeviceptr x;
    uint32_t *host; /* pinned */
};

/* Does what a tokenizer, a resize or a sampling step would do. */
static void work_on_processor(void)
{
    uint64_t end = now_ns() + (uint64_t)(host_us * 1000);

    while (now_ns() < end)
        ;
}

static bool request(struct service *s)
{
    uint64_t updates = (uint64_t)kernels;
    uint32_t a, b;
    bool right = true;

    if (!plain)
        cutin_hint_soon(10000); /* stop best effort while the input is prepared */
    for (uint32_t i = 0; i < ELEMENTS; i++)
        s->host[i] = i;
    work_on_processor();
    if (!plain)
        cutin_section_begin(); /* and keep it stopped between the kernels */
    CHECK(cuMemcpyHtoDAsync(s->x, s->host, ELEMENTS * sizeof(uint32_t), s->stream));
    for (uint64_t k = 0; k < updates; k++) {
        gpu_mix(&s->gpu, s->stream, s->x, k, ELEMENTS, (uint64_t)(kernel_us * 1000));
        CHECK(cuStreamSynchronize(s->stream));
        work_on_processor();
    }
    CHECK(cuMemcpyDtoHAsync(s->host, s->x, ELEMENTS * sizeof(uint32_t), s->stream));
    CHECK(cuStreamSynchronize(s->stream));
    if (!plain)
        cutin_section_end();
    mix_chain(updates, &a, &b);
    for (uint32_t i = 0; i < ELEMENTS; i++)
        right = right && s->host[i] == i * a + b;
    return right;
}

static void say_hints(void)
{
    CUresult r = cutin_hint_soon(0);

    fprintf(stderr, "hints: %s\n",
            plain                           ? "none given"
            : r == CUTIN_NOT_LOADED         ? "cutin is not loaded, so they have no effect"
            : r == CUDA_ERROR_NOT_SUPPORTED ? "this process is best effort, so no work is below it"
                                            : "in force");
}

int main(int argc, char **argv)
{
    struct service s = {0};
    uint64_t *latency_ns = calloc(MOST_REQUESTS, sizeof(*latency_ns)), done = 0, at, end;
    bool right;

    settings_read(settings, argc, argv, "A service that tells cutin when its requests come.");
    if (!latency_ns) {
        fprintf(stderr, "%s: no memory for the latencies\n", argv[0]);
        return EXIT_FAILURE;
    }
    stop_on_signals();
    gpu_open(&s.gpu);
    CHECK(cuStreamCreate(&s.stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&s.x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemAllocHost((void **)&s.host, ELEMENTS * sizeof(uint32_t)));
    right = request(&s); /* loads the kernels */
    say_hints();
    end = now_ns() + (uint64_t)(seconds * 1e9);
    for (at = now_ns(); at < end && done < MOST_REQUESTS; at += (uint64_t)(1e9 / rate)) {
        sleep_until(at);
        if (stopped)
            break;
        right &= request(&s);
        latency_ns[done++] = now_ns() - at;
    }
    sort_ns(latency_ns, done);
    printf(json ? "{\"requests\": %llu, \"p50_us\": %.1f, \"p99_us\": %.1f, \"result\": \"%s\"}\n"
                : "%llu requests, latency us: p50 %.1f  p99 %.1f, result %s\n",
           (unsigned long long)done, percentile_us(latency_ns, done, 50),
           percentile_us(latency_ns, done, 99), right ? "right" : "WRONG");
    CHECK(cuStreamDestroy(s.stream));
    CHECK(cuMemFree(s.x));
    CHECK(cuMemFreeHost(s.host));
    gpu_close(&s.gpu);
    free(latency_ns);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
