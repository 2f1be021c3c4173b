/*
 * waiting.c - kernels that wait for I/O of their own (see waiting.h).
 */
#include "shim/learn/waiting.h"

#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "scheduler/client/client.h"
#include "shim/learn/function.h"
#include "shim/objects/gpu_device.h"

enum { LONG_NS = 1000000 };

/* values of shim_function.waits */
enum { NOT_ASKED, NOT_NAMED, WAITS };

_Atomic bool waiting_possible;
static _Atomic bool registered;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for the name in the page */

void waiting_open(void)
{
    if (config_get()->waiting_kernels[0])
        atomic_store_explicit(&waiting_possible, true, memory_order_relaxed);
}

void waiting_registered(void)
{
    atomic_store_explicit(&registered, true, memory_order_relaxed);
    atomic_store_explicit(&waiting_possible, true, memory_order_relaxed);
}

bool waiting_kernel(struct shim_function *f, CUfunction handle, const struct estimate *e,
                    const struct gpu_device *gpu)
{
    static _Atomic(struct shim_function *) shown;
    struct cutin_page *page = client_page();
    uint32_t waits = atomic_load_explicit(&f->waits, memory_order_relaxed);
    if (waits == NOT_ASKED) {
        /* Patterns of fnmatch(3), separated by commas. */
        char list[sizeof(((struct config *)0)->waiting_kernels)], *rest = list, *pattern;
        const char *name = function_name(handle);
        strcpy(list, config_get()->waiting_kernels);
        for (waits = NOT_NAMED; (pattern = strsep(&rest, ","));)
            if (fnmatch(pattern, name, 0) == 0)
                waits = WAITS;
        atomic_store_explicit(&f->waits, waits, memory_order_relaxed);
    }
    if (waits == NOT_NAMED && atomic_load_explicit(&registered, memory_order_relaxed) &&
        atomic_load_explicit(&e->learned.mean_ns, memory_order_relaxed) >= LONG_NS) {
        atomic_store_explicit(&f->waits, waits = WAITS, memory_order_relaxed);
        log_line(LOG_INFO,
                 "kernel %.64s counts as waiting for I/O: it takes over a millisecond, and the "
                 "process has registered I/O memory",
                 function_name(handle));
    }
    if (waits == WAITS && page && gpu->index >= 0 && atomic_exchange(&shown, f) != f) {
        char *to = page->device[gpu->index].io_kernel;
        pthread_mutex_lock(&lock);
        snprintf(to, sizeof(page->device[gpu->index].io_kernel), "%s", function_name(handle));
        pthread_mutex_unlock(&lock);
    }
    return waits == WAITS;
}
