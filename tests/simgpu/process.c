/*
 * process.c - several processes on one simulated device, and what configuration does to it. The
 * device event log says what happened, in modelled time.
 */
#include "sim.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child must do: it ends if it does not. Criterion's assertions are for its own processes; a
 * forked child that fails one hangs. */
#undef CHECK
#undef EXPECT
#define CHECK(call)          EXPECT(call, CUDA_SUCCESS)
#define EXPECT(call, result) must_eq((int)(call), (int)(result), #call)

static void must_eq(int is, int wanted, const char *what)
{
    if (is == wanted)
        return;
    fprintf(stderr, "%s: %d, not %d\n", what, is, wanted);
    _exit(1);
}

/* This process makes no CUDA call before the forks. */
TestSuite(process, .init = sim_name, .fini = sim_close);

enum { LINES = 20000 };
static struct log_line lines[LINES];

static pid_t child(void (*act)(void))
{
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        sim_join();
        act();
        exit(0);
    }
    return pid;
}

static void finish(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        cr_assert_eq(errno, EINTR);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
}

/* Two children meet here, so that both have work at the same time. They go on until the second word
 * is 1. */
static _Atomic int *meeting;

static void meet(void)
{
    atomic_fetch_add(meeting, 1);
    while (atomic_load(meeting) % 2)
        sched_yield();
}

enum { MANY = 300 };

static void many_kernels(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    meet();
    for (int round = 0; round == 0 || (round < 200 && !atomic_load(&meeting[1])); round++) {
        for (int i = 0; i < MANY; i++)
            launch_spin(s, 1000, 300 * US);
        CHECK(cuStreamSynchronize(s));
    }
}

/* Returns how long kernels of the log took beyond their cost; `busy` gets the sum of costs. */
static uint64_t stretched(uint64_t *busy, uint64_t *span)
{
    size_t n = log_read(lines, LINES);
    uint64_t stretch = 0, first = UINT64_MAX, last = 0;
    *busy = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(lines[i].name, "spin") != 0)
            continue;
        cr_expect_geq(lines[i].end - lines[i].start, lines[i].cost);
        *busy += lines[i].cost;
        stretch += lines[i].end - lines[i].start - lines[i].cost;
        first = lines[i].start < first ? lines[i].start : first;
        last = lines[i].end > last ? lines[i].end : last;
    }
    *span = last > first ? last - first : 0;
    return stretch;
}

/* While both have work, each has the device for its slices. Kernels of the two never run at the
 * same time, so all of them together take at least the sum of their costs. */
