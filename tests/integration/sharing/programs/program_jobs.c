/*
 * program_jobs.c - a job and a service of jobs.c.
 *
 *   program_jobs be US[,US...]                    launches kernels of these lengths in turns
 *   program_jobs rt REQUESTS RATE KERNELS US [QUIET_MS]
 *                                                 requests at this rate, after some quiet
 *
 * A job says "launched." when it has launched for a while. Both end at SIGTERM, the service also
 * with its last request. Then a job prints "right" if its kernels, whose order shows in the result,
 * have done what they should.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 256, LENGTHS = 64, WARM = 200 };

static struct gpu gpu;
static CUstream stream;
static CUdeviceptr x;

static void start(void)
{
    stop_on_signals();
    gpu_open(&gpu);
    gpu.blocks = gpu.full;
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
}

static void said(const char *what)
{
    printf("%s\n", what);
    fflush(stdout);
}

static int job(char *lengths)
{
    uint64_t ns[LENGTHS], k = 0;
    int n = 0;

    for (char *at = strtok(lengths, ","); at && n < LENGTHS; at = strtok(NULL, ","))
        ns[n++] = (uint64_t)(strtod(at, NULL) * 1000);
    if (n == 0)
        return EXIT_FAILURE;
    start();
    for (; !stopped; k++) {
        gpu_mix(&gpu, stream, x, k, ELEMENTS, ns[k % (uint64_t)n]);
        if (k == WARM)
            said("launched.");
    }
    CHECK(cuStreamSynchronize(stream));
    mix_expect(x, ELEMENTS, k);
    printf("%lu launches\n", (unsigned long)k);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}

static int service(int argc, char **argv)
{
    size_t requests = strtoul(argv[0], NULL, 10), served = 0;
    uint64_t gap = (uint64_t)(1e9 / strtod(argv[1], NULL)), k = 0, at;
    int kernels = atoi(argv[2]);
    uint64_t ns = (uint64_t)(strtod(argv[3], NULL) * 1000);
    uint64_t *took = calloc(requests, sizeof(*took));

    if (!took)
        return EXIT_FAILURE;
    start();
    said("opened.");
    at = now_ns() + (argc > 4 ? strtoul(argv[4], NULL, 10) * 1000000 : 0);
    for (; served < requests && !stopped; served++, at += gap) {
        uint64_t began;

        sleep_until(at);
        began = now_ns();
        for (int i = 0; i < kernels; i++)
            gpu_mix(&gpu, stream, x, k++, ELEMENTS, ns);
        CHECK(cuStreamSynchronize(stream));
        took[served] = now_ns() - began;
        at = now_ns() > at + gap ? now_ns() : at;
    }
    mix_expect(x, ELEMENTS, k);
    sort_ns(took, served);
    printf("p50 %.0f p99 %.0f max %.0f us of %zu\n", percentile_us(took, served, 50),
           percentile_us(took, served, 99), percentile_us(took, served, 100), served);
    free(took);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "be") == 0)
        return job(argv[2]);
    if (argc >= 6 && strcmp(argv[1], "rt") == 0)
        return service(argc - 2, argv + 2);
    return EXIT_FAILURE;
}
