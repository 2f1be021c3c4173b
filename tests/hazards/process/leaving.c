/*
 * leaving.c - a thread leaves a call that waits without returning from it. Either it is cancelled
 * while it is inside: the driver's calls are no cancellation points, and neither may those be that
 * wait in cutin instead. Or a signal handler jumps out of the call.
 */
#include "tests/hazards/hazard.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <ucontext.h>
#include <unistd.h>

static CUstream s;
static CUdeviceptr x, y;
static CUevent event;
static atomic_bool inside;
static CUresult answer;

static CUresult synchronise_stream(void)
{
    return cuStreamSynchronize(s);
}

static CUresult synchronise_context(void)
{
    return cuCtxSynchronize();
}

static CUresult synchronise_event(void)
{
    return cuEventSynchronize(event);
}

static CUresult synchronise_legacy_stream(void)
{
    return cuStreamSynchronize(NULL);
}

static CUresult copy(void)
{
    static uint32_t words[N];
    return cuMemcpyDtoH(words, x, BYTES);
}

static CUresult launch_many(void)
{
    CUresult r = CUDA_SUCCESS;
    for (int i = 0; i < 6000 && r == CUDA_SUCCESS; i++) /* more than a queue takes */
        r = launch_mix(x, 5, 7, s);
    return r;
}

static CUresult release_memory(void)
{
    return cuMemFree(y);
}

static CUresult destroy(void)
{
    return cuStreamDestroy(s);
}

static void *call(void *fn)
{
    CUresult (*const *call)(void) = fn;
    MUST(cuCtxSetCurrent(context));
    atomic_store(&inside, true);
    answer = (*call)();
    return NULL; /* no printf here: it is a cancellation point */
}

HAZARD(call_that_waits_is_no_cancellation_point)
{
    static const struct {
        const char *name;
        CUresult (*call)(void);
    } calls[] = {{"cuStreamSynchronize", synchronise_stream},
                 {"cuCtxSynchronize", synchronise_context},
                 {"cuEventSynchronize", synchronise_event},
                 {"cuMemcpyDtoH", copy},
                 {"cuLaunchKernel", launch_many},
                 {"cuMemFree", release_memory},
                 {"cuStreamDestroy", destroy}};
    for (unsigned int i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        pthread_t thread;
        void *end;
        s = stream_new(CU_STREAM_NON_BLOCKING);
        x = buffer_new(3);
        y = buffer_new(4);
        event = event_new();
        warm(s);
        hold(s);
        MUST(launch_slow(x, 5, 7, 20000, s)); /* so that a wait looks more than once */
        MUST(cuEventRecord(event, s));
        atomic_store(&inside, false);
        if (pthread_create(&thread, NULL, call, (void *)&calls[i].call))
            give_up("no thread");
        UNTIL(atomic_load(&inside));
        for (int k = 0; k < 3; k++)
            nap();
        pthread_cancel(thread);
        pthread_join(thread, &end);
        printf("%s: %s\n", calls[i].name, end == PTHREAD_CANCELED ? "cancelled" : "returned");
        printf("answer %d\n", answer);
        MUST(cuCtxSynchronize());
        show("x", x);
    }
    printf("end\n");
}

/* ---- jumps ----------------------------------------------------------------------------------- */

static sigjmp_buf outside;
static pthread_t jumper;
static pid_t jumper_id;

/* A thread that was seen waiting may have gone on when the signal comes, and hold a lock of the
 * driver. Then the handler does nothing, and the signal is sent again. */
static struct place seen;
enum { ASKED, TAKEN, REFUSED };
static _Atomic int signalled;

static struct place interrupted(const void *by)
{
    const ucontext_t *at = by;
#ifdef __x86_64__
    return (struct place){(unsigned long)at->uc_mcontext.gregs[REG_RSP],
                          (unsigned long)at->uc_mcontext.gregs[REG_RIP]};
#else
    return (struct place){at->uc_mcontext.sp, at->uc_mcontext.pc};
#endif
}

static bool waits_still(const void *by)
{
    struct place is = interrupted(by);
    bool still = atomic_load(&signalled) == ASKED && atomic_load(&inside) &&
                 is.stack == seen.stack && is.instruction == seen.instruction;
    atomic_store(&signalled, still ? TAKEN : REFUSED);
    return still;
}

static void interrupt(int signal, struct place (*waits)(pid_t))
{
    do {
        seen = waits(jumper_id);
        atomic_store(&signalled, ASKED);
        pthread_kill(jumper, signal);
        UNTIL(atomic_load(&signalled) != ASKED);
    } while (atomic_load(&signalled) == REFUSED && atomic_load(&inside));
}

static void jump(int signal, siginfo_t *info, void *by)
{
    (void)signal, (void)info;
    if (waits_still(by))
        siglongjmp(outside, 1);
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};
    sigaction(signal, &action, NULL);
}

