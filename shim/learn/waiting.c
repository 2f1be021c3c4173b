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

/* The list is patterns of fnmatch(3), separated by commas. */
static bool name_listed(const char *list, const char *name)
{
    char pattern[sizeof(((struct config *)0)->waiting_kernels)];
    while (*list) {
        size_t n = strcspn(list, ",");
        memcpy(pattern, list, n);
        pattern[n] = '\0';
        if (fnmatch(pattern, name, 0) == 0)
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

bool waiting_kernel(struct shim_function *f, CUfunction handle, const struct estimate *e)
{
    uint32_t waits = atomic_load_explicit(&f->waits, memory_order_relaxed);
    if (waits == NOT_ASKED) {
        const char *list = config_get()->waiting_kernels;
        waits = name_listed(list, function_name(handle)) ? WAITS : NOT_NAMED;
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
    return waits == WAITS;
}

void waiting_show(struct shim_function *f, CUfunction handle, const struct gpu_device *gpu)
{
    static _Atomic(struct shim_function *) shown;
    struct cutin_page *page = client_page();
    if (!page || gpu->index < 0 || atomic_exchange(&shown, f) == f)
        return;
    pthread_mutex_lock(&lock);
    char *to = page->device[gpu->index].io_kernel;
    snprintf(to, sizeof(page->device[gpu->index].io_kernel), "%s", function_name(handle));
    pthread_mutex_unlock(&lock);
}
