/*
 * signals.c - default actions stay, handlers run in the program's own threads, waits go on after a
 * handler, and a handler's backtrace leads to main.
 */
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static CUstream s;
static CUdeviceptr x;

static void busy(void)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    hold(s);
    for (uint32_t i = 0; i < 20; i++)
        MUST(launch_mix(x, 5, i, s));
}

static void sent_to_the_process(int signal_)
{
    pid_t me = getpid(), pid;
    signal(signal_, SIG_DFL); /* the parent may have ignored it, as nohup does */
    busy();
    printf("it ends\n");
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        kill(me, signal_);
        _exit(0);
    }
    cuStreamSynchronize(s);
    for (;;)
        nap();
}

HAZARD(sigint_ends_the_program)
{
    sent_to_the_process(SIGINT);
}
HAZARD(sigterm_ends_the_program)
{
    sent_to_the_process(SIGTERM);
}
HAZARD(sighup_ends_the_program)
{
    sent_to_the_process(SIGHUP);
}
HAZARD(sigusr1_ends_the_program)
{
    sent_to_the_process(SIGUSR1);
}

HAZARD(sigpipe_from_its_own_write_ends_the_program)
{
    int fds[2];
    signal(SIGPIPE, SIG_DFL);
    busy();
    release(s);
    SAY(cuStreamSynchronize(s));
    if (pipe(fds))
        give_up("pipe");
    close(fds[0]);
    printf("it ends\n");
    fflush(stdout);
    if (write(fds[1], "x", 1) < 0)
        _exit(1);
}

/* ---- handlers -------------------------------------------------------------------------------- */

static _Atomic int elsewhere, seen;
static pthread_t program_thread;

static void note_thread(int signal_)
{
    if (!pthread_equal(pthread_self(), program_thread))
        atomic_fetch_add(&elsewhere, 1);
    atomic_fetch_add(&seen, 1);
}

/* While every thread of the program blocks the signal, a handler that runs does so in a thread of
 * the library or the driver. */
HAZARD_RAW(handlers_run_in_the_programs_threads_only)
{
    sigset_t set;
    signal(SIGUSR1, note_thread);
    program_thread = pthread_self();
    sigemptyset(&set);
    gpu_open();
    busy();
    release(s);
    SAY(cuStreamSynchronize(s));
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 50; i++) {
        kill(getpid(), SIGUSR1);
        MUST(launch_mix(x, 3, 1, s));
        MUST(cuStreamSynchronize(s));
    }
    printf("seen while blocked %d\n", atomic_load(&seen));
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    printf("seen %d, elsewhere %d\n", atomic_load(&seen), atomic_load(&elsewhere));
}

static pthread_t waiter;
static _Atomic bool interrupting;

static void *interrupt(void *arg)
{
    while (atomic_load(&interrupting)) {
        pthread_kill(waiter, SIGUSR1);
        nap();
    }
    return NULL;
}

static void interrupted_waits(int flags)
{
    struct sigaction action = {.sa_handler = note_thread, .sa_flags = flags};
    pthread_t t;
    sigaction(SIGUSR1, &action, NULL);
    program_thread = waiter = pthread_self();
    atomic_store(&interrupting, true);
    pthread_create(&t, NULL, interrupt, NULL);
    for (int i = 0; i < 3; i++) {
        hold(s);
        MUST(launch_slow(x, 3, 1, 2000, s));
        SAY(cuStreamSynchronize(s));
        release(s);
        SAY(cuStreamQuery(s));
        hold(s);
        MUST(launch_mix(x, 3, 1, s));
        SAY(cuMemFree(buffer_new(1)));
        SAY(cuCtxSynchronize());
        release(s);
    }
    UNTIL(atomic_load(&seen) > 0);
    atomic_store(&interrupting, false);
    pthread_join(t, NULL);
    printf("elsewhere %d\n", atomic_load(&elsewhere));
    show("x", x);
}

HAZARD(handlers_interrupt_no_wait)
{
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    interrupted_waits(0);
    interrupted_waits(SA_RESTART);
}

