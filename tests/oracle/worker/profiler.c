/*
 * profiler.c - see profiler.h. The program itself takes the place of CUPTI.
 */
#include "profiler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#define STAND_IN __attribute__((visibility("default"))) int
STAND_IN cuptiActivityEnable(int kind);
STAND_IN cuptiActivityDisable(int kind);
STAND_IN cuptiFinalize(void);

int cuptiActivityEnable(int kind)
{
    return kind % 5 == 0; /* some kinds fail */
}

int cuptiActivityDisable(int kind)
{
    return 0;
}

int cuptiFinalize(void)
{
    return 0;
}

typedef int kind_fn(int kind);
static uint64_t state;

static uint32_t draw(uint32_t limit)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % limit;
}

static void nap(void)
{
    long us = draw(8) ? draw(300) : draw(5000);

    nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* Uses the functions that a lookup finds. */
static void *profiler_main(void *unused)
{
    kind_fn *enable = (kind_fn *)dlsym(RTLD_DEFAULT, "cuptiActivityEnable"),
            *disable = (kind_fn *)dlsym(RTLD_DEFAULT, "cuptiActivityDisable");
    int (*finalize)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "cuptiFinalize");

    for (;;) {
        int first = (int)draw(20), kinds = 1 + (int)draw(3);

        for (int kind = first; kind < first + kinds; kind++)
            enable(kind);
        nap();
        for (int kind = first; kind < first + kinds; kind++)
            disable(kind);
        if (!draw(4))
            finalize();
        nap();
    }
    return unused;
}

int profiler_start(uint64_t seed)
{
    pthread_t thread;
    int rc;

    state = seed;
    rc = pthread_create(&thread, NULL, profiler_main, NULL);
    if (rc == 0)
        pthread_detach(thread);
    return rc;
}
