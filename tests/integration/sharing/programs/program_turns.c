/*
 * program_turns.c - best effort for learned.c, and a service for stuck.c.
 *
 *   program_turns US[,US...] [STREAMS [AHEAD [PARTS]]]
 *
 * It launches one function whose kernels fill the device, or 1/PARTS of it, and take these lengths
 * in turns, into STREAMS streams, without a stop or at most AHEAD rounds ahead. It says "launched."
 * when it has begun, and ends at SIGTERM.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS = 256, LENGTHS = 64, STREAMS = 8, AHEAD = 64 };

int main(int argc, char **argv)
{
    uint64_t ns[LENGTHS], k = 0, n = 0;
    int streams = argc > 2 ? atoi(argv[2]) : 1, ahead = argc > 3 ? atoi(argv[3]) : 0;
    CUstream stream[STREAMS];
    CUevent event[AHEAD];
    CUdeviceptr x;
    struct gpu gpu;

    if (argc < 2 || streams < 1 || streams > STREAMS || ahead > AHEAD)
        return EXIT_FAILURE;
    for (char *at = strtok(argv[1], ","); at && n < LENGTHS; at = strtok(NULL, ","))
        ns[n++] = (uint64_t)(strtod(at, NULL) * 1000);
    stop_on_signals();
    gpu_open(&gpu);
    gpu.blocks = gpu.full / (argc > 4 ? (unsigned)atoi(argv[4]) : 1);
    for (int i = 0; i < streams; i++)
        CHECK(cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < ahead; i++)
        CHECK(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemAlloc(&x, ELEMENTS * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 1, ELEMENTS));
    CHECK(cuCtxSynchronize());
    for (; !stopped; k++) {
        for (int i = 0; i < streams; i++)
            gpu_mix(&gpu, stream[i], x, k, ELEMENTS, ns[k % n]);
        if (ahead && k >= (uint64_t)ahead)
            CHECK(cuEventSynchronize(event[k % (uint64_t)ahead]));
        if (ahead)
            CHECK(cuEventRecord(event[k % (uint64_t)ahead], stream[0]));
        if (k == 0) {
            printf("launched.\n");
            fflush(stdout);
        }
    }
    CHECK(cuCtxSynchronize());
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
