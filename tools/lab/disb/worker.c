/*
 * worker.c - one process of `cutin-lab disb`: a thread and a stream per client.
 *
 * A client sends its requests one after another: it waits for the next arrival, launches the
 * model's kernels and waits until they are complete. Latency counts from the arrival, so a request
 * that comes while its client is busy has queued. Preemption latency is the time from the first
 * launch call until its kernel begins: an event behind it shows when it ended on the device.
 */
#include "disb.h"
#include "tools/facts/driver.h"
#include "kernels_ptx.h"
#include "common/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

enum {
    WARM_UP = 2, /* first launches load kernels, and cutin learns how long they take */
    CALIBRATIONS = 20,
    MOST_FUNCTIONS = 1024, /* in a process; further kernels share these */
    NAP_US = 200,
    SLICE_NS = 5000000,
};

static struct {
    struct driver cu;
    CUresult (*elapsed)(float *ms, CUevent from, CUevent to);
    struct device device;
} gpu;
static struct disb_shared *shared;
static struct disb_failure *own_failure; /* in `shared` */

/* Every distinct kernel is a function in a module of its own, as those of a network are, because
 * cutin learns how long a function takes. Clients of a process share them. */
static struct {
    pthread_mutex_t lock;
    struct function {
        struct model_kernel kernel;
        CUfunction function;
    } one[MOST_FUNCTIONS];
    uint32_t n;
} functions = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct client {
    struct disb_entry *entry;
    uint32_t index;
    const struct model_kernel *kernel;
    CUfunction *function; /* one for each kernel */
    const uint64_t *arrival_ns;
    struct disb_sample *sample;
    CUstream stream;
    CUevent origin, first, done;
};

/* The parent reports the first failure of this process. */
static int fail_for(const char *why)
{
    static _Atomic uint32_t failures;

    if (atomic_fetch_add(&failures, 1) == 0) {
        snprintf(own_failure->why, sizeof(own_failure->why), "%s", why);
        atomic_store_explicit(&own_failure->told, 1, memory_order_release);
    }
    return -EIO;
}

static int fail(const char *what, CUresult result)
{
    char why[sizeof(own_failure->why)];

    driver_check(&gpu.cu, result, what, why, sizeof(why));
    return fail_for(why);
}

#define TRY(name, ...)                                                                             \
    do {                                                                                           \
        CUresult try_result = gpu.cu.name(__VA_ARGS__);                                            \
        if (try_result != CUDA_SUCCESS)                                                            \
            return fail(#name, try_result);                                                        \
    } while (0)

static uint32_t phase(void)
{
    return atomic_load_explicit(&shared->phase, memory_order_acquire);
}

static void await_phase(uint32_t wanted)
{
    while (phase() < wanted)
        clock_sleep_us(NAP_US);
}

/* ---- turns, in sequential mode ------------------------------------------------------------- */

/* Real time goes first, then the earliest arrival. A running request is not interrupted. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool taken;
    uint64_t waiting[DISB_CLIENTS]; /* arrival, 0: not waiting */
} serial = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static bool before(uint32_t a, uint32_t b)
{
    if (shared->entry[a].rt != shared->entry[b].rt)
        return shared->entry[a].rt;
    return serial.waiting[a] < serial.waiting[b];
}

static bool is_next(uint32_t index)
{
    if (serial.taken)
        return false;
    for (uint32_t i = 0; i < shared->entries; i++)
        if (i != index && serial.waiting[i] && before(i, index))
            return false;
    return true;
}

static void serial_acquire(const struct client *c, uint64_t arrival_ns)
{
    if (!shared->sequential)
        return;
    pthread_mutex_lock(&serial.lock);
    serial.waiting[c->index] = arrival_ns;
    while (!is_next(c->index))
        pthread_cond_wait(&serial.changed, &serial.lock);
    serial.waiting[c->index] = 0;
    serial.taken = true;
    pthread_mutex_unlock(&serial.lock);
}

static void serial_release(void)
{
    if (!shared->sequential)
        return;
    pthread_mutex_lock(&serial.lock);
    serial.taken = false;
    pthread_cond_broadcast(&serial.changed);
    pthread_mutex_unlock(&serial.lock);
}

/* ---- requests ------------------------------------------------------------------------------ */

/* More blocks than fit would run in waves, each as long as the whole kernel should be. */
static uint32_t resident(const struct model_kernel *k)
{
    uint32_t warps = (k->threads + 31) / 32;
    const struct device *d = &gpu.device;
    uint32_t by_blocks = (uint32_t)d->blocks_per_processor;
    uint32_t by_threads = (uint32_t)d->threads_per_processor / (warps * 32);
    uint32_t per = by_threads < by_blocks ? by_threads : by_blocks;
    uint64_t most = (uint64_t)d->processors * (per ? per : 1);

    return k->blocks < most ? k->blocks : (uint32_t)most;
}