static void *make_it_jump(void *waits)
{
    struct place (*const *jumper_waits)(pid_t) = waits;
    UNTIL(atomic_load(&inside));
    interrupt(SIGUSR1, *jumper_waits);
    return NULL;
}

/* Overwrites whatever the call had on its stack. */
static __attribute__((noinline)) void scribble(void)
{
    volatile unsigned char stack[64 << 10];
    for (size_t i = 0; i < sizeof(stack); i++)
        stack[i] = 0xa5;
}

static __attribute__((noinline)) bool returned(CUresult (*fn)(void))
{
    if (sigsetjmp(outside, 1) != 0)
        return false;
    atomic_store(&inside, true);
    answer = fn();
    atomic_store(&inside, false);
    return true;
}

/* The jump comes once `waits` (id_waits or id_waits_long) says that the call waits. */
static bool left_by_a_jump(CUresult (*fn)(void), struct place (*waits)(pid_t))
{
    pthread_t helper;
    atomic_store(&inside, false);
    if (pthread_create(&helper, NULL, make_it_jump, (void *)&waits) != 0)
        give_up("no thread");
    bool jumped = !returned(fn);
    scribble();
    pthread_join(helper, NULL);
    return jumped;
}

HAZARD(handler_may_jump_out_of_a_call_that_waits)
{
    static const struct {
        const char *name;
        CUresult (*call)(void);
    } calls[] = {{"cuStreamSynchronize", synchronise_stream},
                 {"cuCtxSynchronize", synchronise_context},
                 {"cuEventSynchronize", synchronise_event},
                 {"cuStreamSynchronize(NULL)", synchronise_legacy_stream}};
    handle(SIGUSR1, jump);
    jumper = pthread_self();
    jumper_id = (pid_t)syscall(SYS_gettid);
    x = buffer_new(3);
    event = event_new();
    for (unsigned int i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        s = stream_new(CU_STREAM_DEFAULT);
        warm(s);
        atomic_store(&told, false);
        MUST(cuLaunchHostFunc(s, until_told, NULL));
        hold_for(100000);
        hold(s);
        MUST(launch_mix(x, 5, 7, s));
        MUST(cuEventRecord(event, s));
        for (int k = 0; k < 3; k++) {
            bool jumped = left_by_a_jump(calls[i].call, k < 2 ? id_waits : id_waits_long);
            printf("%s: %s\n", calls[i].name, jumped ? "left" : "returned");
        }
        still_held(s);
        atomic_store(&told, true);
        release(s);
        SAY(cuStreamSynchronize(s));
        SAY(cuCtxSynchronize());
        SAY(cuStreamDestroy(s));
        show("x", x);
    }
}

/* ---- copies ---------------------------------------------------------------------------------- */

enum { LARGE = 40 << 20 }; /* in parts even if the process is alone */
static uint32_t pageable[LARGE / 4];

static CUresult copy_up(void)
{
    return cuMemcpyHtoD(y, pageable, BYTES);
}

static CUresult copy_down(void)
{
    return cuMemcpyDtoH(pageable, y, BYTES);
}

static CUresult copy_down_in_its_stream(void)
{
    return cuMemcpyDtoHAsync(pageable, y, BYTES, s);
}

static CUresult copy_down_in_parts(void)
{
    return cuMemcpyDtoH(pageable, y, LARGE);
}

static void may_jump(void)
{
    handle(SIGUSR1, jump);
    jumper = pthread_self();
    jumper_id = (pid_t)syscall(SYS_gettid);
    hang_watch("a call hangs");
    x = buffer_new(3);
    MUST(cuMemAlloc(&y, LARGE));
}

static void stand(bool holding)
{
    atomic_store(&told, false);
    MUST(cuLaunchHostFunc(s, until_told, NULL));
    hold_ms = getenv("CUDA_INJECTION64_PATH") ? 3 : 100000; /* with a profiler, launches wait */
    if (holding)
        hold(s);
}

/* Makes a stream with one launch behind what waits. */
static void begin_to_wait(bool holding)
{
    s = stream_new(CU_STREAM_DEFAULT);
    warm(s);
    stand(holding);
    MUST(launch_mix(x, 5, 7, s));
}

static void launch_and_copy(void *unused)
{
    (void)unused;
    MUST(launch_mix(x, 5, 7, s));
    MUST(launch_mix(x, 5, 7, NULL));
    MUST(cuMemcpyDtoH(pageable, x, BYTES));
}

/* Jumps more often than calls of one thread can be nested: with `holding` while the copies wait for
 * their turn, else while they are in the driver. */