/* ---- backtraces ------------------------------------------------------------------------------ */

static _Atomic int depth_ok;

/* Finds out whether the backtrace leads to the hazard's function. */
static const void *outermost_begin, *outermost_end;

static void look_back(int signal_)
{
    void *frames[64];
    int n = backtrace(frames, 64);
    for (int i = 0; i < n; i++)
        if (frames[i] >= outermost_begin && frames[i] < outermost_end)
            atomic_store(&depth_ok, 1);
}

static void *signal_soon(void *arg)
{
    for (int i = 0; i < 10; i++)
        nap();
    pthread_kill(waiter, SIGUSR1);
    return NULL;
}

/* A handler runs while the thread waits in the call. */
#define LOOK_BACK_FROM(call)                                                                       \
    do {                                                                                           \
        pthread_t look_t;                                                                          \
        atomic_store(&depth_ok, 0);                                                                \
        hold(s);                                                                                   \
        MUST(launch_slow(x, 3, 1, 20000, s));                                                      \
        pthread_create(&look_t, NULL, signal_soon, NULL);                                          \
        SAY(call);                                                                                 \
        pthread_join(look_t, NULL);                                                                \
        release(s);                                                                                \
        MUST(cuStreamSynchronize(s));                                                              \
        printf("from " #call ": %d\n", atomic_load(&depth_ok));                                    \
    } while (0)

__attribute__((noinline)) static void backtraces(void)
{
    CUdeviceptr p = buffer_new(1);
    hold_ms = 40;
    LOOK_BACK_FROM(cuStreamSynchronize(s));
    LOOK_BACK_FROM(cuCtxSynchronize());
    LOOK_BACK_FROM(cuMemFree(p));                                       /* by a drain thunk */
    LOOK_BACK_FROM(cuFuncSetCacheConfig(mix, CU_FUNC_CACHE_PREFER_L1)); /* by another */
    LOOK_BACK_FROM(cuModuleUnload(module));
}
static void after_backtraces(void)
{
}

static void first_backtrace(void)
{
    void *frames[4];
    backtrace(frames, 4); /* loads libgcc before a handler needs it */
}

HAZARD(backtrace_of_a_handler_leads_through_waiting_calls)
{
    struct sigaction action = {.sa_handler = look_back, .sa_flags = SA_RESTART};
    Dl_info info;
    s = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(s);
    first_backtrace();
    sigaction(SIGUSR1, &action, NULL);
    waiter = pthread_self();
    outermost_begin = (const void *)backtraces;
    outermost_end = (const char *)outermost_begin + 4096;
    (void)info;
    after_backtraces();
    backtraces();
}

static void crashed(int signal_)
{
    look_back(signal_);
    printf("crash seen, backtrace leads to its function: %d\nit ends\n", atomic_load(&depth_ok));
    fflush(stdout);
    signal(SIGSEGV, SIG_DFL);
}

__attribute__((noinline)) static void crash_in_a_call(int how)
{
    if (how == 0)
        cuMemcpyHtoD(x, (const void *)8, BYTES); /* the driver reads the source in this thread */
    else if (how == 1)
        cuMemGetInfo((size_t *)8, (size_t *)16);
    else
        cuStreamGetFlags(s, (unsigned int *)8);
    printf("not crashed\n");
}

static void crash(int how)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof(stack)};
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_ONSTACK};
    busy();
    first_backtrace();
    sigaltstack(&alternate, NULL);
    sigaction(SIGSEGV, &action, NULL);
    outermost_begin = (const void *)crash_in_a_call;
    outermost_end = (const char *)outermost_begin + 512;
    crash_in_a_call(how);
}

HAZARD(crash_in_a_synchronous_copy_has_a_whole_backtrace)
{
    crash(0);
}
HAZARD(crash_in_a_passed_through_call_has_a_whole_backtrace)
{
    crash(1);
}
HAZARD(crash_in_a_query_has_a_whole_backtrace)
{
    crash(2);
}
