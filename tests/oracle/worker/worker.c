/*
 * worker.c - the oracle's other processes: the one that executes programs, and the one whose
 * real-time activity holds them. Only these are linked with the driver.
 */
#include "run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "profiler.h"
#include "toggler.h"

static void *heart_main(void *arg)
{
    struct batch *b = arg;
    for (;;) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000000 / BEATS_A_SECOND}, NULL);
        b->beats++;
    }
    return NULL;
}

static int programs_main(int argc, char **argv)
{
    if (argc != 7)
        return 2;
    int fd = atoi(argv[2]);
    uint64_t seed = strtoull(argv[3], NULL, 10), mask = strtoull(argv[6], NULL, 10);
    unsigned step = (unsigned)atoi(argv[4]), count = (unsigned)atoi(argv[5]);
    static struct program p;
    pthread_t heart;
    struct batch *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (b == MAP_FAILED || pthread_create(&heart, NULL, heart_main, b) || run_open())
        return 1;
    pthread_detach(heart);
    if (getenv("ORACLE_PROFILER") && profiler_start(seed))
        return 1;
    for (unsigned i = 0; i < count; i++) {
        program_draw(&p, seed + (uint64_t)step * i);
        program_lower(&p, mask);
        run_program(&p, &b->out[i], &b->beats);
    }
    run_close();
    return 0;
}

int main(int argc, char **argv)
{
    program_real = !!getenv("ORACLE_REAL");
    if (argc > 1 && !strcmp(argv[1], "--worker"))
        return programs_main(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "--toggler"))
        return toggler_main(argc, argv);
    fprintf(stderr, "oracle-worker: started by cutin-oracle, never by hand\n");
    return 2;
}
