/*
 * overhead.c - `cutin-lab overhead`: what the shim adds to a driver call.
 *
 * The same calls are timed in processes of their own: bare, and preloaded as real time (pass
 * through), as best effort (inline) and as best effort whose stream is held (buffered). The modes
 * take turns, round after round, so that the machine's noise affects them alike. A figure is the
 * median over the rounds of (percentile under cutin - percentile bare of the same round). The
 * simulated GPU has a null mode in which calls cost next to nothing, so that the shim's part shows.
 */
#include "lab.h"
#include "tools/facts/driver.h"
#include "tools/facts/fact.h"
#include "kernels_ptx.h"
#include "tools/cutin/paths.h"
#include "tools/cutin/progress.h"
#include "tools/cutin/result.h"
#include "common/clock.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The rows and columns of the table. They are ints, because loops count through them. */
enum { BARE, PASS_THROUGH, INLINE, BUFFERED, MODES };
static const char *const mode_names[] = {"bare", "pass_through", "inline", "buffered", NULL};
enum {
    LAUNCH,
    EVENT_RECORD,
    MEMCPY_ASYNC,
    LAUNCH_DEFAULT,
    LAUNCH_EX,
    LAUNCH_COOPERATIVE,
    LAUNCH_GRAPH,
    CALLS,
};
static const char *const call_names[] = {
    "launch",    "event_record",       "memcpy_async", "launch_default",
    "launch_ex", "launch_cooperative", "launch_graph",
};

enum {
    CHUNK = 500, /* calls between two synchronisations; they fit into a held vHQ */
    MOST_ROUNDS = 100,
    MOST_THREADS = 64,
    LIMIT_S = 86400,
};

struct figure {
    double p50, p99; /* ns per call */
};

static struct plan {
    uint32_t calls, rounds, threads; /* threads 0: measure with 1, then with 8 */
    int mode;                        /* of a worker; -1: this is no worker */
    bool sim, real, json;            /* sim is the default and changes nothing */
    uint32_t measured, measurements; /* processes: measured so far, and in all */
} given = {.calls = 20000, .rounds = 5, .mode = -1};

static const struct option_row options[] = {
    {"sim", NULL, "use the null mode of the simulated GPU (the default)", TAKE_FLAG(given.sim)},
    {"real", NULL, "use this machine's GPU", TAKE_FLAG(given.real)},
    {"calls", "N", "timed calls of each kind, per thread and round (20000)",
     TAKE_NUMBER(given.calls, 100, 1000000)},
    {"rounds", "N", "rounds of all modes (5)", TAKE_NUMBER(given.rounds, 1, MOST_ROUNDS)},
    {"threads", "N", "use N threads, each with its own stream (1, then 8)",
     TAKE_NUMBER(given.threads, 1, MOST_THREADS)},
    {"json", NULL, "one JSON object on stdout", TAKE_FLAG(given.json)},
    {"worker", "MODE", NULL, TAKE_WORD(given.mode, mode_names)},
    {0},
};

/* ---- the worker ---------------------------------------------------------------------------- */

static struct {
    struct driver cu;
    struct device device;
    CUfunction function;
    __typeof__(&cuLaunchKernelEx) launch_ex; /* NULL: before 11.8 */
    __typeof__(&cuLaunchCooperativeKernel) launch_cooperative;
    int (*hold)(CUstream), (*release)(CUstream); /* cutin.h, found if it is loaded */
    uint32_t calls, threads;
    int mode;
    uint64_t *ns; /* [call][thread][calls] */
} bench;

struct subject { /* the objects of one thread */
    CUstream stream;
    CUevent event;
    CUdeviceptr device;
    void *host;
    CUgraphExec graph; /* of one launch of the function */
};

