/*
 * front.c - the functions that are called instead of the driver's if there is a distance: launches
 * of kernels and graphs, memsets; and copies (copy.h).
 */
#include "tools/lab/distance/copy.h"

#include <string.h>

static _Atomic(const struct cutin_behind *) behind;
static _Atomic uint32_t rtt_ns, tags;

struct distance distance_get(void)
{
    return (struct distance){.rtt_ns = atomic_load_explicit(&rtt_ns, memory_order_relaxed),
                             .tags = atomic_load_explicit(&tags, memory_order_relaxed)};
}

const struct cutin_behind *distance_behind(void)
{
    return atomic_load_explicit(&behind, memory_order_relaxed);
}

void *distance_driver(void **kept, const char *symbol)
{
    void *own = __atomic_load_n(kept, __ATOMIC_RELAXED);
    if (unlikely(!own)) {
        own = distance_behind()->driver(symbol);
        __atomic_store_n(kept, own, __ATOMIC_RELAXED);
    }
    return own;
}

static void delay(CUstream stream)
{
    const struct distance d = distance_get();
    if (distance_applies(stream))
        distance_delay(stream, distance_delta_ns(&d));
}

#define LAUNCH_PARAMS                                                                              \
    CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,    \
        unsigned shared, CUstream stream, void **params
#define LAUNCH_VALUES f, gx, gy, gz, bx, by, bz, shared, stream, params

static CUresult far_launch(LAUNCH_PARAMS, void **extra)
{
    delay(stream);
    return DRIVER(cuLaunchKernel)(LAUNCH_VALUES, extra);
}

static CUresult far_cooperative(LAUNCH_PARAMS)
{
    delay(stream);
    return DRIVER(cuLaunchCooperativeKernel)(LAUNCH_VALUES);
}

static CUresult far_launch_ex(const CUlaunchConfig *config, CUfunction f, void **params,
                              void **extra)
{
    if (config)
        delay(config->hStream);
    return DRIVER(cuLaunchKernelEx)(config, f, params, extra);
}

/* A graph is one command, because the GPU has fetched its contents before. */
static CUresult far_graph(CUgraphExec exec, CUstream stream)
{
    delay(stream);
    return DRIVER(cuGraphLaunch)(exec, stream);
}

#define MEMSET(sym, ...)                                                                           \
    ASYNC(sym##Async, delay(stream), __VA_ARGS__)                                                  \
    SYNC(sym##_v2, delay(stream), __VA_ARGS__)
#define MEMSETS(bits, type)                                                                        \
    MEMSET(cuMemsetD##bits, (CUdeviceptr, dst), (type, value), (size_t, n))                        \
    MEMSET(cuMemsetD2D##bits, (CUdeviceptr, dst), (size_t, pitch), (type, value), (size_t, width), \
           (size_t, height))
MEMSETS(8, unsigned char)
MEMSETS(16, unsigned short)
MEMSETS(32, unsigned int)

#define ROWS(sym) ROW_ASYNC(sym##Async) ROW_SYNC(sym##_v2)

static const struct stand_in commands[] = {
    {"cuLaunchKernel", (void *)far_launch},
    {"cuLaunchCooperativeKernel", (void *)far_cooperative},
    {"cuLaunchKernelEx", (void *)far_launch_ex},
    {"cuGraphLaunch", (void *)far_graph},
    ROWS(cuMemsetD8) ROWS(cuMemsetD16) ROWS(cuMemsetD32)       //
    ROWS(cuMemsetD2D8) ROWS(cuMemsetD2D16) ROWS(cuMemsetD2D32) //
    {NULL, NULL},
};

static void *find(const struct stand_in *table, const char *symbol)
{
    while (table->symbol && strcmp(table->symbol, symbol) != 0)
        table++;
    return table->function;
}

static void *stand_in(const char *symbol)
{
    const struct distance d = distance_get();
    void *found = distance_delta_ns(&d) ? find(commands, symbol) : NULL;
    return found || !distance_delta_ns(&d) ? found : find(distance_copies, symbol);
}

static struct cutin_front_cost begin(const struct cutin_behind *libcutin, uint32_t given_rtt_ns,
                                     uint32_t given_tags)
{
    const struct distance d = {.rtt_ns = given_rtt_ns, .tags = given_tags};
    struct cutin_front_cost cost = {.copy_ns = distance_delta_ns(&d)};
    if (cost.copy_ns)
        cost.read_ps = (uint32_t)(distance_read_ns(&d, 1000000) / 1000);
    atomic_store_explicit(&behind, libcutin, memory_order_relaxed);
    atomic_store_explicit(&rtt_ns, given_rtt_ns, memory_order_relaxed);
    atomic_store_explicit(&tags, given_tags, memory_order_relaxed);
    return cost;
}

const struct cutin_front cutin_front = {CUTIN_FRONT_VERSION, begin, stand_in};
