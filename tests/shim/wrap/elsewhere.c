/*
 * elsewhere.c - launches into a stream while another context is current. What cutin makes for a
 * stream belongs to the stream's context: another context's event cannot be recorded there, and
 * ends with that context.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/trace.h"

#include "tests/shim/wrap/rig.h"

#include "tests/shim/wrap/watch.h"

TestSuite(elsewhere, .init = rig_open, .fini = rig_close);

static _Atomic unsigned wrong;

static int event_made(const intptr_t *argument)
{
    CUcontext current = NULL;
    ok(cuCtxGetCurrent(&current));
    atomic_fetch_add(&wrong, current != rig_context);
    return 0;
}

static void launches_make_events_in_the_context_of_their_stream(void)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUcontext other;
    uint32_t expect = 3;
    rig_warm(s);
    other = rig_context_new();
    watch_before(WATCH_cuEventCreate, event_made);
    unsigned before = watch_count(WATCH_cuEventCreate);
    for (uint32_t i = 0; i < 1000 && watch_count(WATCH_cuEventCreate) - before < 2; i++) {
        ok(rig_launch(x, 5, i, s));
        ok(cuStreamSynchronize(s));
        expect = rig_mixed(expect, 5, i);
    }
    cr_assert_geq(watch_count(WATCH_cuEventCreate) - before, 2);
    cr_assert_eq(atomic_load(&wrong), 0);
    watch_before(WATCH_cuEventCreate, NULL);
    ok(cuCtxDestroy(other));
    ok(cuCtxSetCurrent(rig_context));
    ok(rig_launch(x, 1, 1, s));
    rig_expect(x, expect + 1, s);
}

Test(elsewhere, timed_launch_makes_events_in_stream_context)
{
    launches_make_events_in_the_context_of_their_stream();
}

/* ---- a stream that was made past cutin ----------------------------------------------------- */

static _Atomic bool asked_first, waits;

/* The first thread that asks what the stream is gets its answer last. */
static int who_asks_first_is_slow(const intptr_t *argument)
{
    if (!atomic_exchange(&asked_first, true))
        rig_until(&waits);
    return 0;
}

static void query(void *stream)
{
    cuStreamQuery(*(CUstream *)stream);
}

Test(elsewhere, concurrent_adoption_of_stream_loses_no_buffered_work)
{
    void *driver = dlopen(SIMULATOR, RTLD_NOW | RTLD_LOCAL);
    CUresult (*create)(CUstream *, unsigned) = dlsym(driver, "cuStreamCreate");
    struct rig_thread other;
    CUdeviceptr x = rig_buffer(3);
    CUstream held = rig_stream(), s;
    CUevent e, behind, last;
    rig_warm(held);
    ok(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    ok(cuEventCreate(&last, CU_EVENT_DISABLE_TIMING));
    ok(cutin_stream_hold(held));
    ok(rig_launch(x, 5, 7, held));
    ok(cuEventRecord(e, held));
    ok(create(&s, CU_STREAM_NON_BLOCKING));
    watch_before(WATCH_cuStreamGetPriority, who_asks_first_is_slow);
    rig_start(&other, query, &s);
    rig_until(&asked_first);
    ok(cuStreamWaitEvent(s, e, 0));
    atomic_store(&waits, true);
    rig_join(&other);
    unsigned before = watch_count(WATCH_cuEventRecord);
    ok(cuEventRecord(behind, s));
    ok(cuEventRecord(last, rig_stream()));
    ok(cuEventSynchronize(last));
    cr_expect_eq(watch_count(WATCH_cuEventRecord), before + 1, "it overtook the wait");
    ok(cutin_stream_release(held));
    ok(cuEventSynchronize(behind));
    rig_expect(x, rig_mixed(3, 5, 7), held);
}

static char trace[] = "/tmp/elsewhere.XXXXXX";

static void rig_open_with_trace(void)
{
    close(mkstemp(trace));
    setenv("CUTIN_TRACE_KEEP", "first", 1);
    rig_open_with("CUTIN_TRACE", trace);
}

static void rig_close_with_trace(void)
{
    rig_close();
    unlink(trace);
}

TestSuite(elsewhere_traced, .init = rig_open_with_trace, .fini = rig_close_with_trace);

Test(elsewhere_traced, timed_launch_makes_events_in_stream_context)
{
    launches_make_events_in_the_context_of_their_stream();
}

static void CUDA_CB await(void *flag)
{
    rig_until(flag);
}

/* Reads the samples of the newest context, once there are `n`. */
static void samples_read(struct trace_record *out, size_t n)
{
    static struct trace_header h;
    struct trace_record r;
    size_t found = 0;
    for (int i = 0; i < rig_patience() && found < n; i++) {
        FILE *f = fopen(trace, "re");
        uint32_t context = 0;
        cr_assert(f && fread(&h, sizeof(h), 1, f) == 1);
        cr_assert_eq(fseek(f, h.header_bytes, SEEK_SET), 0);
        while (fread(&r, sizeof(r), 1, f) == 1) {
            if (!r.seq || r.kind != TRACE_SAMPLE || r.sample.context < context)
                continue;
            found = r.sample.context > context ? 0 : found;
            context = r.sample.context;
            if (found < n)
                out[found++] = r;
        }
        fclose(f);
        rig_nap();
    }
    cr_assert_eq(found, n);
}

static void rig_open_real_time(void)
{
    setenv("CUTIN_PRIORITY", "rt", 1);
    rig_open_with_trace();
}

TestSuite(elsewhere_timed, .init = rig_open_real_time, .fini = rig_close_with_trace);

Test(elsewhere_timed, sample_before_clock_start_has_negative_time)
{
    static _Atomic bool opens;
    struct trace_record sample[2];
    CUdeviceptr x = rig_buffer(3);
    CUcontext other = rig_context_new();
    CUstream late = rig_stream(), early = rig_stream();
    ok(cuLaunchHostFunc(late, await, &opens));
    ok(cuMemsetD32Async(x, 1, N / 2, late)); /* its clock begins there */
    ok(cuMemsetD32Async(x + N * 2, 1, N / 2, early));
    ok(cuStreamSynchronize(early));
    atomic_store(&opens, true);
    ok(cuStreamSynchronize(late));
    samples_read(sample, 2);
    cr_expect_geq((int64_t)sample[0].sample.device_ns, 0);
    cr_expect_lt((int64_t)sample[1].sample.device_ns, 0);
    ok(cuCtxDestroy(other));
}

/* The number of blocks that fit is asked for the stream's context. */
static _Atomic unsigned asked;

static int room_asked(const intptr_t *argument)
{
    atomic_fetch_add(&asked, 1);
    return event_made(argument);
}

Test(elsewhere, new_shape_queries_occupancy_in_stream_context)
{
    CUstream s = rig_stream();
    CUdeviceptr x = rig_buffer(3);
    CUcontext other = rig_context_new();
    watch_before(WATCH_cuOccupancyMaxActiveBlocksPerMultiprocessor, room_asked);
    ok(rig_launch(x, 5, 7, s));
    cr_assert_eq(atomic_load(&asked), 1);
    cr_assert_eq(atomic_load(&wrong), 0);
    ok(cuCtxDestroy(other));
    ok(cuCtxSetCurrent(rig_context));
    rig_expect(x, rig_mixed(3, 5, 7), s);
}
