/*
 * async_net.c - two processes that exchange the edges of their fields in every step, through a card
 * (nic.h), like programs whose GPU communicates without the processor (GPUDirect Async).
 *
 * A field drifts: in each step every cell is updated and moves on by one edge. What leaves one rank
 * goes to the other. The model says what sends:
 *   --cpu      the processor waits for the stream, rings the doorbell, and waits for the message
 *   --stream   the processor prepares descriptors and goes on; memory operations in the stream ring
 *              and wait
 *   --kernel   the kernel that moves the field rings and waits by itself, in its first block
 * The fields are compared with what the processor computes, word by word, so a message that is
 * lost, early, late or duplicated shows. Rank r uses device r, or device 0 if there is one device.
 *
 *   async_net --stream --exchanges 2000
 *   cutin run -- async_net --stream --json
 */
#include "common.h"
#include "nic.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    EDGE = 256,       /* words that are exchanged */
    INNER = 3 * EDGE, /* words of a field after its first edge */
    FIELD = EDGE + INNER,
    AHEAD = 32, /* steps that may be queued */
    BLOCKS = 4, /* of the kernel that rings: its first block, and those that move the field */
    WARM_UP = 50,
    SKIPPED = 77, /* exit status */
};

static double exchanges = 1000, kernel_us = 0, wire_us = 2, go_on = 0;
static bool by_cpu, by_stream, by_kernel, rdma, announce, json;

static const struct setting settings[] = {
    {"cpu", NULL, &by_cpu, 0, 0, "the processor sends and receives"},
    {"stream", NULL, &by_stream, 0, 0,
     "memory operations in the stream send and receive (default)"},
    {"kernel", NULL, &by_kernel, 0, 0, "a kernel sends and receives"},
    {"exchanges", &exchanges, NULL, 1, 1e6, "steps, each with a message both ways"},
    {"kernel-us", &kernel_us, NULL, 0, 1e6,
     "microseconds that the update of a field takes; 0: short"},
    {"wire-us", &wire_us, NULL, 0, 1e6, "microseconds from a doorbell to the message's arrival"},
    {"rdma", NULL, &rdma, 0, 0, "use RDMA: says why that is skipped, exit 77"},
    {"announce", NULL, &announce, 0, 0, "say on stderr when it is warm: after 50 exchanges"},
    {"go-on", &go_on, NULL, 0, 1023,
     "when warm, rank 0 waits for the end of this descriptor; 0: it does not wait"},
    {"json", NULL, &json, 0, 0, "one JSON object on stdout"},
    {0},
};

/* The result of a rank, in memory that it shares with its parent. */
struct outcome {
    bool right, io_memory;
    uint64_t began_ns, ended_ns; /* of what follows the warm-up */
    double issue_us; /* median time of the processor for a step, if it does not wait in the step */
    uint64_t checksum;
};

struct rank {
    int number;
    struct gpu gpu;
    CUfunction exchange; /* kernels.ptx */
    CUstream stream;
    CUevent done[AHEAD];
    struct nic_port *port;
    CUdeviceptr field[2]; /* of this step and of the next one */
    CUdeviceptr doorbell, posted, received, out, in;
    bool io_memory;
};

/* ---- memory that the GPU and the card share -------------------------------------------------- */

/* Registers memory with the driver. Returns a device pointer to it, or 0. */
static CUdeviceptr shared_register(void *at, size_t bytes, unsigned flags)
{
    CUdeviceptr device;

    if (cuMemHostRegister(at, bytes, flags | CU_MEMHOSTREGISTER_DEVICEMAP) != CUDA_SUCCESS)
        return 0;
    CHECK(cuMemHostGetDevicePointer(&device, at, 0));
    return device;
}

static void ports_register(struct rank *r)
{
    struct nic_port *p = r->port;
    size_t bytes = sizeof(p->out) + sizeof(p->in);
    CUdeviceptr words, buffers;

    /* A driver accepts only a device's as I/O memory; these words may be ordinary memory. */
    r->doorbell = shared_register(&p->doorbell, NIC_PAGE, CU_MEMHOSTREGISTER_IOMEMORY);
    r->io_memory = r->doorbell;
    if (!r->doorbell)
        r->doorbell = shared_register(&p->doorbell, NIC_PAGE, 0);
    words = shared_register(&p->words, NIC_PAGE, 0);
    buffers = shared_register(p->out, bytes, 0);
    if (!r->doorbell || !words || !buffers) {
        fprintf(stderr, "async_net: the driver does not register memory that processes share\n");
        exit(EXIT_FAILURE);
    }
    r->posted = words + offsetof(struct nic_port, words.posted) - offsetof(struct nic_port, words);
    r->received =
        words + offsetof(struct nic_port, words.received) - offsetof(struct nic_port, words);
    r->out = buffers;
    r->in = buffers + sizeof(p->out);
}

