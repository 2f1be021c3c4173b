/*
 * probe.c - do gates hold on this GPU, with this driver? CUTIN_GATES=auto uses them if a closed
 * gate stops its stream and nothing else, an opened gate is seen soon, and both are so in graphs.
 * Takes a second at most on an idle GPU.
 */
#include "gpu.h"

#include <math.h>
#include <stdlib.h>

enum {
    ROUNDS = 8,
    LATE_ROUNDS = 64, /* more rounds if none was seen soon: the machine may be busy */
    LATE_MS = 600,    /* but for no longer than this */
    SEEN_MS = 400,    /* for what a gate may prevent */
    BUSY_MS = 3000,   /* for what no gate prevents, but a busy machine delays */
    /* The least time of all rounds from opening a gate to the next marker. It counts as late if it
     * is longer than this, and than twice what any marker without a gate took: on a busy machine
     * those are late, too, and gates are not to blame. */
    SEEN_US = 1000 * FACT_SLOWER,
    CLOSED_US = 500, /* how long a closed gate is watched */
    BEATS = 3,
    LONG_US = 20000, /* a kernel of the other process: at least two time slices */
    FRONT_US = 1000, /* the kernel in front of it */
    LONG_TRIES = 10,
    LONG_ROUNDS = 4,
    ALONE_ROUNDS = 3,
    GRAPH = 1000, /* values of markers, above those of the rounds */
    CHAIN = 32,   /* kernels of the graph that is timed, with gates and without */
    CHAIN_ROUNDS = 16,
};

/* ---- the second process, which has work of its own ------------------------------------------- */

static struct shared {
    _Atomic unsigned int beats, asked, answered;
    _Atomic uint32_t long_us; /* time of the last long kernel */
} *shared;

/* Times a long kernel behind another one, so that it begins when the GPU is free, however late this
 * process is. Launches both again if the front one may have ended before. */
static uint32_t long_kernel(CUstream s, CUevent from, CUevent to)
{
    uint32_t shortest_us = UINT32_MAX;
    bool behind = false;
    float ms;

    for (int i = 0; i < LONG_TRIES && !behind; i++) {
        uint64_t front_ns = clock_ns();

        gpu_check(gpu_spin(s, 1, FRONT_US), "cuLaunchKernel");
        CU(cuEventRecord, from, s);
        gpu_check(gpu_spin(s, 1, LONG_US), "cuLaunchKernel");
        CU(cuEventRecord, to, s);
        behind = clock_ns() - front_ns < FRONT_US * UINT64_C(1000);
        CU(cuStreamSynchronize, s);
        CU(cuEventElapsedTime_v1, &ms, from, to);
        if (ms * 1000 < (float)shortest_us)
            shortest_us = (uint32_t)(ms * 1000);
    }
    return shortest_us;
}

static void peer_main(void)
{
    CUstream s;
    CUevent from, to;

    gpu_open();
    s = stream_new();
    CU(cuEventCreate, &from, CU_EVENT_DEFAULT);
    CU(cuEventCreate, &to, CU_EVENT_DEFAULT);
    for (;;) {
        gpu_check(gpu_spin(s, 1, 20), "cuLaunchKernel");
        CU(cuStreamSynchronize, s);
        atomic_fetch_add(&shared->beats, 1);
        if (atomic_load(&shared->asked) != atomic_load(&shared->answered)) {
            atomic_store(&shared->long_us, long_kernel(s, from, to));
            atomic_fetch_add(&shared->answered, 1);
        }
        clock_sleep_us(100);
    }
}

static bool peer_progresses(unsigned int count)
{
    unsigned int before = atomic_load(&shared->beats);

    for (uint64_t end_ns = clock_ns() + BUSY_MS * UINT64_C(1000000); clock_ns() < end_ns;
         clock_sleep_us(200))
        if (atomic_load(&shared->beats) - before >= count)
            return true;
    return atomic_load(&shared->beats) - before >= count;
}

/* ---- a gate ---------------------------------------------------------------------------------- */

static struct word mark, other_mark, plain_mark, gate;
static CUstream plain; /* a stream without gates */

/* These two open the gate. The driver would have to end a process whose stream still waits
 * there. */
_Noreturn static void refuse(const char *why)
{
    word_set(gate, 0);
    fact_end(0, "%s", why);
}

/* For what fails even without gates: so busy a machine shows nothing about gates. */
_Noreturn static void unsure(const char *why)
{
    if (gate.host)
        word_set(gate, 0);
    fact_flag("unsure", true);
    fact_skip("%s", why);
}

/* How long it takes until a marker of an empty stream is seen. */
static uint64_t mark_and_see(CUstream s, struct word w, uint32_t value)
{
    uint64_t queued_ns;

    clock_sleep_us(CLOSED_US);
    queued_ns = clock_ns();
    gpu_check(mark_enqueue(s, w.device, value), "cuStreamWriteValue32");
    if (!word_wait(w, value, BUSY_MS))
        unsure("the host does not see a marker");
    return clock_ns() - queued_ns;
}

