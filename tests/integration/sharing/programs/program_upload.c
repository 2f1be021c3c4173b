/*
 * program_upload.c - a CUDA program that uploads memory again and again, for upload.c:
 * `program_upload MEGABYTES PAUSE_US FILE`.
 *
 * It says when it has uploaded for the first time, and goes on until there is the file. Then it
 * prints "right" if the device has the data of the last upload.
 */
#include "examples/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MB = 1 << 20 };

static void right(CUdeviceptr x, const uint32_t *from, size_t bytes)
{
    static uint32_t got[MB / 4];

    for (size_t at = 0; at < bytes; at += MB) {
        CHECK(cuMemcpyDtoH(got, x + at, MB));
        if (memcmp(got, (const char *)from + at, MB) != 0) {
            printf("wrong at %zu\n", at);
            exit(EXIT_FAILURE);
        }
    }
    printf("right\n");
}

int main(int argc, char **argv)
{
    struct gpu gpu;
    CUstream stream;
    CUdeviceptr x;
    uint32_t *from;

    if (argc != 4)
        return EXIT_FAILURE;
    size_t bytes = strtoull(argv[1], NULL, 10) * MB;
    uint64_t pause_ns = strtoull(argv[2], NULL, 10) * 1000;
    gpu_open(&gpu);
    CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemAlloc(&x, bytes));
    CHECK(cuMemHostAlloc((void **)&from, bytes, 0));
    for (uint32_t k = 0; access(argv[3], F_OK) != 0; k++) {
        for (size_t i = 0; i < bytes / 4; i += 1024)
            from[i] = k + (uint32_t)i;
        CHECK(cuMemcpyHtoDAsync(x, from, bytes, stream));
        CHECK(cuStreamSynchronize(stream));
        if (k == 0) {
            printf("uploaded.\n");
            fflush(stdout);
        }
        sleep_until(now_ns() + pause_ns);
    }
    right(x, from, bytes);
    gpu_close(&gpu);
    return EXIT_SUCCESS;
}
