/*
 * resident.c - resident kernels through the driver: they react to words that the test writes.
 */
#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

TestSuite(resident, .init = sim_open, .fini = sim_close);

enum { N = 1000, A = 3, B = 1, LINES = 64 };

static uint32_t *word;
static CUfunction await_mix;

/* A word that the device polls. */
static void word_make(void)
{
    CHECK(cuMemHostAlloc((void **)&word, sizeof(*word), CU_MEMHOSTALLOC_DEVICEMAP));
    *word = 0;
    CHECK(cuModuleGetFunction(&await_mix, sim.module, "await_mix"));
}

static void word_write(uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static CUdeviceptr zeroes(void)
{
    CUdeviceptr x;
    CHECK(cuMemAlloc(&x, N * sizeof(uint32_t)));
    CHECK(cuMemsetD32(x, 0, N));
    CHECK(cuCtxSynchronize());
    return x;
}

static CUstream stream_make(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static void launch_await(CUstream s, unsigned int blocks, CUdeviceptr x, uint32_t rounds)
{
    uint32_t a = A, b = B, n = N;
    void *params[] = {&x, &a, &b, &n, &word, &rounds};
    CHECK(cuLaunchKernel(await_mix, blocks, 1, 1, 1024, 1, 1, 0, s, params, NULL));
}

/* The value of x after this many rounds. */
static uint32_t mixed(uint32_t rounds)
{
    uint32_t x = 0;
    while (rounds--)
        x = x * A + B;
    return x;
}

/* The copy does not wait for the kernel: its stream is not ordered with the default stream. */
static uint32_t first(CUdeviceptr x)
{
    uint32_t word;
    CHECK(cuMemcpyDtoH(&word, x, sizeof(word)));
    return word;
}

static bool has_mixed(void *x)
{
    return first((CUdeviceptr)(uintptr_t)x) >= mixed(1);
}

static struct log_line line_of(const char *kernel)
{
    struct log_line lines[LINES];
    size_t n = log_read(lines, LINES);
    while (n > 0 && strcmp(lines[n - 1].name, kernel) != 0)
        n--;
    cr_assert_neq(n, 0, "the log has no kernel %s", kernel);
    return lines[n - 1];
}

Test(resident, each_round_waits_for_the_word_and_shows_its_result)
{
    word_make();
    CUdeviceptr x = zeroes();
    CUstream s = stream_make();
    launch_await(s, 1, x, 3);
    EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cr_expect_eq(first(x), 0);
    word_write(1);
    cr_assert(wait_until(has_mixed, (void *)(uintptr_t)x));
    cr_expect_eq(first(x), mixed(1));
    EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    word_write(3);
    CHECK(cuStreamSynchronize(s));
    cr_expect_eq(first(x), mixed(3));
    struct log_line line = line_of("await_mix");
    cr_expect_eq(line.ran, 1);
    /* It is more if the engine's thread woke late and the device's clock had gone on. */
    cr_expect_geq(line.end - line.start, line.cost);
    cr_expect_gt(line.cost, 0);
}

Test(resident, next_kernel_in_stream_waits_for_its_end)
{
    word_make();
    CUdeviceptr x = zeroes();
    CUstream s = stream_make();
    launch_await(s, 1, x, 2);
    launch_mix(s, x, 5, 0, N);
    word_write(1);
    cr_assert(wait_until(has_mixed, (void *)(uintptr_t)x));
    word_write(2);
    CHECK(cuStreamSynchronize(s));
    cr_expect_eq(first(x), mixed(2) * 5);
    cr_expect_geq(line_of("mix").start, line_of("await_mix").end);
}

/* The waiting kernel keeps its SMs: a kernel that needs one of them does not start, and one that
 * fits beside it does. */
Test(resident, waiting_kernel_keeps_its_sms)
{
    word_make();
    CUdeviceptr x = zeroes();
    CUstream s = stream_make(), beside = stream_make(), behind = stream_make();
    launch_await(s, 150, x, 1); /* two such blocks fit on one of the 108 SMs */
    launch_spin(beside, 2, 10 * US);
    CHECK(cuStreamSynchronize(beside));
    launch_spin(behind, 216, 10 * US);
    EXPECT(cuStreamQuery(behind), CUDA_ERROR_NOT_READY);
    word_write(1);
    CHECK(cuStreamSynchronize(behind));
    cr_expect_geq(line_of("spin").start, line_of("await_mix").end);
}

Test(resident, graph_node_runs_again_at_each_launch)
{
    word_make();
    CUdeviceptr x = zeroes();
    CUstream s = stream_make();
    CUgraph graph;
    CUgraphExec exec;
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    launch_await(s, 1, x, 2);
    CHECK(cuStreamEndCapture(s, &graph));
    CHECK(cuGraphInstantiate(&exec, graph, 0));
    for (uint32_t launch = 1; launch <= 2; launch++) {
        word_write(0);
        CHECK(cuGraphLaunch(exec, s));
        EXPECT(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
        word_write(2);
        CHECK(cuStreamSynchronize(s));
        cr_expect_eq(first(x), mixed(2 * launch));
    }
}

Test(resident, invalid_address_fails_the_context)
{
    word_make();
    launch_await(NULL, 1, 0x1000, 1);
    word_write(1);
    EXPECT(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect_eq(line_of("await_mix").ran, 1);
}

Test(resident, fault_of_another_kernel_ends_a_waiting_kernel)
{
    word_make();
    CUdeviceptr x = zeroes();
    CUstream s = stream_make(), other = stream_make();
    launch_await(s, 1, x, 1);
    launch_mix(other, 0x1000, A, B, N);
    EXPECT(cuStreamSynchronize(s), CUDA_ERROR_ILLEGAL_ADDRESS);
    cr_expect_eq(*(uint32_t *)(uintptr_t)x, 0); /* simulated device memory is host memory */
}

TestSuite(otherwise, .fini = sim_close);

enum { POSTED, DOORBELL, RECEIVED, IN, ROUNDS = 10 };

static _Atomic uint32_t *shared;
static uint32_t turn;

static bool has_rung(void *unused)
{
    (void)unused;
    return atomic_load(&shared[DOORBELL]) == turn;
}

/* Answers a ring, and never before it. */
static void *answer(void *unused)
{
    (void)unused;
    for (turn = 1; turn <= ROUNDS; turn++) {
        cr_assert(wait_until(has_rung, NULL));
        atomic_store(&shared[IN], turn);
        atomic_store(&shared[RECEIVED], turn);
    }
    return NULL;
}

/* The kernel rings, and takes in what it got when it is answered. */
Test(otherwise, null_mode_launch_waits_for_its_resident_kernel)
{
    setenv("SIMGPU_NULL", "1", 1);
    sim_open();
    CUfunction exchange;
    CUdeviceptr at, to = zeroes();
    shared = host_words(&at);
    CHECK(cuModuleGetFunction(&exchange, sim.module, "exchange"));
    CUdeviceptr from = to + 8, out = to + 16, in = at + 4 * IN, posted = at + 4 * POSTED,
                doorbell = at + 4 * DOORBELL, received = at + 4 * RECEIVED;
    uint32_t edge = 1, inner = 1, count;
    void *params[] = {&to, &from, &out, &in, &posted, &doorbell, &received, &edge, &inner, &count};
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, answer, NULL), 0);
    for (count = 1; count <= ROUNDS; count++) {
        CHECK(cuLaunchKernel(exchange, 2, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
        cr_assert_eq(first(to), count, "the call returned before the answer");
    }
    pthread_join(thread, NULL);
}

Test(otherwise, hundredfold_speed_keeps_resident_kernels_result)
{
    setenv("SIMGPU_SPEED", "100", 1);
    sim_open();
    word_make();
    CUdeviceptr x = zeroes();
    word_write(50);
    launch_await(NULL, 1, x, 50);
    CHECK(cuCtxSynchronize());
    cr_expect_eq(first(x), mixed(50));
    cr_expect_lt(line_of("await_mix").cost, 50 * 3 * US / 10);
}
