/*
 * watch.c - see watch.h. Forwards integers and pointers, as many as any function has. The few
 * functions with other arguments cannot be watched.
 */
#include "tests/shim/wrap/watch.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define EXPORTED __attribute__((visibility("default")))

static const char *const names[] = {
#define API_PASS(symbol, ...) #symbol,
#define API_DRAIN             API_PASS
#define API_WRAP              API_PASS
#include "shim/lookup/api.def"
};

typedef intptr_t (*real_fn)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t,
                            intptr_t, intptr_t, intptr_t, intptr_t);
static real_fn real[WATCH_CALLS];
static _Atomic unsigned counts[WATCH_CALLS];
static _Atomic(watch_hook) hooks[WATCH_CALLS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void driver_open(void)
{
    void *driver = dlopen(SIMULATOR, RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        abort();
    for (int i = 0; i < WATCH_CALLS; i++)
        *(void **)&real[i] = dlsym(driver, names[i]);
}

EXPORTED unsigned watch_count(enum watch_call call)
{
    return atomic_load(&counts[call]);
}

EXPORTED void watch_before(enum watch_call call, watch_hook hook)
{
    atomic_store(&hooks[call], hook);
}

static intptr_t forward(enum watch_call call, const intptr_t *a)
{
    pthread_once(&once, driver_open);
    atomic_fetch_add(&counts[call], 1);
    watch_hook hook = atomic_load(&hooks[call]);
    int answer = hook ? hook(a) : 0;
    return answer == WATCH_DONE ? 0
           : answer ? answer
                    : real[call](a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
}

#define API_DRAIN API_PASS
#define API_WRAP  API_PASS
#define API_PASS(symbol, ...)                                                                      \
    EXPORTED intptr_t symbol(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e,           \
                             intptr_t f, intptr_t g, intptr_t h, intptr_t i, intptr_t j,           \
                             intptr_t k);                                                          \
    intptr_t symbol(intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e, intptr_t f,        \
                    intptr_t g, intptr_t h, intptr_t i, intptr_t j, intptr_t k)                    \
    {                                                                                              \
        return forward(WATCH_##symbol, (const intptr_t[]){a, b, c, d, e, f, g, h, i, j, k});       \
    }
#include "shim/lookup/api.def"