static int request(struct client *c)
{
    for (uint32_t i = 0; i < c->entry->kernels; i++) {
        uint64_t ns = c->kernel[i].ns;
        void *args[] = {&ns};
        TRY(cuLaunchKernel, c->function[i], resident(&c->kernel[i]), 1, 1, c->kernel[i].threads, 1,
            1, 0, c->stream, args, NULL);
        if (i == 0 && c->entry->rt)
            TRY(cuEventRecord, c->first, c->stream);
    }
    if (c->entry->rt) {
        TRY(cuStreamSynchronize, c->stream);
    } else { /* waits without spinning */
        TRY(cuEventRecord, c->done, c->stream);
        TRY(cuEventSynchronize, c->done);
    }
    return 0;
}

static double device_ns(struct client *c, CUevent event)
{
    float ms = 0;

    gpu.elapsed(&ms, c->origin, event);
    return (double)ms * 1e6;
}

/* Pairs the device's clock with the host's, by the event that took the least time. */
static int calibrate(struct client *c, int end)
{
    uint64_t best_ns = UINT64_MAX;

    if (!c->entry->rt)
        return 0;
    for (int i = 0; i < CALIBRATIONS; i++) {
        uint64_t from_ns = clock_ns(), to_ns;
        TRY(cuEventRecord, c->first, c->stream);
        TRY(cuEventSynchronize, c->first);
        to_ns = clock_ns();
        if (to_ns - from_ns >= best_ns)
            continue;
        best_ns = to_ns - from_ns;
        c->entry->clock_ns[end] = from_ns + best_ns / 2;
        c->entry->device_ns[end] = device_ns(c, c->first);
    }
    return 0;
}

static void note(struct client *c, uint64_t arrival_ns, uint64_t called_at_ns)
{
    uint64_t now = clock_ns();
    uint32_t n = atomic_load_explicit(&c->entry->samples, memory_order_relaxed);

    if (now < shared->end_ns)
        atomic_fetch_add_explicit(&c->entry->completed, 1, memory_order_relaxed);
    if (!c->entry->rt || n == c->entry->capacity)
        return;
    c->sample[n] = (struct disb_sample){now - arrival_ns, called_at_ns, device_ns(c, c->first)};
    /* Pairs with the parent's acquire: a sample that is counted has been written. */
    atomic_store_explicit(&c->entry->samples, n + 1, memory_order_release);
}

/* Waits for the i-th arrival. False: there are no more, or the time is over. */
static bool await_arrival(struct client *c, uint32_t i, uint64_t *arrival_ns)
{
    uint64_t until_ns = c->entry->rt ? shared->last_ns : UINT64_MAX, now;

    if (c->entry->closed) {
        *arrival_ns = clock_ns();
        return phase() == DISB_RUN && (!c->entry->rt || *arrival_ns < shared->end_ns);
    }
    if (i == c->entry->arrivals)
        return false;
    *arrival_ns = shared->start_ns + c->arrival_ns[i];
    while (phase() == DISB_RUN && (now = clock_ns()) < until_ns) {
        if (now >= *arrival_ns)
            return true;
        clock_sleep_until(*arrival_ns < now + SLICE_NS ? *arrival_ns : now + SLICE_NS);
    }
    while (i < c->entry->arrivals && shared->start_ns + c->arrival_ns[i++] < shared->end_ns)
        c->entry->late++;
    return false;
}

static int run(struct client *c)
{
    uint64_t arrival_ns, called_at_ns;
    int rc = 0;

    clock_sleep_until(shared->start_ns);
    for (uint32_t i = 0; rc == 0 && await_arrival(c, i, &arrival_ns); i++) {
        serial_acquire(c, arrival_ns);
        called_at_ns = clock_ns();
        rc = request(c);
        serial_release();
        if (rc == 0)
            note(c, arrival_ns, called_at_ns);
    }
    return rc;
}

/* ---- set-up -------------------------------------------------------------------------------- */

static bool same_kernel(const struct model_kernel *a, const struct model_kernel *b)
{
    return a->blocks == b->blocks && a->threads == b->threads && a->ns == b->ns;
}

