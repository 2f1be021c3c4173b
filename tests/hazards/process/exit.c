/*
 * exit.c - ways to end with work buffered: by return, exit, _exit, a signal, from another thread,
 * with threads alive, from destructors. The status is the program's own, and the program does end.
 */
#include "tests/hazards/hazard.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "shim/cutin.h"

static CUstream s;
static CUdeviceptr x;

static void busy(void)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold(s);
    for (uint32_t i = 0; i < 10; i++) /* fewer than any queue takes */
        MUST(launch_mix(x, 5, i, s));
}

/* Never released. If nothing is buffered the launches themselves would wait. */
static void busy_for_ever(void)
{
    hold_for(3600 * 1000);
    busy();
}

/* Tells compare.c that the end that follows is intended. */
static void announce(void)
{
    printf("it ends\n");
    fflush(stdout);
}

HAZARD(exit_keeps_its_status_with_work_buffered)
{
    busy();
    announce();
    exit(3);
}

/* The stream is held until the end: the wait for it is bounded. */
HAZARD(exit_ends_the_process_with_work_held_for_ever)
{
    busy_for_ever();
    buffered(s);
    announce();
    exit(4);
}

/* How long a child takes to end, from its exit(), with work held in each of its contexts. */
static uint64_t end_with_contexts(int contexts)
{
    enum { MOST = 16 };
    struct {
        CUcontext context;
        CUstream stream;
        CUfunction mix;
        CUdeviceptr x;
    } c[MOST];
    _Atomic uint64_t *started =
        mmap(NULL, sizeof(*started), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid != 0) {
        waitpid(pid, &status, 0);
        uint64_t took = clock_ns() - *started;
        printf("status %d\n", status);
        munmap((void *)started, sizeof(*started));
        return took;
    }
    gpu_open();
    char *text = kernels_text();
    for (int i = 0; i < contexts; i++) { /* before the holds, as a free waits for held work */
        c[i].context = context_new();
        MUST(cuModuleLoadData(&module, text));
        MUST(cuModuleGetFunction(&mix, module, "mix"));
        MUST(cuModuleGetFunction(&mix_spin, module, "mix_spin"));
        c[i].stream = stream_new(CU_STREAM_NON_BLOCKING);
        c[i].mix = mix;
        c[i].x = buffer_new(3);
        warm(c[i].stream);
    }
    hold_for(3600 * 1000);
    for (int i = 0; i < contexts; i++) {
        mix = c[i].mix;
        MUST(cuCtxSetCurrent(c[i].context));
        hold(c[i].stream);
        MUST(launch_mix(c[i].x, 5, 7, c[i].stream));
    }
    *started = clock_ns();
    exit(7);
}

/* All contexts share one bound of 2 s: with one each, the end of 16 would take 32 s. */
HAZARD_RAW(exit_takes_no_longer_with_work_held_in_many_contexts)
{
    uint64_t one = end_with_contexts(1);
    uint64_t many = end_with_contexts(16);
    printf("16 contexts end %s\n",
           many <= 4 * one + UINT64_C(10000) * NS_PER_MS ? "about as fast as one" : "one by one");
}

HAZARD(immediate_exit_keeps_its_status_with_work_buffered)
{
    busy_for_ever();
    announce();
    _exit(5);
}

HAZARD(quick_exit_keeps_its_status_with_work_buffered)
{
    busy_for_ever();
    announce();
    quick_exit(6);
}

HAZARD(abort_ends_the_process_with_work_buffered)
{
    busy();
    announce();
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void exit_now(void *user)
{
    exit(8);
}

HAZARD(exit_in_another_thread_ends_the_process)
{
    busy();
    announce();
    thread_start(exit_now, NULL);
    for (;;)
        cuStreamSynchronize(s);
}

static void wait_for_ever(void *user)
{
    for (;;)
        cuStreamSynchronize(s);
}

static void launch_for_ever(void *user)
{
    for (;;)
        launch_mix(x, 1, 0, s);
}

HAZARD(exit_ends_the_process_while_threads_launch_and_wait)
{
    busy();
    thread_start(wait_for_ever, NULL);
    thread_start(launch_for_ever, NULL);
    thread_start(launch_for_ever, NULL);
    for (int i = 0; i < 10; i++)
        nap();
    announce();
    exit(9);
}

static void release_later(void *user)
{
    for (int i = 0; i < 5; i++)
        nap();
    release(s);
    SAY(cuStreamSynchronize(s));
    announce();
    exit(14); /* the driver's threads go on, as they do natively */
}

HAZARD(another_thread_goes_on_after_the_main_thread_ends)
{
    busy();
    thread_start(release_later, NULL);
    pthread_exit(NULL);
}

static void exit_in_stream(void *user)
{
    _exit(10);
}

HAZARD(exit_in_a_host_function_ends_the_process)
{
    busy();
    announce();
    cuLaunchHostFunc(s, exit_in_stream, NULL);
    cuStreamSynchronize(s);
    for (;;)
        nap();
}

/* ---- work at the end ------------------------------------------------------------------------- */

/* The results are in memory that outlives the process. */
HAZARD_RAW(work_synchronised_before_exit_is_complete)
{
    uint32_t *shared = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        gpu_open();
        busy();
        MUST(cuMemHostRegister(shared, BYTES, 0));
        MUST(cuMemcpyDtoHAsync(shared, x, BYTES, s));
        release(s);
        SAY(cuStreamSynchronize(s)); /* natively the end does not wait for the device */
        exit(0);
    }
    waitpid(pid, &status, 0);
    printf("status %d\n", status);
    show_host("after the exit", shared);
}

static void exit_handler(void)
{
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamSynchronize(s));
    show("x", x);
    SAY(cuMemFree(x));
    SAY(cuStreamDestroy(s));
    SAY(cuModuleUnload(module));
    SAY(cuDevicePrimaryCtxRelease(device));
    announce();
}

HAZARD(exit_handler_of_the_program_calls_cuda)
{
    atexit(exit_handler);
    busy();
    exit(11);
}

/* Registered before the first CUDA call, it runs after the handlers of the driver and of cutin. */
HAZARD_RAW(exit_handler_registered_before_init_calls_cuda)
{
    atexit(exit_handler);
    gpu_open();
    busy();
    exit(12);
}

static bool at_the_end;

__attribute__((destructor)) static void destructor(void)
{
    if (at_the_end)
        exit_handler();
}

HAZARD(static_destructor_calls_cuda)
{
    at_the_end = true;
    busy();
    exit(13);
}