static void jump_out_of_copies(bool holding)
{
    static const struct {
        const char *name;
        CUresult (*call)(void);
        int times;
    } calls[] = {{"cuMemcpyHtoD", copy_up, 20},
                 {"cuMemcpyDtoH", copy_down, 2},
                 {"cuMemcpyDtoHAsync", copy_down_in_its_stream, 2},
                 {"cuMemcpyDtoH in parts", copy_down_in_parts, 2}};
    may_jump();
    for (unsigned int i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
        int left = 0;
        begin_to_wait(holding);
        for (int k = 1; k <= calls[i].times; k++)
            left += left_by_a_jump(calls[i].call,
                                   holding || k < calls[i].times ? id_waits : id_waits_long);
        printf("%s: %d times left\n", calls[i].name, left);
        still_held(s);
        atomic_store(&told, true);
        release(s);
        SAY(cuCtxSynchronize());
        SAY(cuStreamQuery(s));
        SAY(cuStreamQuery(NULL));
        launch_and_copy(NULL);
        thread_join(thread_start(launch_and_copy, NULL));
        SAY(cuStreamSynchronize(s));
        SAY(cuStreamDestroy(s));
        show("x", x);
    }
}

HAZARD(handler_may_jump_out_of_copies_that_wait)
{
    jump_out_of_copies(true);
}

HAZARD(handler_may_jump_out_of_copies_in_the_driver)
{
    jump_out_of_copies(false);
}

HAZARD(stream_may_be_destroyed_after_a_jump_out_of_its_copy)
{
    may_jump();
    for (int holding = 1; holding >= 0; holding--) {
        begin_to_wait(holding);
        printf("left %d\n",
               left_by_a_jump(copy_down_in_its_stream, holding ? id_waits : id_waits_long));
        atomic_store(&told, true);
        release(s);
        SAY(cuStreamDestroy(s));
        SAY(cuCtxSynchronize());
        show("x", x);
    }
}

HAZARD(context_may_be_destroyed_after_a_jump_out_of_its_copy)
{
    may_jump();
    for (int holding = 1; holding >= 0; holding--) {
        CUcontext other = context_new();
        MUST(cuMemAlloc(&y, BYTES));
        s = stream_new(CU_STREAM_NON_BLOCKING);
        MUST(cuMemsetD32Async(y, 3, N, s));
        stand(holding);
        MUST(cuMemsetD32Async(y, 5, N, s));
        printf("left %d\n",
               left_by_a_jump(copy_down_in_its_stream, holding ? id_waits : id_waits_long));
        atomic_store(&told, true);
        release(s);
        SAY(cuCtxDestroy(other));
        SAY(launch_mix(x, 5, 7, NULL));
        show("x", x);
    }
}

/* ---- within a handler ------------------------------------------------------------------------ */

#ifndef __SANITIZE_THREAD__ /* which delivers no signal in a handler */
static CUstream other;
static sigjmp_buf in_the_handler;
static atomic_bool inside_again, handled;

static void jump_into_the_handler(int signal, siginfo_t *info, void *by)
{
    (void)signal, (void)info;
    if (waits_still(by))
        siglongjmp(in_the_handler, 1);
}

static void copy_elsewhere(int signal, siginfo_t *info, void *by)
{
    static uint32_t words[N];
    (void)signal, (void)info;
    if (!waits_still(by))
        return;
    if (sigsetjmp(in_the_handler, 1) == 0) {
        atomic_store(&inside_again, true);
        cuMemcpyDtoHAsync(words, x, BYTES, other);
    }
    atomic_store(&handled, true);
}

static void *make_it_jump_into_its_handler(void *arg)
{
    (void)arg;
    UNTIL(atomic_load(&inside));
    interrupt(SIGUSR1, id_waits_long);
    UNTIL(atomic_load(&inside_again));
    interrupt(SIGUSR2, id_waits_long);
    UNTIL(atomic_load(&handled));
    atomic_store(&told, true);
    return NULL;
}

HAZARD(handler_run_during_a_copy_may_jump_out_of_another_copy)
{
    pthread_t helper;
    may_jump();
    handle(SIGUSR1, copy_elsewhere);
    handle(SIGUSR2, jump_into_the_handler);
    other = stream_new(CU_STREAM_NON_BLOCKING);
    begin_to_wait(false);
    MUST(cuLaunchHostFunc(other, until_told, NULL));
    if (pthread_create(&helper, NULL, make_it_jump_into_its_handler, NULL) != 0)
        give_up("no thread");
    atomic_store(&inside, true);
    SAY(copy_down_in_parts());
    pthread_join(helper, NULL);
    thread_join(thread_start(launch_and_copy, NULL));
    SAY(cuStreamSynchronize(other));
    SAY(cuStreamDestroy(other));
    SAY(cuStreamDestroy(s));
    show("x", x);
}
#endif
