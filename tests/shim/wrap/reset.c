/*
 * reset.c - cutin_stream_reset drops what the driver has not been given, and nothing else.
 */
#include "tests/shim/wrap/rig.h"

TestSuite(reset, .init = rig_open, .fini = rig_close);

Test(reset, drops_buffered_work_and_returns_count)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(rig_launch(x, 5, 7, s));
    ok(cuStreamSynchronize(s));
    ok(cutin_stream_hold(s));
    for (uint32_t i = 0; i < 10; i++)
        ok(rig_launch(x, 11, i, s));
    cr_assert_eq(cutin_stream_reset(s), 10);
    cr_assert_eq(cutin_stream_reset(s), 0);
    ok(rig_launch(x, 2, 1, s));
    ok(cutin_stream_release(s));
    rig_expect(x, rig_mixed(rig_mixed(3, 5, 7), 2, 1), s);
}

Test(reset, reef_name_drops_buffered_launch)
{
    CUstream s = rig_stream();
    rig_warm(s);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(rig_launch(x, 11, 1, s));
    cr_assert_eq(cuResetHQ(s), 1);
    ok(cutin_stream_release(s));
    rig_expect(x, 3, s);
}

Test(reset, dropped_record_counts_as_recorded)
{
    CUstream s = rig_stream(), other = rig_stream();
    CUevent e;
    ok(cuEventCreate(&e, 0));
    rig_warm(s);
    rig_warm(other);
    CUdeviceptr x = rig_buffer(3);
    ok(cutin_stream_hold(s));
    ok(cuEventRecord(e, s));
    ok(cuStreamWaitEvent(other, e, 0));
    ok(rig_launch(x, 5, 7, other));
    cr_assert_eq(cutin_stream_reset(s), 1);
    rig_expect(x, rig_mixed(3, 5, 7), other);
    ok(cuEventSynchronize(e));
    ok(cutin_stream_release(s));
}

Test(reset, idle_default_stream_drops_nothing)
{
    cr_assert_eq(cutin_stream_reset(NULL), 0);
    cr_assert_str_eq(cutin_version(), "0.1.0");
}
