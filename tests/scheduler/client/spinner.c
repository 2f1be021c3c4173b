/*
 * spinner.c - a real-time process for pinned.c that is active and spins without a system call, so
 * that a thread of its scheduling class on its processor never runs.
 *
 *   test_spinner SOCKET MILLISECONDS
 *
 * It writes a 0 when it is active, and spins once it has read a byte. When it begins to spin it
 * writes when it will end: nanoseconds of clock_ns. Both are a uint64_t.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "scheduler/client/client.h"
#include "common/clock.h"

/* As of a process that has run for a while. */
static void beats_await(int beats)
{
    const _Atomic uint64_t *beat = &client_page()->heartbeat_ns;

    for (uint64_t seen = atomic_load(beat); beats > 0; beats--, seen = atomic_load(beat))
        while (atomic_load(beat) == seen)
            clock_nap(NS_PER_MS);
}

int main(int argc, char **argv)
{
    struct client_config config = {.level = 3, .lowest = 3, .socket = argc == 3 ? argv[1] : NULL};
    uint64_t end = 0;
    char byte;
    uint8_t uuid[16];

    if (!config.socket)
        return 2;
    memset(uuid, 1, sizeof(uuid));
    if (client_open(&config) != 0 || client_device(uuid) != 0)
        return 1;
    client_work_begin(0, 3);
    if (write(STDOUT_FILENO, &end, sizeof(end)) != sizeof(end) || read(STDIN_FILENO, &byte, 1) != 1)
        return 1;
    beats_await(4);
    end = clock_ns() + strtoull(argv[2], NULL, 10) * NS_PER_MS;
    if (write(STDOUT_FILENO, &end, sizeof(end)) != sizeof(end))
        return 1;
    while (clock_ns() < end)
        ;
    client_work_end(0, 3);
    client_close();
    return 0;
}