/* A busy machine or GPU may be late. So if the word has not come, waits for a later marker of
 * another stream, and then looks at the word again. */
static bool is_seen(struct word w, uint32_t value)
{
    static uint32_t asked;

    if (word_wait(w, value, SEEN_MS))
        return true;
    mark_and_see(plain, plain_mark, ++asked);
    return word_wait(w, value, SEEN_MS);
}

/* Checks that the stream waits between the markers `at` and `at + 1`, and goes on when the gate is
 * opened. Returns how long it took to see that. */
static uint64_t stop_and_resume(uint32_t at)
{
    uint64_t opened_ns;

    clock_sleep_us(CLOSED_US);
    if (word_get(mark) != at)
        refuse("a closed gate let work through");
    opened_ns = clock_ns();
    word_set(gate, 0);
    if (!is_seen(mark, at + 1))
        refuse("an opened gate did not let its stream go on");
    return clock_ns() - opened_ns;
}

static void others_check(CUstream other, uint32_t round)
{
    if (round > 0 || getenv("CUDA_DEVICE_MAX_CONNECTIONS")) /* then they may share a queue */
        return;
    gpu_check(gpu_spin(other, 1, 20), "cuLaunchKernel");
    gpu_check(mark_enqueue(other, other_mark.device, 1), "cuStreamWriteValue32");
    if (!is_seen(other_mark, 1))
        refuse("a closed gate stops other streams");
}

/* A process that is stopped by the busy machine alone does not go on with the gate open, either. */
static void processes_check(void)
{
    if (peer_progresses(BEATS))
        return;
    word_set(gate, 0);
    if (!peer_progresses(BEATS))
        unsure("the second process does not go on");
    refuse("a closed gate stops other processes");
}

/* How long a long kernel takes in the other process now. */
static uint32_t long_kernel_us(void)
{
    unsigned int asked = atomic_fetch_add(&shared->asked, 1) + 1;

    for (uint64_t end_ns = clock_ns() + BUSY_MS * UINT64_C(1000000);
         atomic_load(&shared->answered) != asked; clock_sleep_us(200))
        if (clock_ns() > end_ns)
            unsure("the second process does not go on");
    return atomic_load(&shared->long_us);
}

static bool takes_slices(uint32_t us, uint32_t alone_us)
{
    return us / 13 > alone_us / 10;
}

/* Times at most `rounds` kernels and returns the shortest time. Ends early at one that is hardly
 * longer than `enough_us`: a busy machine delays some of them, but not all. */
static uint32_t long_kernels_us(int rounds, uint32_t enough_us)
{
    uint32_t shortest_us = long_kernel_us();

    for (int round = 1; round < rounds && takes_slices(shortest_us, enough_us); round++) {
        uint32_t us = long_kernel_us();

        shortest_us = us < shortest_us ? us : shortest_us;
    }
    return shortest_us;
}

/* A process at a gate has nothing to run and takes no time slices from others. Call this while
 * one is closed. */
static uint32_t long_kernel_gated_us(uint32_t alone_us)
{
    uint32_t us = long_kernels_us(LONG_ROUNDS, alone_us);

    fact_number("other_beside_gated_ratio", (double)us / alone_us);
    return us;
}

/* The gate is open again. If a kernel still takes as long, other processes have come, and the gate
 * is not the cause. */
static void gate_slices_check(uint32_t gated_us, uint32_t alone_us)
{
    if (takes_slices(gated_us, alone_us) &&
        !takes_slices(long_kernels_us(LONG_ROUNDS, alone_us), alone_us))
        refuse("a process at a closed gate takes time slices from others");
}

static void streams_check(void)
{
    CUstream s = stream_new(), other = stream_new();
    uint64_t soonest_ns = UINT64_MAX, seen_ns = SEEN_US * UINT64_C(1000), began_ns, ns;
    uint32_t alone_us = long_kernels_us(ALONE_ROUNDS, LONG_US), gated_us = 0;

    began_ns = clock_ns();
    for (uint32_t round = 0;
         round < ROUNDS || (soonest_ns > seen_ns && round < LATE_ROUNDS &&
                            clock_ns() - began_ns < LATE_MS * UINT64_C(1000000));
         round++) {
        uint32_t at = 3 * round + 1;

        word_set(gate, 1);
        gpu_check(gpu_spin(s, 1, 20), "cuLaunchKernel");
        gpu_check(batch_enqueue(s, mark.device, at, gate.device), "cuStreamBatchMemOp");
        gpu_check(gpu_spin(s, 1, 20), "cuLaunchKernel");
        gpu_check(mark_enqueue(s, mark.device, at + 1), "cuStreamWriteValue32");
        if (!is_seen(mark, at) && word_get(mark) < at)
            refuse("work in front of a closed gate does not run");
        others_check(other, round);
        if (round == 0) {
            processes_check();
            gated_us = long_kernel_gated_us(alone_us);
        }
        ns = stop_and_resume(at);
        if (round == 0)
            gate_slices_check(gated_us, alone_us);
        soonest_ns = ns < soonest_ns ? ns : soonest_ns;
        ns = 2 * mark_and_see(s, mark, at + 2);
        seen_ns = ns > seen_ns ? ns : seen_ns;
    }
    fact_number("open_us", (double)soonest_ns / 1000);
    if (soonest_ns > seen_ns)
        refuse("the GPU sees an opened gate late");
    fact_flag("streams", true);
}

