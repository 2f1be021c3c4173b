/*
 * direct.c - what calls of a real-time process cost: counts of what they do beside the driver call.
 */
#include "tests/shim/wrap/rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/shim/wrap/watch.h"

static CUstream stream;
static CUdeviceptr words;

static void open_direct(void)
{
    rig_open();
    stream = rig_stream();
    words = rig_buffer(3);
    rig_warm(stream);
}

TestSuite(direct, .init = open_direct, .fini = rig_close);

/* In this thread: calls that were written down, and walks over a whole table. */
static _Thread_local unsigned written, walks;

__attribute__((visibility("default"))) void cutin_stop(const char *here);
void cutin_stop(const char *here)
{
    written += strcmp(here, "call_on") == 0;
    walks += strcmp(here, "table_each") == 0;
}

static void launch_ex(CUstream s)
{
    uint32_t a = 1, b = 1, n = N;
    void *params[] = {&words, &a, &b, &n};
    CUlaunchConfig config = {.gridDimX = N / 256,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = s};
    ok(cuLaunchKernelEx(&config, rig_mix, params, NULL));
    cr_assert_eq(config.hStream, s);
}

static void launch_cooperative(CUstream s)
{
    uint32_t a = 1, b = 1, n = N;
    void *params[] = {&words, &a, &b, &n};
    ok(cuLaunchCooperativeKernel(rig_mix, N / 256, 1, 1, 256, 1, 1, 0, s, params));
}

static CUgraphExec graph_new(void)
{
    CUgraph graph;
    CUgraphExec exec;
    ok(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    ok(rig_launch(words, 1, 1, stream));
    ok(cuStreamEndCapture(stream, &graph));
    ok(cuGraphInstantiate(&exec, graph, 0));
    ok(cuGraphDestroy(graph));
    return exec;
}

Test(direct, event_waits_make_no_call_record)
{
    CUevent e;
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(cuEventRecord(e, stream));
    unsigned before = written;
    for (int i = 0; i < 10; i++) {
        ok(cuStreamWaitEvent(stream, e, 0));
        ok(cuEventRecord(e, stream));
    }
    cr_assert_eq(written, before);
    ok(cuStreamSynchronize(stream));
}

Test(direct, launches_of_every_kind_make_no_call_record)
{
    CUgraphExec graph = graph_new();
    launch_ex(NULL); /* so that the default stream is known */
    unsigned before = written;
    for (int i = 0; i < 10; i++) {
        launch_ex(stream);
        launch_ex(NULL);
        launch_cooperative(stream);
        ok(cuGraphLaunch(graph, stream));
        ok(rig_launch(words, 1, 1, stream));
        ok(cuStreamSynchronize(stream));
        ok(cuStreamSynchronize(NULL));
    }
    cr_assert_eq(written, before);
    rig_expect(words, 3 + 1 + 50, NULL);
}

static CUkernel kernel_new(void)
{
    static char text[1 << 20];
    FILE *f = fopen(SOURCE_DIR "/examples/kernels.ptx", "r");
    CUlibrary library;
    CUkernel kernel;
    cr_assert(f && fread(text, 1, sizeof(text) - 1, f) > 0);
    fclose(f);
    ok(cuLibraryLoadData(&library, text, NULL, NULL, 0, NULL, NULL, 0));
    ok(cuLibraryGetKernel(&kernel, library, "mix"));
    return kernel;
}

Test(direct, attribute_sets_cost_only_driver_call)
{
    const CUfunction_attribute limit = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
    CUkernel kernel = kernel_new();
    unsigned asked = watch_count(WATCH_cuCtxGetCurrent), before = walks;
    unsigned set = watch_count(WATCH_cuKernelSetAttribute) + watch_count(WATCH_cuFuncSetAttribute);
    for (int i = 0; i < 10; i++) {
        ok(cuKernelSetAttribute(limit, 1024 * (i + 1), kernel, rig_device));
        ok(cuFuncSetAttribute(rig_mix, limit, 1024 * (i + 1)));
    }
    cr_assert_eq(walks, before);
    cr_assert_lt(watch_count(WATCH_cuCtxGetCurrent) - asked, 10, "the client's thread may ask");
    cr_assert_eq(watch_count(WATCH_cuKernelSetAttribute) + watch_count(WATCH_cuFuncSetAttribute),
                 set + 20);
}

/* ---- the default stream ---------------------------------------------------------------------- */

static _Thread_local unsigned asked;

static int count_asked(const intptr_t *argument)
{
    asked++;
    return 0;
}

static CUresult launch_default(void)
{
    return cuMemsetD32Async(words, 1, N, NULL);
}

Test(direct, default_stream_memsets_do_not_query_context)
{
    ok(launch_default());
    watch_before(WATCH_cuCtxGetCurrent, count_asked);
    for (int i = 0; i < 100; i++)
        ok(launch_default());
    cr_assert_eq(asked, 0);
}

/* `change` makes another context current, so the next launch has to ask the driver for it. */
#define ASKS_AFTER(change)                                                                         \
    do {                                                                                           \
        ok(launch_default());                                                                      \
        ok(change);                                                                                \
        asked = 0;                                                                                 \
        ok(launch_default());                                                                      \
        cr_assert_gt(asked, 0, "%s", #change);                                                     \
    } while (0)

Test(direct, context_change_makes_default_stream_query_context)
{
    CUcontext other, popped;
    watch_before(WATCH_cuCtxGetCurrent, count_asked);
#if CUDA_VERSION >= 13000
    ASKS_AFTER(cuCtxCreate(&other, NULL, 0, rig_device));
#else
    ASKS_AFTER(cuCtxCreate(&other, 0, rig_device));
#endif
    ASKS_AFTER(cuCtxPopCurrent(&popped));
    ASKS_AFTER(cuCtxPushCurrent(other));
    ASKS_AFTER(cuCtxSetCurrent(rig_context));
    ASKS_AFTER(cuCtxSetCurrent(other));
    ok(cuCtxPopCurrent(&popped));
    ok(cuCtxSetCurrent(rig_context));
    ASKS_AFTER(cuCtxDestroy(other)); /* another thread may have it current */
}
