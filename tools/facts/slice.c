/*
 * slice.c - processes that the driver time-slices: which one waits, and for how long? The peer is
 * the other process. It does what the shared word says while this one measures itself.
 */
#include "gpu.h"

#include "shim/suspend/groups.h"

enum peer_state { PEER_NONE, PEER_IDLE, PEER_GATED, PEER_BUSY };

static struct shared {
    _Atomic int want, is; /* enum peer_state */
    _Atomic uint32_t kernel_us;
    _Atomic uint64_t kernels;  /* completed by the peer */
    _Atomic uint32_t slice_us; /* of the peer's slices; 0: the driver's own */
    _Atomic int slice_answer;  /* what groups_set_slice returned */
} *shared;

enum { START_MS = 30000, QUEUED = 120, GATED_KERNELS = 16 };

static CUevent event_new(void)
{
    CUevent e;

    CU(cuEventCreate, &e, CU_EVENT_DEFAULT);
    return e;
}

/* ---- the peer -------------------------------------------------------------------------------- */

static void peer_gated(CUstream s)
{
    struct word gate = word_new();

    word_set(gate, 1);
    gpu_check(gate_enqueue(s, gate.device), "cuStreamWaitValue32");
    for (int i = 0; i < GATED_KERNELS; i++)
        gpu_check(gpu_spin(s, gpu.full, 200), "cuLaunchKernel");
    atomic_store(&shared->is, PEER_GATED);
    while (atomic_load(&shared->want) == PEER_GATED)
        clock_sleep_us(200);
    word_set(gate, 0);
    CU(cuStreamSynchronize, s);
}

static void peer_busy(CUstream s)
{
    CUevent end[QUEUED];

    for (int i = 0; i < QUEUED; i++)
        end[i] = event_new();
    if (!groups_objection())
        atomic_store(&shared->slice_answer, groups_set_slice(NULL, atomic_load(&shared->slice_us)));
    for (uint32_t i = 0; atomic_load(&shared->want) == PEER_BUSY; i++) {
        if (i >= QUEUED) {
            CU(cuEventSynchronize, end[i % QUEUED]);
            atomic_fetch_add(&shared->kernels, 1);
            atomic_store(&shared->is, PEER_BUSY);
        }
        gpu_check(gpu_spin(s, gpu.full, atomic_load(&shared->kernel_us)), "cuLaunchKernel");
        CU(cuEventRecord, end[i % QUEUED], s);
    }
    CU(cuStreamSynchronize, s);
    for (int i = 0; i < QUEUED; i++)
        CU(cuEventDestroy, end[i]);
}

static void peer_main(void)
{
    CUstream s;

    gpu_open();
    s = stream_new();
    for (;;) {
        switch (atomic_load(&shared->want)) {
        case PEER_GATED:
            peer_gated(s);
            break;
        case PEER_BUSY:
            peer_busy(s);
            break;
        default:
            atomic_store(&shared->is, PEER_IDLE);
            clock_sleep_us(200);
        }
    }
}

/* Returns once the peer is in this state. */
static void peer_want(enum peer_state state)
{
    uint64_t end_ns = clock_ns() + START_MS * UINT64_C(1000000);

    atomic_store(&shared->want, (int)state);
    for (; atomic_load(&shared->is) != (int)state; clock_sleep_us(200))
        if (clock_ns() > end_ns)
            fact_fail("the other process did not get that far within %d ms", START_MS);
}

static int peer_open(void)
{
    int pid;

    shared = peer_memory(sizeof(*shared));
    atomic_store(&shared->kernel_us, 200);
    pid = peer_start(peer_main);
    gpu_open();
    return pid;
}

/* ---- this process ---------------------------------------------------------------------------- */

enum { SAMPLES = 300, QUICK_SAMPLES = 20, OWN_KERNEL_US = 20, PAUSE_US = 3000, LIMIT_MS = 20000 };
enum { LONG_KERNEL_US = 5000 };

/* Times from the launch of a short kernel until the host sees its marker, at changing phases. */
static void latency(const char *key)
{
    static uint64_t ns[SAMPLES];
    size_t n = fact_quick ? QUICK_SAMPLES : SAMPLES;
    struct word mark = word_new();
    CUstream s = stream_new();

    for (uint32_t i = 0; i < n; i++) {
        uint64_t from_ns = clock_ns();

        gpu_check(gpu_spin(s, 1, OWN_KERNEL_US), "cuLaunchKernel");
        gpu_check(mark_enqueue(s, mark.device, i + 1), "cuStreamWriteValue32");
        if (!word_wait(mark, i + 1, LIMIT_MS))
            fact_fail("%s: a kernel did not complete within %d ms", key, LIMIT_MS);
        ns[i] = clock_ns() - from_ns;
        clock_sleep_us(PAUSE_US + i * 997 % PAUSE_US);
    }
    CU(cuStreamDestroy, s);
    fact_samples(key, ns, n);
}

void fact_yield(void)
{
    int pid = peer_open();

    need_memops();
    peer_want(PEER_IDLE);
    latency("peer_idle_us");
    peer_want(PEER_GATED);
    latency("peer_gated_us");
    peer_want(PEER_BUSY);
    latency("peer_busy_us");
    peer_end(pid);
}