/* A chain of kernels of 20 us, with `count` of the `ops` between every two. */
static CUgraphExec chain(int kernels, CUstreamBatchMemOpParams *ops, unsigned int count)
{
    uint64_t ns = 20000;
    void *params[] = {&ns};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.ctx = gpu.context, .count = count, .paramArray = ops};
    CUDA_KERNEL_NODE_PARAMS kernel = driver_kernel_node(gpu.spin, 1, 32, params);
    CUgraph graph;
    CUgraphNode last = NULL;
    CUgraphExec exec;

    CU(cuGraphCreate, &graph, 0);
    for (int i = 0; i < kernels; i++) {
        CUgraphNode before = last;

        if (i > 0 && count > 0) {
            CU(cuGraphAddBatchMemOpNode, &last, graph, &before, 1, &batch);
            before = last;
        }
        CU(cuGraphAddKernelNode, &last, graph, &before, i > 0, &kernel);
    }
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    return exec;
}

static double chain_us(CUgraphExec exec, CUstream s, CUevent from, CUevent to)
{
    float ms;

    CU(cuEventRecord, from, s);
    CU(cuGraphLaunch, exec, s);
    CU(cuEventRecord, to, s);
    CU(cuStreamSynchronize, s);
    CU(cuEventElapsedTime_v1, &ms, from, to);
    return ms * 1000;
}

/* What an open gate and a marker cost a graph, by the shortest times, as others may use the GPU. */
static void gates_time(void)
{
    static const char *const fact[] = {"graph_mark_ns", "graph_gate_ns"};
    CUstreamBatchMemOpParams ops[2];
    CUstream s = stream_new();
    CUevent from, to;
    CUgraphExec bare = chain(CHAIN, NULL, 0), with[2];
    double bare_us = 1e9, with_us[2] = {1e9, 1e9};

    batch_fill(ops, mark.device, GRAPH, gate.device);
    with[0] = chain(CHAIN, &ops[0], 1);
    with[1] = chain(CHAIN, &ops[1], 1);
    CU(cuEventCreate, &from, CU_EVENT_DEFAULT);
    CU(cuEventCreate, &to, CU_EVENT_DEFAULT);
    for (int i = 0; i < CHAIN_ROUNDS; i++) {
        bare_us = fmin(bare_us, chain_us(bare, s, from, to));
        for (int k = 0; k < 2; k++)
            with_us[k] = fmin(with_us[k], chain_us(with[k], s, from, to));
    }
    for (int k = 0; k < 2; k++)
        fact_value(fact[k],
                   json_integer((json_int_t)(fmax(with_us[k] - bare_us, 0) * 1000 / (CHAIN - 1))));
}

static void graph_check(void)
{
    CUstream s = stream_new();
    CUstreamBatchMemOpParams ops[2];
    CUgraphExec exec;

    batch_fill(ops, mark.device, GRAPH, gate.device);
    exec = chain(2, ops, 2);
    word_set(gate, 1);
    CU(cuGraphLaunch, exec, s);
    gpu_check(mark_enqueue(s, mark.device, GRAPH + 1), "cuStreamWriteValue32");
    if (!is_seen(mark, GRAPH))
        refuse("work in front of a closed gate in a graph does not run");
    stop_and_resume(GRAPH);
    fact_flag("graphs", true);
}

/* ---- the fact -------------------------------------------------------------------------------- */

static void say_device(void)
{
    char name[96] = "";

    CU(cuDeviceGetName, name, sizeof(name), gpu.device);
    fact_text("gpu", "%s", name);
    fact_value("driver_version", json_integer(gpu.version));
}

void fact_gates(void)
{
    int peer;

    shared = peer_memory(sizeof(*shared));
    peer = peer_start(peer_main);
    gpu_open();
    say_device();
    mark = word_new();
    other_mark = word_new();
    plain_mark = word_new();
    plain = stream_new();
    need_memops();
    gate = gate_word_new();
    if (!peer_progresses(1))
        unsure("no second process can use the GPU");
    streams_check();
    graph_check();
    peer_end(peer);
    gates_time();
}
