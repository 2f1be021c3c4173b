/*
 * overlap.c - launches that may begin before their predecessors have ended (programmatic dependent
 * launch): cutin puts nothing between them.
 */
#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

TestSuite(overlap, .init = rig_open, .fini = rig_close);

/* The budget is so large here that markers come by the depth alone, not by the host's delays. A
 * marker is due with half of 256 in front of it, and waits until there are three quarters. */
enum { WARM = 256, CHAIN = 160 };

static CUstream stream;
static CUdeviceptr words;

static CUresult launch(bool overlaps)
{
    uint32_t a = 1, b = 1, n = N;
    void *params[] = {&words, &a, &b, &n};
    CUlaunchAttribute attr = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                              .value.programmaticStreamSerializationAllowed = overlaps};
    CUlaunchConfig config = {.gridDimX = N / 256,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .hStream = stream,
                             .attrs = &attr,
                             .numAttrs = 1};
    return cuLaunchKernelEx(&config, rig_mix, params, NULL);
}

static unsigned put_into_streams(void)
{
    return watch_count(WATCH_cuEventRecord) + watch_count(WATCH_cuStreamWriteValue32_v2);
}

static void open_with_a_chain(void)
{
    stream = rig_stream();
    words = rig_buffer(0);
    for (int i = 0; i < WARM; i++) { /* until they are known, and the cap has measured them */
        ok(launch(false));
        if (i % 8 == 7)
            ok(cuStreamSynchronize(stream));
    }
    ok(launch(false));
    ok(launch(true));
    ok(cuStreamSynchronize(stream));
}

Test(overlap, nothing_is_put_between_inline_launches)
{
    open_with_a_chain();
    ok(launch(false));
    unsigned before = put_into_streams(), launches = watch_count(WATCH_cuLaunchKernelEx);
    for (int i = 0; i < CHAIN; i++)
        ok(launch(true));
    cr_assert_eq(watch_count(WATCH_cuLaunchKernelEx) - launches, CHAIN, "inline");
    cr_assert_eq(put_into_streams(), before);
    ok(launch(false)); /* behind the chain there may be a marker */
    cr_assert_leq(put_into_streams(), before + 1);
    rig_expect(words, WARM + CHAIN + 4, stream);
}

Test(overlap, nothing_is_put_between_buffered_launches)
{
    open_with_a_chain();
    ok(cutin_stream_hold(stream));
    ok(launch(false));
    for (int i = 0; i < CHAIN; i++)
        ok(launch(true));
    unsigned before = put_into_streams(), launches = watch_count(WATCH_cuLaunchKernelEx);
    ok(cutin_stream_release(stream));
    while (watch_count(WATCH_cuLaunchKernelEx) - launches < 1 + CHAIN)
        rig_nap();
    cr_assert_eq(put_into_streams(), before);
    rig_expect(words, WARM + CHAIN + 3, stream);
}
