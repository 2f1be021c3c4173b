/*
 * profiler.c - with a profiler attached nothing is buffered: it would see calls at another time and
 * in another thread than the program made them. And the same where the driver's launches block.
 * The program is linked with one copy of CUPTI, and opens another.
 */
#include "tests/hazards/cupti.h"
#include "tests/hazards/hazard.h"

#include <dlfcn.h>

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
    hold(s);
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
    printf("launched before that, and held: %d\n", held(s));
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
        give_up("no CUPTI is found");
    return (struct cupti){(int (*)(int))enable, (int (*)(int))disable, (int (*)(void))finalize};
}

static struct cupti cupti_opened(void)
{
    void *handle = dlopen(OTHER_CUPTI, RTLD_NOW | RTLD_LOCAL);

    if (!handle)
        give_up("the other CUPTI cannot be opened");
    return cupti_of(handle);
}

HAZARD_RAW(nothing_is_buffered_while_cupti_that_it_is_linked_with_records)
{
    struct cupti c = cupti_linked();
    records_come_and_go(&c);
}

HAZARD_RAW(nothing_is_buffered_while_cupti_that_it_has_opened_records)
{
    struct cupti c = cupti_opened();
    records_come_and_go(&c);
}

HAZARD_RAW(nothing_is_buffered_while_cupti_that_it_has_found_records)
{
    struct cupti c = cupti_of(RTLD_DEFAULT);
    records_come_and_go(&c);
}

HAZARD(each_copy_of_cupti_is_asked_by_who_has_it)
{
    struct cupti copies[] = {cupti_opened(), cupti_linked(), cupti_of(RTLD_DEFAULT)};

    for (int i = 0; i < 3; i++) {
        printf("%d\n", copies[i].enable(DRIVER));
        printf("%d\n", copies[i].disable(DRIVER));
        printf("%d\n", copies[i].finalize());
    }
}
