/*
 * toggler.c - a real-time client of the scheduler that is active at random moments, and not always
 * connected. To all clients below it looks like an inference service with unpredictable requests
 * that is started again and again.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>

#include "toggler.h"

#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "scheduler/client/client.h"

static void nap_us(uint64_t us)
{
    nanosleep(&(struct timespec){.tv_sec = 0, .tv_nsec = (long)us * 1000}, NULL);
}

static uint64_t random_us(uint64_t *state, uint64_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return 1 + (*state >> 33) % limit;
}

enum { DEVICES = 2, SESSION = 40 /* the most activities before it leaves for a while */ };

static int device_index(int ordinal)
{
    CUdevice device;
    CUuuid uuid;
    if (cuDeviceGet(&device, ordinal) || cuDeviceGetUuid_v2(&uuid, device))
        return -1;
    return client_device((const uint8_t *)uuid.bytes);
}

/* Some are long if what waits at gates is to be let out. */
static uint64_t activity_us(uint64_t *state, bool long_ones)
{
    uint64_t most = long_ones ? 60000 : 5000;
    return random_us(state, random_us(state, 8) == 1 ? most : 400);
}

int toggler_main(int argc, char **argv)
{
    int index[DEVICES], count = 1;
    bool long_ones = getenv("ORACLE_LONG_HOLDS");
    if (argc != 4)
        return 2;
    uint64_t state = strtoull(argv[3], NULL, 10);
    struct client_config config = {.level = 3, .lowest = 3, .socket = argv[2]};
    if (cuInit(0) || cuDeviceGetCount(&count) || client_open(&config))
        return 1;
    count = count < DEVICES ? count : DEVICES;
    for (int i = 0; i < count; i++)
        if ((index[i] = device_index(i)) < 0)
            return 1;
    for (;;) {
        for (uint64_t left = random_us(&state, SESSION); left > 0; left--) {
            int at = index[random_us(&state, 3) == 1 ? count - 1 : 0];
            client_work_begin(at, 3);
            nap_us(activity_us(&state, long_ones));
            client_work_end(at, 3);
            nap_us(random_us(&state, random_us(&state, 4) == 1 ? 2000 : 200));
        }
        client_close();
        nap_us(random_us(&state, 10000));
        if (client_open(&config))
            return 1;
    }
}
