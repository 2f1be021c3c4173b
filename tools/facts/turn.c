/*
 * turn.c - processes that take turns on one GPU: who waits for whom, and for how long? The peer is the
 * other process: it does as the shared word says while this one measures itself.
 */
#include "gpu.h"

#include <string.h>

enum peer_state { PEER_NONE, PEER_IDLE, PEER_GATED, PEER_BUSY };

static struct shared {
    _Atomic int want, is; /* enum peer_state */
    _Atomic uint32_t kernel_us;
    _Atomic uint64_t kernels; /* that the peer has completed */
} * shared;

enum { START_MS = 30000, QUEUED = 64, GATED_KERNELS = 16 };

/* ---- the peer ------------------------------------------------------------------------------------ */

static void peer_gated(CUstream s)
{
    struct word gate = word_new();

    word_set(gate, 1);
    gpu_check(gate_queue(s, gate.device), "cuStreamWaitValue32");
    for (int i = 0; i < GATED_KERNELS; i++)
        gpu_check(gpu_spin(s, gpu.full, 200), "cuLaunchKernel");
    atomic_store(&shared->is, PEER_GATED);
    while (atomic_load(&shared->want) == PEER_GATED)
        sleep_us(200);
    word_set(gate, 0);
    CU(cuStreamSynchronize, s);
}

static void peer_busy(CUstream s)
{
    struct word mark = word_new();
    uint32_t queued = 0;
    uint64_t before = atomic_load(&shared->kernels);

    while (atomic_load(&shared->want) == PEER_BUSY) {
        while (queued - word_get(mark) < QUEUED) {
            gpu_check(gpu_spin(s, gpu.full, atomic_load(&shared->kernel_us)), "cuLaunchKernel");
            gpu_check(mark_queue(s, mark.device, ++queued), "cuStreamWriteValue32");
        }
        atomic_store(&shared->kernels, before + word_get(mark));
        if (word_get(mark) > 0)
            atomic_store(&shared->is, PEER_BUSY);
    }
    CU(cuStreamSynchronize, s);
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
            sleep_us(200);
        }
    }
}

/* Returns once the peer does it. */
static void peer_want(enum peer_state state)
{
    uint64_t end_ns = now_ns() + START_MS * UINT64_C(1000000);

    atomic_store(&shared->want, (int)state);
    for (; atomic_load(&shared->is) != (int)state; sleep_us(200))
        if (now_ns() > end_ns)
            fact_fail("the other process did not get so far within %d ms", START_MS);
}

static int peer_open(void)
{
    int pid;

    shared = peer_memory(sizeof(*shared));
    atomic_store(&shared->kernel_us, 200);
    pid = peer_start(peer_main);
    gpu_open();
    need_memops();
    return pid;
}

/* ---- this process -------------------------------------------------------------------------------- */

enum { SAMPLES = 300, QUICK_SAMPLES = 20, OWN_KERNEL_US = 20, PAUSE_US = 3000, LIMIT_MS = 20000 };

/* From the launch of a short kernel until the host sees its marker, at changing phases. */
static void latency(const char *key)
{
    static uint64_t ns[SAMPLES];
    size_t n = fact_quick ? QUICK_SAMPLES : SAMPLES;
    struct word mark = word_new();
    CUstream s = stream_new();

    for (uint32_t i = 0; i < n; i++) {
        uint64_t from_ns = now_ns();

        gpu_check(gpu_spin(s, 1, OWN_KERNEL_US), "cuLaunchKernel");
        gpu_check(mark_queue(s, mark.device, i + 1), "cuStreamWriteValue32");
        if (!word_wait(mark, i + 1, LIMIT_MS))
            fact_fail("%s: a kernel did not complete within %d ms", key, LIMIT_MS);
        ns[i] = now_ns() - from_ns;
        sleep_us(PAUSE_US + i * 997 % PAUSE_US);
    }
    CU(cuStreamDestroy, s);
    fact_samples(key, ns, n);
}

void fact_yield(void)
{
    int pid = peer_open();

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

/* ---- slices -------------------------------------------------------------------------------------- */

enum { SLICE_KERNEL_US = 20, GAP_US = 250, MOST_SLICES = 4096 };

static struct {
    uint64_t ns[MOST_SLICES];
    size_t n;
} runs, gaps;

/* Keeps the device full for `ms` and sorts time into own runs and gaps: no kernel ended for a while
 * although many were queued. Returns own kernels per second. */
static double watch(unsigned int ms)
{
    struct word mark = word_new();
    CUstream s = stream_new();
    uint32_t queued = 0, seen = 0;
    uint64_t from_ns = now_ns(), run_ns, last_ns, end_ns = from_ns + ms * UINT64_C(1000000);

    runs.n = gaps.n = 0;
    run_ns = last_ns = from_ns;
    for (uint64_t now = from_ns; now < end_ns; now = now_ns()) {
        uint32_t done = word_get(mark);

        if (done != seen) {
            if (now - last_ns > GAP_US * UINT64_C(1000) && seen > 0 && gaps.n < MOST_SLICES) {
                runs.ns[runs.n++] = last_ns - run_ns;
                gaps.ns[gaps.n++] = now - last_ns;
                run_ns = now;
            }
            seen = done;
            last_ns = now;
        }
        /* One at a time, so that looking stays frequent. */
        if (queued - done < 2 * QUEUED) {
            gpu_check(gpu_spin(s, gpu.full, SLICE_KERNEL_US), "cuLaunchKernel");
            gpu_check(mark_queue(s, mark.device, ++queued), "cuStreamWriteValue32");
        }
    }
    CU(cuStreamSynchronize, s);
    return (double)seen * 1e9 / (double)(last_ns - from_ns);
}

void fact_slice(void)
{
    unsigned int ms = fact_quick ? 300 : 3000;
    int pid = peer_open();
    double alone, own, other, lost;
    uint64_t before, from_ns;

    peer_want(PEER_IDLE);
    alone = watch(ms);
    fact_number("kernels_per_s_alone", alone);
    fact_value("gaps_alone", json_integer((json_int_t)gaps.n));
    atomic_store(&shared->kernel_us, SLICE_KERNEL_US);
    peer_want(PEER_BUSY);
    before = atomic_load(&shared->kernels);
    from_ns = now_ns();
    own = watch(ms);
    other = (double)(atomic_load(&shared->kernels) - before) * 1e9 / (double)(now_ns() - from_ns);
    peer_end(pid);
    fact_number("kernels_per_s_own", own);
    fact_number("kernels_per_s_other", other);
    lost = 1 - (own + other) / alone;
    fact_number("throughput_lost", lost);
    if (gaps.n > 0) /* two switches per gap */
        fact_number("context_switch_us", lost * ms * 1000 / (2 * (double)gaps.n));
    fact_samples("own_run_us", runs.ns, runs.n);
    fact_samples("gap_us", gaps.ns, gaps.n);
}