/* ---- a rank ---------------------------------------------------------------------------------- */

static uint32_t cell_at_first(int rank, uint32_t i)
{
    return (uint32_t)rank * 1000003u + i;
}

static void rank_open(struct rank *r)
{
    uint32_t first[FIELD];
    int devices;

    CHECK(cuInit(0));
    CHECK(cuDeviceGetCount(&devices));
    gpu_open_on(&r->gpu, r->number % devices);
    CHECK(cuModuleGetFunction(&r->exchange, r->gpu.module, "exchange"));
    CHECK(cuStreamCreate(&r->stream, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < AHEAD; i++)
        CHECK(cuEventCreate(&r->done[i], CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
    for (uint32_t i = 0; i < FIELD; i++)
        first[i] = cell_at_first(r->number, i);
    for (int i = 0; i < 2; i++)
        CHECK(cuMemAlloc(&r->field[i], FIELD * sizeof(uint32_t)));
    CHECK(cuMemcpyHtoD(r->field[0], first, sizeof(first)));
    ports_register(r);
}

static void rank_close(struct rank *r)
{
    CHECK(cuMemHostUnregister(r->port->out));
    CHECK(cuMemHostUnregister(&r->port->words));
    CHECK(cuMemHostUnregister(&r->port->doorbell));
    for (int i = 0; i < 2; i++)
        CHECK(cuMemFree(r->field[i]));
    for (int i = 0; i < AHEAD; i++)
        CHECK(cuEventDestroy(r->done[i]));
    CHECK(cuStreamDestroy(r->stream));
    gpu_close(&r->gpu);
}

static CUdeviceptr cell(const struct rank *r, uint64_t step, uint32_t i)
{
    return r->field[step % 2] + i * sizeof(uint32_t);
}

static CUdeviceptr slot(CUdeviceptr buffer, uint64_t step)
{
    return buffer + step % NIC_RING * sizeof(uint32_t[NIC_WORDS]);
}

static void update(struct rank *r, uint64_t k)
{
    gpu_mix(&r->gpu, r->stream, cell(r, k, 0), k, FIELD, (uint64_t)(kernel_us * 1000));
}

/* Updates the field, and copies its last edge into the message. */
static void step_begin(struct rank *r, uint64_t k)
{
    update(r, k);
    gpu_copy(&r->gpu, r->stream, slot(r->out, k), cell(r, k, INNER), EDGE);
    nic_describe(r->port, k, EDGE);
}

/* Moves the rest of the field. This needs no message. */
static void step_inner(struct rank *r, uint64_t k)
{
    gpu_copy(&r->gpu, r->stream, cell(r, k + 1, EDGE), cell(r, k, 0), INNER);
}

static void step_end(struct rank *r, uint64_t k)
{
    gpu_copy(&r->gpu, r->stream, cell(r, k + 1, 0), slot(r->in, k), EDGE);
}

/* ---- the three models ------------------------------------------------------------------------ */

static void step_by_cpu(struct rank *r, uint64_t k)
{
    uint32_t count = (uint32_t)(k + 1);

    step_begin(r, k);
    CHECK(cuStreamSynchronize(r->stream));
    atomic_store_explicit(&r->port->words.posted, count, memory_order_release);
    atomic_store_explicit(&r->port->doorbell, count, memory_order_release);
    step_inner(r, k);
    while ((int32_t)(atomic_load_explicit(&r->port->words.received, memory_order_acquire) - count) <
           0)
        sched_yield();
    step_end(r, k);
}

/* Writes the record, then the doorbell, in one batch. */
static void ring(struct rank *r, uint32_t count)
{
    CUstreamBatchMemOpParams op[2];

    memset(op, 0, sizeof(op));
    op[0].writeValue.operation = op[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    op[0].writeValue.address = r->posted;
    op[1].writeValue.address = r->doorbell;
    op[0].writeValue.value = op[1].writeValue.value = count;
    CHECK(cuStreamBatchMemOp(r->stream, 2, op, 0));
}

static void step_by_stream(struct rank *r, uint64_t k)
{
    uint32_t count = (uint32_t)(k + 1);

    step_begin(r, k);
    ring(r, count);
    step_inner(r, k);
    CHECK(cuStreamWaitValue32(r->stream, r->received, count, CU_STREAM_WAIT_VALUE_GEQ));
    step_end(r, k);
    CHECK(cuEventRecord(r->done[k % AHEAD], r->stream));
}

static void step_by_kernel(struct rank *r, uint64_t k)
{
    CUdeviceptr to = cell(r, k + 1, 0), from = cell(r, k, 0), out = slot(r->out, k);
    CUdeviceptr in = slot(r->in, k);
    uint32_t edge = EDGE, inner = INNER, count = (uint32_t)(k + 1);
    void *args[] = {&to,          &from,        &out,  &in,    &r->posted,
                    &r->doorbell, &r->received, &edge, &inner, &count};

    update(r, k);
    nic_describe(r->port, k, EDGE);
    CHECK(cuLaunchKernel(r->exchange, BLOCKS, 1, 1, EDGE, 1, 1, 0, r->stream, args, NULL));
    CHECK(cuEventRecord(r->done[k % AHEAD], r->stream));
}

/* ---- the expected fields --------------------------------------------------------------------- */

static void expected(int rank, uint64_t steps, uint32_t result[FIELD])
{
    static uint32_t now[2][FIELD], next[2][FIELD];

    for (int r = 0; r < 2; r++)
        for (uint32_t i = 0; i < FIELD; i++)
            now[r][i] = cell_at_first(r, i);
    for (uint64_t k = 0; k < steps; k++) {
        for (int r = 0; r < 2; r++)
            for (uint32_t i = 0; i < FIELD; i++)
                now[r][i] = now[r][i] * mix_a(k) + mix_b(k);
        for (int r = 0; r < 2; r++) {
            memcpy(next[r], now[1 - r] + INNER, EDGE * sizeof(uint32_t));
            memcpy(next[r] + EDGE, now[r], INNER * sizeof(uint32_t));
        }
        memcpy(now, next, sizeof(now));
    }
    memcpy(result, now[rank], sizeof(now[rank]));
}

static void judge(const struct rank *r, struct outcome *out)
{
    static uint32_t is[FIELD], wanted[FIELD];

    CHECK(cuMemcpyDtoH(is, cell(r, (uint64_t)exchanges, 0), sizeof(is)));
    expected(r->number, (uint64_t)exchanges, wanted);
    out->right = memcmp(is, wanted, sizeof(is)) == 0;
    out->checksum = checksum(CHECKSUM_SEED, is, FIELD);
    out->io_memory = r->io_memory;
}

/* Runs after the warm-up, when nothing is in the stream. */
static void rank_warm(const struct rank *r)
{
    char byte;

    if (announce && r->number == 0)
        fprintf(stderr, "exchanging\n");
    while (go_on > 0 && r->number == 0 && read((int)go_on, &byte, 1) > 0)
        ;
}

static void rank_run(struct rank *r, struct outcome *out)
{
    uint64_t *issue_ns = calloc((size_t)exchanges, sizeof(*issue_ns));
    void (*step)(struct rank *, uint64_t) = by_cpu      ? step_by_cpu
                                            : by_kernel ? step_by_kernel
                                                        : step_by_stream;

    rank_open(r);
    out->began_ns = now_ns();
    for (uint64_t k = 0; k < (uint64_t)exchanges; k++) {
        if (k == WARM_UP) {
            CHECK(cuStreamSynchronize(r->stream));
            rank_warm(r);
            out->began_ns = now_ns();
        }
        if (!by_cpu && k >= AHEAD)
            CHECK(cuEventSynchronize(r->done[k % AHEAD]));
        uint64_t from_ns = now_ns();
        step(r, k);
        if (issue_ns)
            issue_ns[k] = now_ns() - from_ns;
    }
    CHECK(cuStreamSynchronize(r->stream));
    out->ended_ns = now_ns();
    judge(r, out);
    if (issue_ns) {
        sort_ns(issue_ns, (size_t)exchanges);
        out->issue_us = percentile_us(issue_ns, (size_t)exchanges, 50);
        free(issue_ns);
    }
    rank_close(r);
}

/* ---- the parent: the card -------------------------------------------------------------------- */

static pid_t ranks[NIC_PORTS];
static int ranks_left;
static bool ranks_failed;

static void rank_ended(pid_t pid, int status)
{
    ranks_left--;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
        ranks_failed = true;
    for (int i = 0; i < NIC_PORTS; i++)
        if (ranks[i] == pid)
            ranks[i] = 0;
}

/* Looks only now and then whether the ranks have ended, because this is a system call. */
static bool ranks_over(void)
{
    static uint64_t look_ns;
    uint64_t now = now_ns();
    int status;

    if (now < look_ns)
        return false;
    look_ns = now + 1000000;
    for (pid_t pid; ranks_left && (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        rank_ended(pid, status);
    if (stopped || ranks_failed)
        for (int i = 0; i < NIC_PORTS; i++)
            if (ranks[i])
                kill(ranks[i], SIGKILL); /* its stream may wait for a message that will not come */
    return ranks_left == 0;
}

/* Runs before any call of CUDA, because each rank is a CUDA process of its own. */
static void ranks_start(struct nic *nic, struct outcome *outcomes)
{
    for (int i = 0; i < NIC_PORTS; i++) {
        static struct rank rank;
        pid_t pid = fork();

        if (pid < 0) {
            perror("async_net: fork");
            exit(EXIT_FAILURE);
        }
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            rank.number = i;
            rank.port = &nic->port[i];
            rank_run(&rank, &outcomes[i]);
            exit(EXIT_SUCCESS);
        }
        ranks[i] = pid;
        ranks_left++;
    }
}

/* Prints times of what the card saw after the warm-up. */
static void times_print(const char *name, uint64_t *late, uint64_t n)
{
    uint64_t skipped = n > WARM_UP ? WARM_UP : 0;

    late += skipped;
    n -= skipped;

    sort_ns(late, n);
    printf(json ? ", \"%s_p50_us\": %.1f, \"%s_p99_us\": %.1f, \"%s_max_us\": %.1f"
                : ", %s p50 %.1f, %s p99 %.1f, %s max %.1f us",
           name, percentile_us(late, n, 50), name, percentile_us(late, n, 99), name,
           percentile_us(late, n, 100));
}

static bool report(const struct outcome *o, const struct nic_seen *seen)
{
    uint64_t all = (uint64_t)exchanges, counted = all > WARM_UP ? all - WARM_UP : all;
    bool right = o[0].right && o[1].right && !seen->disorder && seen->messages[0] == all &&
                 seen->messages[1] == all;
    double us = (double)(o[0].ended_ns - o[0].began_ns) / 1000.0 / (double)counted;

    const char *model = by_cpu ? "cpu" : by_kernel ? "kernel" : "stream";
    const char *bell = o[0].io_memory ? "iomemory" : "host";
    printf(json
               ? "{\"model\": \"%s\", \"exchanges\": %llu, \"result\": \"%s\", "
                 "\"disorder\": %llu, \"doorbell\": \"%s\", \"us_per_exchange\": %.2f, "
                 "\"issue_us\": %.2f, \"checksum\": \"%016llx\""
               : "%s: %llu exchanges, result %s, disorder %llu, doorbell %s, %.2f us per exchange, "
                 "%.2f us to issue one, checksum %016llx",
           model, (unsigned long long)all, right ? "right" : "WRONG",
           (unsigned long long)seen->disorder, bell, us, o[0].issue_us,
           (unsigned long long)(o[0].checksum ^ o[1].checksum));
    times_print("gap", seen->gap_ns, all);
    times_print("rank0_late", seen->late_ns[0], all);
    times_print("rank1_late", seen->late_ns[1], all);
    puts(json ? "}" : "");
    return right;
}

static void options_check(void)
{
    if (by_cpu + by_stream + by_kernel > 1) {
        fprintf(stderr, "async_net: --cpu, --stream and --kernel exclude each other\n");
        exit(2);
    }
    if (rdma) {
        const char *why = access("/sys/class/infiniband", F_OK) == 0
                              ? "this program has no transport for it yet"
                              : "this machine has no RDMA device, not even rxe or siw";
        printf("rdma: skipped: %s\n", why);
        exit(SKIPPED);
    }
}

int main(int argc, char **argv)
{
    static struct nic_seen seen; /* lasts as long as the process, so it is never freed */
    struct outcome *outcomes;
    struct nic *nic = nic_new();

    settings_read(settings, argc, argv, "Two processes exchange data; their GPUs ring and wait.");
    options_check();
    stop_on_signals();
    outcomes = mmap(NULL, NIC_PORTS * sizeof(*outcomes), PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    seen.most = (uint64_t)exchanges;
    seen.gap_ns = calloc(seen.most, sizeof(uint64_t));
    for (int i = 0; i < NIC_PORTS; i++)
        seen.late_ns[i] = calloc(seen.most, sizeof(uint64_t));
    if (!nic || outcomes == MAP_FAILED || !seen.gap_ns || !seen.late_ns[0] || !seen.late_ns[1]) {
        fprintf(stderr, "async_net: no memory\n");
        return EXIT_FAILURE;
    }
    ranks_start(nic, outcomes);
    nic_run(nic, (uint64_t)(wire_us * 1000), ranks_over, &seen);
    if (ranks_failed) {
        fprintf(stderr, "async_net: a rank failed\n");
        return EXIT_FAILURE;
    }
    return report(outcomes, &seen) ? EXIT_SUCCESS : EXIT_FAILURE;
}