void fact_across(void)
{
    static const uint32_t kernel_us[] = {20, 200, 2000, 20000};
    int pid = peer_open();
    char key[64];

    need_memops();
    peer_want(PEER_IDLE);
    latency("alone_us");
    for (size_t i = 0; i < (fact_quick ? 2u : 4u); i++) {
        peer_want(PEER_IDLE);
        atomic_store(&shared->kernel_us, kernel_us[i]);
        peer_want(PEER_BUSY);
        snprintf(key, sizeof(key), "beside_%uus_kernels_us", kernel_us[i]);
        latency(key);
    }
    peer_end(pid);
}

/* The peer's kernels per second while no other process wants the device. */
static double peer_rate(void)
{
    uint64_t from_ns = clock_ns(), before = atomic_load(&shared->kernels);

    clock_sleep_us(fact_quick ? 50000 : 400000);
    return (double)(atomic_load(&shared->kernels) - before) * 1e9 / (double)(clock_ns() - from_ns);
}

void fact_short_slice(void)
{
    static const uint32_t slice_us[] = {0, 1000, 500, 200, 100, 50, 1};
    int pid = peer_open();
    char key[64];

    need_memops();
    if (groups_objection())
        fact_skip("%s", groups_objection());
    atomic_store(&shared->kernel_us, LONG_KERNEL_US);
    for (size_t i = 0; i < (fact_quick ? 3u : 7u); i++) {
        peer_want(PEER_IDLE);
        atomic_store(&shared->slice_us, slice_us[i]);
        peer_want(PEER_BUSY);
        snprintf(key, sizeof(key), "answer_%u", slice_us[i]);
        fact_value(key, json_integer(atomic_load(&shared->slice_answer)));
        snprintf(key, sizeof(key), "kernels_per_s_alone_%u", slice_us[i]);
        fact_number(key, peer_rate());
        snprintf(key, sizeof(key), "beside_slices_of_%u_us", slice_us[i]);
        latency(key);
    }
    peer_end(pid);
}

/* ---- slices ---------------------------------------------------------------------------------- */

enum { SLICE_KERNEL_US = 100, KERNELS = 6000, QUICK_KERNELS = 1200 };

static struct {
    uint64_t ns[KERNELS];
    size_t n;
} runs, gaps;

/*
 * Keeps the device full and times the end of each kernel on the device, so that it does not matter
 * when this process runs. If two processes are time-sliced, kernels end in runs. A gap between two
 * runs is the other's slice, with a switch before it and after it. Returns own kernels per second.
 */
static double watch(void)
{
    static CUevent end[KERNELS];
    int n = fact_quick ? QUICK_KERNELS : KERNELS;
    double at_ns = 0, begin_ns = 0; /* begin of a run; 0: it was not seen */
    CUstream s = stream_new();

    for (int i = 0; i < n; i++) {
        end[i] = event_new();
        gpu_check(gpu_spin(s, gpu.full, SLICE_KERNEL_US), "cuLaunchKernel");
        CU(cuEventRecord, end[i], s);
    }
    CU(cuStreamSynchronize, s);
    runs.n = gaps.n = 0;
    for (int i = 1; i < n; i++) {
        float ms;

        CU(cuEventElapsedTime_v1, &ms, end[i - 1], end[i]);
        at_ns += (double)ms * 1e6;
        if (ms * 1000 < 2 * SLICE_KERNEL_US)
            continue;
        gaps.ns[gaps.n] = (uint64_t)((double)ms * 1e6) - SLICE_KERNEL_US * 1000;
        if (begin_ns > 0)
            runs.ns[runs.n++] = (uint64_t)(at_ns - begin_ns) - gaps.ns[gaps.n];
        gaps.n++;
        begin_ns = at_ns;
    }
    for (int i = 0; i < n; i++)
        CU(cuEventDestroy, end[i]);
    return (n - 1) * 1e9 / at_ns;
}

static double median_us(const uint64_t *sorted_ns, size_t n)
{
    return (double)sorted_ns[n / 2] / 1000;
}

void fact_slice(void)
{
    int pid = peer_open();
    double alone, own, other;
    uint64_t before, from_ns;

    peer_want(PEER_IDLE);
    alone = watch();
    fact_number("kernels_per_s_alone", alone);
    fact_value("gaps_alone", json_integer((json_int_t)gaps.n));
    atomic_store(&shared->kernel_us, SLICE_KERNEL_US);
    peer_want(PEER_BUSY);
    before = atomic_load(&shared->kernels);
    from_ns = clock_ns();
    own = watch();
    other = (double)(atomic_load(&shared->kernels) - before) * 1e9 / (double)(clock_ns() - from_ns);
    peer_end(pid);
    fact_number("kernels_per_s_own", own);
    fact_number("kernels_per_s_other", other);
    fact_number("throughput_lost", 1 - (own + other) / alone);
    fact_samples("own_run_us", runs.ns, runs.n);
    fact_samples("gap_us", gaps.ns, gaps.n);
    /* Both are sorted by now. Each gap has two switches. */
    if (runs.n > 0)
        fact_number("context_switch_us",
                    (median_us(gaps.ns, gaps.n) - median_us(runs.ns, runs.n)) / 2);
}