/* Launches without attributes. A driver without cuLaunchKernelEx launches as usual. */
static CUresult launch_ex(CUstream stream, void **params)
{
    CUlaunchConfig config = {1, 1, 1, 32, 1, 1, 0, stream, NULL, 0};

    if (!bench.launch_ex)
        return bench.cu.cuLaunchKernel(bench.function, 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
    return bench.launch_ex(&config, bench.function, params, NULL);
}

static CUresult make_call(int call, const struct subject *s)
{
    uint64_t dst = s->device;
    uint32_t value = 1, n = 4;
    void *params[] = {&dst, &value, &n};

    switch (call) {
    case LAUNCH:
    case LAUNCH_DEFAULT:
        return bench.cu.cuLaunchKernel(bench.function, 1, 1, 1, 32, 1, 1, 0, s->stream, params,
                                       NULL);
    case LAUNCH_EX:
        return launch_ex(s->stream, params);
    case LAUNCH_COOPERATIVE:
        return bench.launch_cooperative(bench.function, 1, 1, 1, 32, 1, 1, 0, s->stream, params);
    case LAUNCH_GRAPH:
        return bench.cu.cuGraphLaunch(s->graph, s->stream);
    case EVENT_RECORD:
        return bench.cu.cuEventRecord(s->event, s->stream);
    default:
        return bench.cu.cuMemcpyHtoDAsync(s->device, s->host, 64, s->stream);
    }
}

static int time_call(int call, const struct subject *s, uint64_t *ns, uint32_t count)
{
    /* All threads share the default stream, so threads that hold it would wait for each other. */
    bool holds = bench.mode == BUFFERED && (s->stream || bench.threads == 1);

    for (uint32_t done = 0; done < count;) {
        uint32_t chunk = count - done < CHUNK ? count - done : CHUNK;

        if (holds && bench.hold(s->stream))
            return -EIO;
        for (uint32_t i = 0; i < chunk; i++) {
            uint64_t before = clock_ns();
            CUresult r = make_call(call, s);

            ns[done + i] = clock_ns() - before;
            if (r)
                return -EIO;
        }
        if (holds)
            bench.release(s->stream);
        bench.cu.cuStreamSynchronize(s->stream);
        done += chunk;
    }
    return 0;
}

static CUresult make_graph(struct subject *s)
{
    uint64_t dst = s->device;
    uint32_t value = 1, n = 4;
    void *params[] = {&dst, &value, &n};
    CUDA_KERNEL_NODE_PARAMS node = driver_kernel_node(bench.function, 1, 32, params);
    CUgraph graph;
    CUgraphNode first;
    CUresult r = bench.cu.cuGraphCreate(&graph, 0);

    if (!r)
        r = bench.cu.cuGraphAddKernelNode(&first, graph, NULL, 0, &node);
    return r ? r : bench.cu.cuGraphInstantiateWithFlags(&s->graph, graph, 0);
}

static void *worker_thread(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    struct subject s;
    CUstream own;
    uint64_t warm[CHUNK];
    long err = 0;

    err |= (long)bench.cu.cuCtxSetCurrent(bench.device.context);
    err |= (long)bench.cu.cuStreamCreate(&own, CU_STREAM_NON_BLOCKING);
    err |= (long)bench.cu.cuEventCreate(&s.event, CU_EVENT_DISABLE_TIMING);
    err |= (long)bench.cu.cuMemAlloc(&s.device, 64);
    err |= (long)bench.cu.cuMemAllocHost(&s.host, 64);
    err |= (long)make_graph(&s);
    for (int call = 0; call < CALLS && !err; call++) {
        uint64_t *ns = bench.ns + ((size_t)call * bench.threads + me) * bench.calls;

        s.stream = call == LAUNCH_DEFAULT ? NULL : own;
        /* The first launch of a kernel waits for its turn, so nothing is held yet. */
        err |= (long)make_call(call, &s);
        bench.cu.cuStreamSynchronize(s.stream);
        err |= time_call(call, &s, warm, CHUNK);
        err |= time_call(call, &s, ns, bench.calls);
    }
    return (void *)err;
}

static char worker_why[256]; /* why it cannot begin */

#define TRY(name, ...) DRIVER_TRY(&bench.cu, worker_why, #name, name, __VA_ARGS__)

static int worker_open(void)
{
    CUmodule module;
    int rc = driver_open(&bench.cu, &bench.device, worker_why, sizeof(worker_why));

    if (rc != 0)
        return rc;
    TRY(cuModuleLoadData, &module, kernels_ptx);
    TRY(cuModuleGetFunction, &bench.function, module, "fill");
    void *libcuda = dlopen("libcuda.so.1", RTLD_NOW);
    *(void **)&bench.launch_ex = dlsym(libcuda, "cuLaunchKernelEx");
    *(void **)&bench.launch_cooperative = dlsym(libcuda, "cuLaunchCooperativeKernel");
    *(void **)&bench.hold = dlsym(RTLD_DEFAULT, "cutin_stream_hold");
    *(void **)&bench.release = dlsym(RTLD_DEFAULT, "cutin_stream_release");
    return bench.mode == BUFFERED && !bench.hold ? -ENOSYS : 0;
}

/* Times all calls in this process, and gives the samples of each kind of call. */
static int worker(int mode, const struct plan *plan)
{
    pthread_t threads[MOST_THREADS];
    long err = 0;
    size_t n = (size_t)plan->threads * plan->calls;

    bench.mode = mode;
    bench.calls = plan->calls;
    bench.threads = plan->threads;
    bench.ns = calloc(CALLS * n, sizeof(*bench.ns));
    if (!bench.ns)
        return EXIT_FAILURE;
    if (worker_open() != 0)
        return say(&subcommand_overhead, "%s", worker_why);
    for (uintptr_t i = 0; i < plan->threads; i++)
        if (pthread_create(&threads[i], NULL, worker_thread, (void *)i) != 0)
            return EXIT_FAILURE;
    for (uint32_t i = 0; i < plan->threads; i++) {
        void *result;

        pthread_join(threads[i], &result);
        err |= (long)result;
    }
    for (int call = 0; call < CALLS && !err; call++)
        fact_samples(call_names[call], bench.ns + (size_t)call * n, n);
    return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* ---- the parent ---------------------------------------------------------------------------- */

static void worker_process(const struct fact_run *run)
{
    const struct paths *paths = run->user;
    const char *mode = run->fact->name;
    char calls[16], threads[16];

    snprintf(calls, sizeof(calls), "%u", given.calls);
    snprintf(threads, sizeof(threads), "%u", given.threads);
    environment_remove_preload();
    environment_set((struct variable[]){
        {"SIMGPU_NULL", given.real ? NULL : "1"},
        {"SIMGPU_LAUNCH_NS", given.real ? NULL : "0"},
        {"CUTIN_PRIORITY", strcmp(mode, mode_names[PASS_THROUGH]) == 0 ? "rt" : "be"},
        {"CUTIN_SOCKET", ""},
        {"CUTIN_PROFILE", "off"},
        {0}});
    environment_preload(strcmp(mode, mode_names[BARE]) == 0 ? NULL : paths->library,
                        given.real ? NULL : paths->simulator);
    execl(paths->self, "cutin-lab", "overhead", "--worker", mode, "--calls", calls, "--threads",
          threads, (char *)NULL);
}

static bool show(void)
{
    char what[32];

    snprintf(what, sizeof(what), "%u thread%s", given.threads, given.threads == 1 ? "" : "s");
    progress_show(given.measured, given.measurements, what);
    return !progress_cancel;
}

static int measure(int mode, struct plan *plan, const struct paths *paths, struct figure out[CALLS])
{
    const struct fact fact = {.name = mode_names[mode], .limit_s = LIMIT_S};
    struct fact_run run = {
        .fact = &fact, .child_exec = worker_process, .may_continue = show, .user = paths};
    double p50_us, p99_us;
    int rc;

    fact_run(&run, LIMIT_S);
    rc = strcmp(run.status, "measured") == 0      ? 0
         : strcmp(run.status, "interrupted") == 0 ? -ECANCELED
                                                  : -EIO;
    for (int call = 0; call < CALLS && rc == 0; call++) {
        if (json_unpack(run.values, "{s:{s:F, s:F}}", call_names[call], "p50", &p50_us, "p99",
                        &p99_us) != 0)
            rc = -EIO;
        else
            out[call] = (struct figure){p50_us * 1000, p99_us * 1000};
    }
    json_decref(run.values);
    plan->measured++;
    return rc;
}

static int by_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *v, uint32_t n)
{
    qsort(v, n, sizeof(*v), by_double);
    return v[n / 2];
}

struct result {
    uint32_t threads, rounds;
    struct figure of[MODES][CALLS]; /* figures of bare, and what each other mode adds */
};

static struct figure seen[MOST_ROUNDS][MODES][CALLS];

static void result_make(struct result *result, const struct plan *plan, uint32_t rounds)
{
    double p50[MOST_ROUNDS], p99[MOST_ROUNDS];

    result->threads = plan->threads;
    result->rounds = rounds;
    for (int mode = 0; mode < MODES; mode++)
        for (int call = 0; call < CALLS; call++) {
            for (uint32_t r = 0; r < rounds; r++) {
                const struct figure *base = &seen[r][BARE][call];

                p50[r] = seen[r][mode][call].p50 - (mode == BARE ? 0 : base->p50);
                p99[r] = seen[r][mode][call].p99 - (mode == BARE ? 0 : base->p99);
            }
            result->of[mode][call] = (struct figure){median(p50, rounds), median(p99, rounds)};
        }
}

/* Runs all rounds with plan->threads threads. -ECANCELED: not even one round was complete. */
static int run_rounds(struct plan *plan, const struct paths *paths, struct result *result)
{
    uint32_t rounds = 0;
    int rc = 0;

    for (; rounds < plan->rounds && rc == 0; rounds += rc == 0)
        for (int mode = 0; mode < MODES && rc == 0; mode++) {
            rc = measure(mode, plan, paths, seen[rounds][mode]);
            if (rc != 0 && rc != -ECANCELED)
                say(&subcommand_overhead, "cannot measure the %s process", mode_names[mode]);
        }
    if (rc == -ECANCELED && rounds > 0)
        rc = 0;
    if (rc == 0)
        result_make(result, plan, rounds);
    return rc;
}

static json_t *result_json(const struct result *result)
{
    json_t *object = json_pack("{s:i,s:i}", "threads", (int)result->threads, "rounds",
                               (int)result->rounds),
           *mode_object;

    for (int mode = 0; mode < MODES; mode++) {
        mode_object = json_object();
        for (int call = 0; call < CALLS; call++) {
            const struct figure *f = &result->of[mode][call];

            json_object_set_new(mode_object, call_names[call],
                                json_pack("{s:f,s:f}", mode == BARE ? "ns_p50" : "added_ns_p50",
                                          f->p50, mode == BARE ? "ns_p99" : "added_ns_p99",
                                          f->p99));
        }
        json_object_set_new(object, mode_names[mode], mode_object);
    }
    return object;
}

/* The first result's figures are at the top, and those of all results under "runs". */
static json_t *all_json(const struct plan *plan, const struct result *results, size_t n, int argc,
                        char **argv)
{
    json_t *top = result_json(&results[0]), *runs = json_array();

    for (size_t i = 0; i < n; i++)
        json_array_append_new(runs, result_json(&results[i]));
    json_object_set_new(top, "runs", runs);
    json_object_set_new(top, "interrupted", json_boolean(progress_cancel));
    json_object_set_new(top, "config",
                        json_pack("{s:b,s:i,s:i,s:s,s:o,s:o,s:o}", "simulated", !plan->real,
                                  "calls", (int)plan->calls, "rounds", (int)plan->rounds, "version",
                                  CUTIN_VERSION, "machine", result_machine(), "environment",
                                  result_environment(), "command", result_command(argc, argv)));
    return top;
}

static void print_table(const struct result *results, size_t n)
{
    printf("ns per call: bare, and added under cutin (p50 / p99)\n");
    for (size_t i = 0; i < n; i++) {
        printf("\n%-2u thread%-9s", results[i].threads, results[i].threads == 1 ? "" : "s");
        for (int mode = 0; mode < MODES; mode++)
            printf("%18s", mode_names[mode]);
        for (int call = 0; call < CALLS; call++) {
            printf("\n%-18s", call_names[call]);
            for (int mode = 0; mode < MODES; mode++) {
                const struct figure *f = &results[i].of[mode][call];

                printf("%9.0f /%7.0f", f->p50, f->p99);
            }
        }
        putchar('\n');
    }
}

static int report(const struct plan *plan, const struct result *results, size_t n, int argc,
                  char **argv)
{
    json_t *root = all_json(plan, results, n, argc, argv);
    int rc;

    if (!plan->json)
        print_table(results, n);
    rc = result_give(root, plan->json);
    if (progress_cancel)
        say(&subcommand_overhead, "interrupted; the figures cover what was measured");
    return rc;
}

static int overhead(const struct subcommand *cmd, int argc, char **argv)
{
    static const uint32_t default_threads[] = {1, 8};
    struct result results[2];
    struct paths paths;
    size_t n = 0;
    int rc = 0;

    options_read(cmd, argc, argv);
    options_no_operands(cmd, argc, argv);
    if (given.mode >= 0)
        return worker(given.mode, &given);
    paths_find(&paths);
    if (!paths.library[0] || (!given.real && !paths.simulator[0]))
        return say(cmd, "libcutin.so%s not found beside this command",
                   given.real ? "" : " or simulator");
    progress_begin();
    given.measurements = (given.threads ? 1 : 2) * given.rounds * MODES;
    for (uint32_t only = given.threads; n < (only ? 1 : 2) && rc == 0; n += rc == 0) {
        given.threads = only ? only : default_threads[n];
        rc = run_rounds(&given, &paths, &results[n]);
    }
    progress_end();
    if (rc == -ECANCELED && n == 0)
        say(cmd, "interrupted before anything was measured");
    if (n == 0 || (rc != 0 && rc != -ECANCELED))
        return EXIT_FAILURE;
    return report(&given, results, n, argc, argv);
}

const struct subcommand subcommand_overhead = {
    .name = "overhead",
    .summary = "measure what cutin adds to a driver call, in nanoseconds",
    .synopsis = "[OPTIONS]",
    .about =
        "Times launches (also to the default stream, with cuLaunchKernelEx, cooperative, and of a\n"
        "one-kernel graph), event records and asynchronous copies: bare, and under cutin passed\n"
        "through (real time), submitted inline and buffered (best effort).",
    .options = options,
    .run = overhead,
};