Test(process, processes_take_turns_on_the_gpu_in_slices)
{
    meeting =
        mmap(NULL, sizeof(*meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(meeting, MAP_FAILED);
    pid_t a = child(many_kernels), b = child(many_kernels);
    uint64_t busy = 0, span = 0;
    for (int naps = 0; naps < 1000 && stretched(&busy, &span) == 0; naps++)
        usleep(20000);
    atomic_store(&meeting[1], 1);
    finish(a);
    finish(b);
    cr_expect_gt(stretched(&busy, &span), 0, "kernels were paused at the ends of slices");
    cr_expect_eq(busy % (MANY * 300ull * US), 0);
    cr_expect_geq(span, busy, "one context at a time");
}

enum { EACH = 40 };

static void kernels_of_a_stream_each(void)
{
    CUstream s[2];
    _Atomic uint32_t *word;
    CUdeviceptr at;
    CUevent begin; /* so that both begin at once, whenever the word is seen */
    CHECK(cuEventCreate(&begin, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemHostAlloc((void **)&word, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    CHECK(cuMemHostGetDevicePointer(&at, (void *)word, 0));
    *word = 0;
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32(s[0], at, 1, CU_STREAM_WAIT_VALUE_EQ));
    CHECK(cuEventRecord(begin, s[0]));
    CHECK(cuStreamWaitEvent(s[1], begin, 0));
    for (int k = 0; k < EACH; k++)
        for (int i = 0; i < 2; i++)
            launch_spin(s[i], 100, 500 * US); /* 50 SMs */
    *word = 1;                                /* all are submitted now, however late this is */
    CHECK(cuCtxSynchronize());
}

Test(process, kernels_of_two_streams_run_side_by_side)
{
    finish(child(kernels_of_a_stream_each));
    size_t n = log_read(lines, LINES);
    unsigned int overlaps = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            overlaps += !strcmp(lines[i].name, "spin") && !strcmp(lines[j].name, "spin") &&
                        lines[i].stream != lines[j].stream && lines[i].start < lines[j].end &&
                        lines[j].start < lines[i].end;
    cr_expect_geq(overlaps, 15);
}

static void urgent_and_not(void)
{
    CUstream low, high;
    CHECK(cuStreamCreateWithPriority(&low, CU_STREAM_NON_BLOCKING, 0));
    CHECK(cuStreamCreateWithPriority(&high, CU_STREAM_NON_BLOCKING, -5));
    for (int k = 0; k < 20; k++)
        launch_spin(low, 1000, 1000 * US);
    for (int k = 0; k < 5; k++)
        launch_spin(high, 1000, 1000 * US);
    CHECK(cuCtxSynchronize());
}

static bool is_spin(const struct log_line *l)
{
    return strcmp(l->name, "spin") == 0;
}

/* Counts the kernels of other streams that began while `l` was ready: it was submitted, and its
 * stream's earlier kernels had ended. */
static unsigned int went_first(const struct log_line *l, size_t n)
{
    uint64_t ready = l->submit;
    unsigned int first = 0;
    for (size_t i = 0; i < n; i++)
        if (is_spin(&lines[i]) && lines[i].stream == l->stream && lines[i].seq < l->seq &&
            lines[i].end > ready)
            ready = lines[i].end;
    for (size_t i = 0; i < n; i++)
        first += is_spin(&lines[i]) && lines[i].stream != l->stream && lines[i].start > ready &&
                 lines[i].start < l->start;
    return first;
}

Test(process, high_priority_kernels_overtake_waiting_low_ones)
{
    finish(child(urgent_and_not));
    size_t n = log_read(lines, LINES);
    unsigned int high = 0, low_before = 0;
    for (size_t i = 0; i < n; i++) {
        if (!is_spin(&lines[i]) || lines[i].stream == lines[0].stream)
            continue;
        high++;
        low_before += went_first(&lines[i], n);
    }
    cr_expect_eq(high, 5);
    cr_expect_eq(low_before, 0, "%u less urgent kernels went first", low_before);
}

static void one_short_kernel(void)
{
    launch_spin(NULL, 1, 10 * US);
    CHECK(cuCtxSynchronize());
}

static void die_busy(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (int i = 0; i < 500; i++)
        launch_spin(s, 1000, 1000000 * US);
    raise(SIGKILL);
}

Test(process, killed_process_releases_the_device)
{
    pid_t doomed = child(die_busy);
    int status;
    waitpid(doomed, &status, 0);
    cr_assert(WIFSIGNALED(status));
    finish(child(one_short_kernel));
}

static void die_anywhere(void)
{
    CUstream s;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (;;)
        launch_spin(s, 1000, 10 * US);
}

Test(process, process_killed_at_random_does_not_disturb_others)
{
    enum { ROUNDS = 10 };
    for (int i = 0; i < ROUNDS; i++) {
        pid_t victim = child(die_anywhere), other = child(one_short_kernel);
        usleep(20000u + (unsigned)i * 1100u);
        kill(victim, SIGKILL);
        waitpid(victim, NULL, 0);
        finish(other);
    }
    finish(child(one_short_kernel));
}

static void exit_with_work_pending(void)
{
    launch_spin(NULL, 1, 3600000000ull * US);
}

Test(process, exit_does_not_wait_for_the_device)
{
    finish(child(exit_with_work_pending));
    finish(child(one_short_kernel));
}

static void wait_for_a_word(void)
{
    void *p;
    CUdeviceptr at;
    CUstream s;
    CHECK(cuMemHostAlloc(&p, 64, 0));
    CHECK(cuMemHostGetDevicePointer(&at, p, 0));
    memset(p, 0, 64);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitValue32(s, at, 1, CU_STREAM_WAIT_VALUE_EQ));
    launch_spin(s, 1000, 100 * US);
    pid_t other = fork();
    if (other == 0) { /* a child of a process with a driver has none, and would have to exec */
        EXPECT(cuCtxSynchronize(), CUDA_ERROR_NOT_INITIALIZED);
        EXPECT(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
        _exit(0);
    }
    finish(other);
    __atomic_store_n((uint32_t *)p, 1, __ATOMIC_RELEASE);
    CHECK(cuStreamSynchronize(s));
}

Test(process, forked_child_has_no_driver_and_spares_its_parent)
{
    finish(child(wait_for_a_word));
}

static void faulty(void)
{
    launch_spin(NULL, 1, 10 * US);
    CHECK(cuCtxSynchronize());
    launch_spin(NULL, 1, 10 * US);
    EXPECT(cuCtxSynchronize(), (CUresult)719);
}

Test(process, fault_variable_fails_the_nth_kernel)
{
    setenv("SIMGPU_FAULT", "kernel=spin:nth=2:error=719", 1);
    finish(child(faulty));
    unsetenv("SIMGPU_FAULT");
}

static void null_mode(void)
{
    CUdeviceptr x;
    uint32_t v[64];
    CUevent e;
    CHECK(cuEventCreate(&e, 0));
    CHECK(cuMemAlloc(&x, sizeof(v)));
    CHECK(cuMemsetD32(x, 1, 64));
    for (int i = 0; i < 5000; i++)
        launch_mix(NULL, x, 3, 1, 64);
    CHECK(cuEventRecord(e, NULL));
    CHECK(cuEventQuery(e));
    CHECK(cuMemcpyDtoH(v, x, sizeof(v)));
    uint32_t expected = 1;
    for (int i = 0; i < 5000; i++)
        expected = expected * 3 + 1;
    must_eq((int)v[63], (int)expected, "mixed");
}

Test(process, null_mode_completes_work_within_the_call)
{
    setenv("SIMGPU_NULL", "1", 1);
    finish(child(null_mode));
    unsetenv("SIMGPU_NULL");
}

static void no_data(void)
{
    uint32_t word = 7, back = 8;
    CUdeviceptr x, y;
    CHECK(cuMemAlloc(&x, sizeof(word)));
    CHECK(cuMemAlloc(&y, sizeof(word)));
    CHECK(cuMemsetD32(x, 9, 1));
    CHECK(cuMemsetD32(y, 10, 1));
    CHECK(cuMemcpyHtoD(x, &word, sizeof(word)));
    CHECK(cuMemcpyDtoH(&back, x, sizeof(back)));
    CHECK(cuMemcpyDtoD(y, x, sizeof(word)));
    CHECK(cuCtxSynchronize());
    must_eq((int)back, 8, "copied to the host");
    /* Simulated device memory is host memory. */
    must_eq(*(int *)(uintptr_t)x, 9, "copied to the device");
    must_eq(*(int *)(uintptr_t)y, 10, "copied within it");
    EXPECT(cuMemcpyDtoH(&back, 64, sizeof(back)), CUDA_ERROR_INVALID_VALUE);
}

Test(process, data_off_makes_copies_move_nothing)
{
    setenv("SIMGPU_DATA", "0", 1);
    finish(child(no_data));
    unsetenv("SIMGPU_DATA");
}

static void no_memops(void)
{
    CUdeviceptr x;
    CHECK(cuMemAlloc(&x, 64));
    EXPECT(cuStreamWriteValue32(NULL, x, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
}

Test(process, memops_off_makes_write_value_unsupported)
{
    setenv("SIMGPU_MEMOPS", "0", 1);
    finish(child(no_memops));
    unsetenv("SIMGPU_MEMOPS");
}