static int function_find(const struct model_kernel *kernel, CUfunction *out)
{
    CUmodule module;
    uint32_t i = 0;

    while (i < functions.n && !same_kernel(&functions.one[i].kernel, kernel))
        i++;
    if (i == MOST_FUNCTIONS)
        i = kernel->blocks % MOST_FUNCTIONS;
    if (i == functions.n) {
        TRY(cuModuleLoadData, &module, kernels_ptx);
        TRY(cuModuleGetFunction, &functions.one[i].function, module, "spin");
        functions.one[i].kernel = *kernel;
        functions.n++;
    }
    *out = functions.one[i].function;
    return 0;
}

static int find_functions(struct client *c)
{
    int rc = 0;

    c->function = calloc(c->entry->kernels, sizeof(*c->function));
    if (!c->function)
        return fail("calloc", CUDA_ERROR_OUT_OF_MEMORY);
    pthread_mutex_lock(&functions.lock);
    for (uint32_t i = 0; i < c->entry->kernels && rc == 0; i++)
        rc = function_find(&c->kernel[i], &c->function[i]);
    pthread_mutex_unlock(&functions.lock);
    return rc;
}

static int client_open(struct client *c)
{
    int least = 0, greatest = 0, rc;

    TRY(cuCtxSetCurrent, gpu.device.context);
    if (shared->priorities)
        TRY(cuCtxGetStreamPriorityRange, &least, &greatest);
    TRY(cuStreamCreateWithPriority, &c->stream, CU_STREAM_NON_BLOCKING,
        c->entry->rt ? greatest : least);
    TRY(cuEventCreate, &c->origin, CU_EVENT_DEFAULT);
    TRY(cuEventCreate, &c->first, CU_EVENT_DEFAULT);
    TRY(cuEventCreate, &c->done, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC);
    TRY(cuEventRecord, c->origin, c->stream);
    TRY(cuStreamSynchronize, c->stream);
    rc = find_functions(c);
    for (int i = 0; i < WARM_UP && rc == 0; i++)
        rc = request(c);
    return rc;
}

static void *client_main(void *arg)
{
    struct client *c = arg;
    int rc = client_open(c);

    /* A client that failed goes through the phases all the same, so that none waits for it. */
    atomic_fetch_add(&shared->ready, 1);
    await_phase(DISB_CALIBRATE);
    if (rc == 0)
        rc = calibrate(c, 0);
    atomic_fetch_add(&shared->calibrated, 1);
    await_phase(DISB_RUN);
    if (rc == 0)
        rc = run(c);
    atomic_fetch_add(c->entry->rt ? &shared->rt_done : &shared->be_done, 1);
    await_phase(DISB_CLOSE);
    if (rc == 0)
        calibrate(c, 1);
    atomic_fetch_add(&shared->closed, 1);
    free(c->function);
    return NULL;
}

static int gpu_open(void)
{
    char why[sizeof(own_failure->why)];

    if (driver_open(&gpu.cu, &gpu.device, why, sizeof(why)) != 0)
        return fail_for(why);
    /* Every driver has a function of this name; cuda.h renames it to a version of 12.8. */
    *(void **)&gpu.elapsed = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuEventElapsedTime");
    if (!gpu.elapsed)
        return fail("cuEventElapsedTime", CUDA_ERROR_NOT_FOUND);
    shared->driver_version = gpu.device.driver_version;
    snprintf(shared->gpu, sizeof(shared->gpu), "%s", gpu.device.name);
    return 0;
}

static void *shared_at(uint64_t offset)
{
    return (char *)shared + offset;
}

int disb_worker_main(uint32_t process)
{
    static struct client clients[DISB_CLIENTS];
    pthread_t threads[DISB_CLIENTS];
    size_t bytes = sizeof(*shared);
    uint32_t n = 0;

    shared = worker_map(&bytes);
    if (!shared || shared->bytes != bytes || shared->entries > DISB_CLIENTS ||
        process > DISB_CLIENTS) {
        fprintf(stderr, "cutin: --worker is for the command itself\n");
        return EXIT_FAILURE;
    }
    own_failure = &shared->failure[process];
    prctl(PR_SET_TIMERSLACK, 1000); /* so that arrivals are late by a microsecond, not by fifty */
    if (gpu_open() != 0)
        return EXIT_FAILURE;
    for (uint32_t i = 0; i < shared->entries; i++) {
        struct disb_entry *entry = &shared->entry[i];
        if (entry->process != process)
            continue;
        clients[n] = (struct client){.entry = entry,
                                     .index = i,
                                     .kernel = shared_at(entry->kernels_at),
                                     .arrival_ns = shared_at(entry->arrivals_at),
                                     .sample = shared_at(entry->samples_at)};
        if (pthread_create(&threads[n], NULL, client_main, &clients[n]) != 0)
            return EXIT_FAILURE;
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    return gpu.cu.cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}
