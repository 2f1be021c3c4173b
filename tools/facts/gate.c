/*
 * gate.c - how soon a closed gate stops a full queue, and how soon it goes on when the gate opens.
 */
#include "gpu.h"

enum {
    ROUNDS = 100,
    QUICK_ROUNDS = 6,
    QUEUED = 300, /* units of one kernel, one marker and one gate, at most */
    UNIT = 4,   /* room of a unit in launches: a thread that waits for it does not open the gate */
    AHEAD = 15, /* the gate is closed when one unit in this many has run */
    STILL_US = 3000,
    LIMIT_MS = 20000,
};

static const double kernel_us[] = {5, 20, 200};

/* Waits until there is no progress for STILL_US. Returns when the last progress was. */
static uint64_t stop_seen(struct word mark, uint64_t from_ns)
{
    uint32_t last = word_get(mark);
    uint64_t last_ns = from_ns;

    for (uint64_t now = from_ns; now - last_ns < STILL_US * UINT64_C(1000); now = clock_ns()) {
        uint32_t value = word_get(mark);
        if (value != last) {
            last = value;
            last_ns = now;
        }
    }
    return last_ns;
}

static void gate_measure(double us, int rounds, uint32_t queued)
{
    static uint64_t stop_ns[ROUNDS], run_ns[ROUNDS];
    size_t n = 0;
    struct word mark = word_new(), gate = word_new();
    CUstream s = stream_new();
    double units = 0;
    char key[64];

    for (int round = 0; round < rounds; round++) {
        uint32_t at_close, stopped;
        uint64_t from_ns;

        word_set(mark, 0);
        word_set(gate, 1); /* the first unit stops there until all are queued */
        for (uint32_t i = 1; i <= queued; i++) {
            gpu_check(gpu_spin(s, gpu.full, us), "cuLaunchKernel");
            gpu_check(batch_enqueue(s, mark.device, i, gate.device), "cuStreamBatchMemOp");
        }
        word_set(gate, 0);
        /* Waits until well inside the queue, at another phase of a kernel each time. */
        from_ns =
            clock_ns() + (uint64_t)(us * 10 * (queued / AHEAD * 100 + (uint32_t)round * 37 % 100));
        while (clock_ns() < from_ns)
            ;
        at_close = word_get(mark);
        from_ns = clock_ns();
        word_set(gate, 1);
        stop_ns[n] = stop_seen(mark, from_ns) - from_ns;
        stopped = word_get(mark);
        from_ns = clock_ns();
        word_set(gate, 0);
        if (stopped == queued) { /* all units were done before the gate was closed */
            CU(cuStreamSynchronize, s);
            continue;
        }
        units += stopped - at_close;
        for (uint64_t end_ns = from_ns + LIMIT_MS * UINT64_C(1000000); word_get(mark) == stopped;)
            if (clock_ns() > end_ns)
                fact_fail("an opened gate did not let the queue go on within %d ms", LIMIT_MS);
        /* The next marker comes one kernel after the gate. */
        run_ns[n++] = clock_ns() - from_ns;
        CU(cuStreamSynchronize, s);
    }
    snprintf(key, sizeof(key), "close_to_stop_%.0fus_kernels_us", us);
    fact_samples(key, stop_ns, n);
    snprintf(key, sizeof(key), "units_after_close_%.0fus_kernels", us);
    if (n > 0)
        fact_number(key, units / (double)n);
    snprintf(key, sizeof(key), "open_to_next_marker_%.0fus_kernels_us", us);
    fact_samples(key, run_ns, n);
}

void fact_gate(void)
{
    uint32_t queued;

    gpu_open();
    need_memops();
    queued = launch_until_full() / UNIT;
    queued = queued < QUEUED ? queued : QUEUED;
    fact_value("units_queued", json_integer(queued));
    for (size_t i = 0; i < sizeof(kernel_us) / sizeof(kernel_us[0]); i++)
        gate_measure(kernel_us[i], fact_quick ? QUICK_ROUNDS : ROUNDS, queued);
}
