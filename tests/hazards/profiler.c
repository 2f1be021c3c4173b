/*
 * profiler.c - with a profiler attached nothing is buffered, or it would see calls at another time
 * and in another thread than the program made them. The same holds where the driver's launches
 * block. The program is linked with one copy of CUPTI, and opens others.
 */
#include "tests/hazards/cupti.h"
#include "tests/hazards/hazard.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

static void return_when_the_hold_is_over(CUstream s, CUdeviceptr x)
{
    for (uint32_t i = 0; i < 3; i++) {
        hold(s);
        SAY(launch_mix(x, 5, i, s));
        printf("returned while held: %d\n", held(s));
        release(s);
        hold(s);
        SAY(cuMemsetD32Async(x, i, N / 2, s));
        printf("returned while held: %d\n", held(s));
        release(s);
    }
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

static void launches_return_when_the_hold_is_over(void)
{
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    return_when_the_hold_is_over(s, x);
}

HAZARD_RAW(nothing_is_buffered_with_a_profiler_attached)
{
    setenv("CUDA_INJECTION64_PATH", "/nonexistent/libprofiler.so", 1);
    launches_return_when_the_hold_is_over();
}

HAZARD_RAW(nothing_is_buffered_where_launches_block)
{
    setenv("CUDA_LAUNCH_BLOCKING", "1", 1);
    launches_return_when_the_hold_is_over();
}

/* ---- one that comes late -------------------------------------------------------------------- */

struct cupti {
    int (*enable)(int kind), (*disable)(int kind), (*finalize)(void);
};
enum { DRIVER = 4, CONCURRENT_KERNEL = 10 };

static void are_buffered(CUstream s, CUdeviceptr x)
{
    hold_for(20000);
    hold(s);
    hold_for(25);
    SAY(launch_mix(x, 7, 1, s));
    buffered(s);
    still_held(s);
    release(s);
}

static void records_come_and_go(const struct cupti *c)
{
    gpu_open();
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    CUdeviceptr x = buffer_new(3);
    warm(s);
    printf("%d\n", c->enable(-1));
    are_buffered(s, x);
    hold(s);
    SAY(launch_mix(x, 7, 1, s));
    printf("%d\n", c->enable(CONCURRENT_KERNEL));
    printf("still held after the earlier launch: %d\n", held(s));
    release(s);
    printf("%d\n", c->enable(DRIVER));
    return_when_the_hold_is_over(s, x);
    printf("%d\n", c->disable(DRIVER));
    printf("%d\n", c->disable(-1));
    return_when_the_hold_is_over(s, x);
    printf("%d\n", c->disable(CONCURRENT_KERNEL));
    are_buffered(s, x);
    printf("%d\n", c->enable(DRIVER));
    return_when_the_hold_is_over(s, x);
    printf("%d\n", c->finalize());
    are_buffered(s, x);
    show("x", x);
}

static struct cupti cupti_linked(void)
{
    return (struct cupti){cuptiActivityEnable, cuptiActivityDisable, cuptiFinalize};
}

static struct cupti cupti_of(void *handle)
{
    void *enable = dlsym(handle, "cuptiActivityEnable"),
         *disable = dlsym(handle, "cuptiActivityDisable"),
         *finalize = dlsym(handle, "cuptiFinalize");

    if (!enable || !disable || !finalize)
        give_up("CUPTI was not found");
    return (struct cupti){(int (*)(int))enable, (int (*)(int))disable, (int (*)(void))finalize};
}

static void *open_copy(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        give_up("another CUPTI cannot be opened");
    return handle;
}

static struct cupti cupti_opened(void)
{
    return cupti_of(open_copy(OTHER_CUPTI));
}

HAZARD_RAW(nothing_is_buffered_while_a_linked_cupti_records)
{
    struct cupti c = cupti_linked();
    records_come_and_go(&c);
}

HAZARD_RAW(nothing_is_buffered_while_an_opened_cupti_records)
{
    struct cupti c = cupti_opened();
    records_come_and_go(&c);
}

HAZARD_RAW(nothing_is_buffered_while_cupti_in_the_global_scope_records)
{
    struct cupti c = cupti_of(RTLD_DEFAULT);
    records_come_and_go(&c);
}

HAZARD(each_copy_of_cupti_gets_its_own_calls)
{
    struct cupti copies[] = {cupti_opened(), cupti_linked(), cupti_of(RTLD_DEFAULT),
                             cupti_of(open_copy(THIRD_CUPTI))};

    for (int i = 0; i < 4; i++) {
        printf("%d\n", copies[i].enable(DRIVER));
        printf("%d\n", copies[i].disable(DRIVER));
        printf("%d\n", copies[i].finalize());
    }
}

/* ---- several at a time ---------------------------------------------------------------------- */

static CUstream stream;
static CUdeviceptr x;

static void begin(void)
{
    gpu_open();
    stream = stream_new(CU_STREAM_NON_BLOCKING);
    x = buffer_new(3);
    warm(stream);
}

static void buffers(const char *when)
{
    printf("%s:\n", when);
    are_buffered(stream, x);
}

static void records(const char *when)
{
    printf("%s:\n", when);
    return_when_the_hold_is_over(stream, x);
}

HAZARD_RAW(nothing_is_buffered_while_any_copy_of_cupti_records)
{
    struct cupti copies[] = {cupti_opened(), cupti_of(open_copy(THIRD_CUPTI)), cupti_linked()};

    begin();
    for (int i = 0; i < 3; i++) {
        const struct cupti *one = &copies[i], *other = &copies[(i + 1) % 3];
        one->enable(DRIVER);
        records("one");
        other->enable(DRIVER);
        one->disable(DRIVER);
        records("the other");
        one->finalize();
        records("the other, and one was finalized");
        other->finalize();
        buffers("none");
    }
    show("x", x);
}

HAZARD_RAW(nothing_is_buffered_while_any_activity_kind_is_recorded)
{
    struct cupti c = cupti_linked();

    begin();
    for (int kind = 0; kind < 130; kind++)
        c.enable(kind);
    for (int kind = 129; kind > 0; kind--)
        c.disable(kind);
    c.disable(200);
    records("one is left");
    c.enable(-1);
    records("one was refused");
    c.disable(0);
    buffers("none");
    for (int i = 0; i < 2; i++)
        c.enable(64 + i);
    c.disable(64);
    records("a kind that is not known yet");
    c.disable(65);
    buffers("none");
    show("x", x);
}

HAZARD_RAW(nothing_is_buffered_while_a_context_or_subscriber_records)
{
    int subscriber, other, *no_config = NULL;

    begin();
    cuptiActivityEnableAndDump(CONCURRENT_KERNEL);
    records("enabled with a dump");
    cuptiActivityDisable(CONCURRENT_KERNEL);
    buffers("none");
    cuptiActivityEnableContext(&other, CONCURRENT_KERNEL);
    records("of a context");
    cuptiActivityDisable(CONCURRENT_KERNEL);
    records("of a context still");
    cuptiActivityDisableContext(&other, CONCURRENT_KERNEL);
    buffers("none");
    cuptiActivityEnable_v2(&subscriber, DRIVER, no_config);
    cuptiActivityEnableAndDump_v2(&other, DRIVER, no_config);
    records("of two subscribers");
    cuptiActivityDisable_v2(&other, DRIVER, no_config);
    records("of one");
    cuptiActivityEnable_v2(&subscriber, CONCURRENT_KERNEL, no_config);
    cuptiUnsubscribe(&other);
    records("of one still");
    cuptiUnsubscribe(&subscriber);
    buffers("none");
    show("x", x);
}

HAZARD_RAW(launches_are_buffered_after_a_recording_cupti_is_closed)
{
    void *handle = open_copy(OTHER_CUPTI);

    begin();
    cupti_of(handle).enable(DRIVER);
    records("one");
    dlclose(handle);
    cupti_of(open_copy(THIRD_CUPTI)).disable(DRIVER);
    buffers("none");
    show("x", x);
}

/* ---- from where nothing may wait ------------------------------------------------------------ */

static void enable_here(void *user)
{
    cuptiActivityEnable(DRIVER);
    *(_Atomic bool *)user = true;
}

/* The call is made in a host function. What it would wait for is behind that function. */
HAZARD_RAW(host_function_may_enable_cupti_records)
{
    _Atomic bool asked = false;

    hang_watch("the host function waits for work behind it");
    begin();
    SAY(cuLaunchHostFunc(stream, until_told, NULL));
    SAY(cuLaunchHostFunc(stream, enable_here, (void *)&asked));
    hold_for(20000);
    hold(stream);
    SAY(launch_mix(x, 7, 1, stream));
    buffered(stream);
    told = true;
    UNTIL(asked);
    still_held(stream);
    release(stream);
    hold_for(25);
    SAY(cuStreamSynchronize(stream));
    records("records");
    cuptiActivityDisable(DRIVER);
    buffers("none");
    show("x", x);
}

static _Atomic bool asks;

static void enable_too(void *unused)
{
    asks = true;
    cuptiActivityEnable(DRIVER);
}

/* What was launched before the second thread asks is launched before its call returns, too. */
HAZARD_RAW(two_threads_may_enable_cupti_records_at_once)
{
    struct thread *t;

    begin();
    hold(stream);
    SAY(launch_mix(x, 7, 1, stream));
    buffered(stream);
    t = thread_start(enable_too, NULL);
    UNTIL(asks);
    nap();
    cuptiActivityEnable(DRIVER);
    bool waits = held(stream);
    thread_join(t);
    printf("held: %d\n", waits);
    release(stream);
    cuptiActivityDisable(DRIVER);
    buffers("none");
    show("x", x);
}

/* The child has none of its parent's work, and may ask for anything. */
HAZARD_RAW(child_of_a_recording_process_may_enable_cupti_records)
{
    int status = 0;
    pid_t child;

    begin();
    cuptiActivityEnable(DRIVER);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        cuptiActivityEnable(CONCURRENT_KERNEL);
        cuptiFinalize();
        fflush(stdout);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    records("the parent");
    cuptiActivityDisable(DRIVER);
    buffers("none");
    show("x", x);
}
