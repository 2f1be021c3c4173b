/*
 * asked.c - the client's thread asks the driver about a busy stream, and the driver takes long.
 * Only a thread that destroys this stream has to wait for that.
 */
#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

static _Atomic bool asking, answered;

static int slow(const intptr_t *argument)
{
    atomic_store(&asking, true);
    rig_until(&answered);
    return 0;
}

static CUstream stream;

static void open_asked(void)
{
    rig_open();
    CUdeviceptr x = rig_buffer(3);
    stream = rig_stream();
    watch_before(WATCH_cuStreamQuery, slow);
    ok(rig_launch(x, 1, 0, stream));
    rig_until(&asking);
}

static void close_asked(void)
{
    atomic_store(&answered, true);
    rig_close();
}

TestSuite(asked, .init = open_asked, .fini = close_asked);

static void create_and_destroy(void *user)
{
    CUstream s = rig_stream();
    ok(cuStreamSynchronize(s));
    ok(cuStreamDestroy(s));
    ok(cuCtxSynchronize());
}

Test(asked, other_streams_come_and_go_during_slow_query)
{
    struct rig_thread t = {0};
    rig_start(&t, create_and_destroy, NULL);
    rig_join(&t);
}

static void destroy(void *user)
{
    ok(cuStreamDestroy(stream));
}

Test(asked, destroy_waits_for_slow_query_of_its_stream)
{
    struct rig_thread t = {0};
    rig_start(&t, destroy, NULL);
    rig_blocked(&t);
    atomic_store(&answered, true);
    rig_join(&t);
}
