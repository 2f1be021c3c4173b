/*
 * streams.c - default streams of both kinds, handles, and lifetimes of streams.
 */
#include "tests/hazards/hazard.h"

#include <stdatomic.h>

HAZARD(default_stream_is_held_like_any_other)
{
    CUdeviceptr x = buffer_new(3), y = buffer_new(1);
    CUstream other = stream_new(CU_STREAM_NON_BLOCKING);
    warm(NULL);
    warm(other);
    hold(NULL);
    SAY(launch_mix(x, 5, 7, NULL));
    SAY(launch_mix(y, 5, 7, other));
    SAY(cuStreamSynchronize(other));
    SAY(launch_mix(x, 3, 1, CU_STREAM_LEGACY));
    release(NULL);
    SAY(cuStreamSynchronize(NULL));
    show("x", x);
    show("y", y);
}

HAZARD(legacy_and_blocking_streams_keep_their_order)
{
    CUstream a = stream_new(CU_STREAM_DEFAULT), b = stream_new(CU_STREAM_DEFAULT);
    CUdeviceptr x = buffer_new(3);
    warm(a);
    warm(b);
    warm(CU_STREAM_LEGACY);
    hold(a);
    for (uint32_t i = 0; i < 5; i++) {
        SAY(launch_slow(x, 3, i, 50, a));
        SAY(launch_mix(x, 5, i, CU_STREAM_LEGACY));
        SAY(launch_slow(x, 7, i, 50, b));
        SAY(launch_mix(x, 9, i, CU_STREAM_LEGACY));
    }
    release(a);
    SAY(cuStreamSynchronize(CU_STREAM_LEGACY));
    show("x", x);
}

static CUdeviceptr words;

static void launch_per_thread(void *user)
{
    for (uint32_t i = 0; i < 10; i++)
        MUST(launch_mix(words, 3, i, CU_STREAM_PER_THREAD));
    MUST(launch_slow(words, 3, 1, 300, CU_STREAM_PER_THREAD));
}

/* A blocking stream: ordered against the legacy stream, not replaced by a non-blocking one. */
HAZARD(per_thread_stream_keeps_its_order_with_the_legacy_stream)
{
    words = buffer_new(3);
    warm(CU_STREAM_LEGACY);
    warm(CU_STREAM_PER_THREAD);
    hold(CU_STREAM_LEGACY);
    SAY(launch_mix(words, 5, 7, CU_STREAM_LEGACY));
    thread_join(thread_start(launch_per_thread, NULL));
    SAY(launch_mix(words, 11, 2, CU_STREAM_LEGACY));
    SAY(launch_mix(words, 13, 3, CU_STREAM_PER_THREAD));
    SAY(launch_mix(words, 17, 4, CU_STREAM_LEGACY));
    release(CU_STREAM_LEGACY);
    SAY(cuStreamSynchronize(CU_STREAM_LEGACY));
    show("words", words);
}

HAZARD(per_thread_stream_is_each_threads_own)
{
    unsigned int flags = 77;
    int priority = 77;
    words = buffer_new(3);
    SAY(cuStreamGetFlags(CU_STREAM_PER_THREAD, &flags));
    SAY(cuStreamGetPriority(CU_STREAM_PER_THREAD, &priority));
    printf("%u %d\n", flags, priority);
    thread_join(thread_start(launch_per_thread, NULL));
    SAY(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    SAY(cuCtxSynchronize());
    show("words", words);
}

HAZARD(destroyed_stream_finishes_what_is_buffered)
{
    CUdeviceptr x = buffer_new(3);
    for (int i = 0; i < 10; i++) {
        CUstream s = stream_new(i % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        warm(s);
        hold_ms = 4;
        hold(s);
        SAY(launch_mix(x, 5, 7, s));
        SAY(launch_slow(x, 5, 7, 100, s));
        SAY(cuStreamDestroy(s));
        SAY(cuCtxSynchronize());
        release(s);
    }
    show("x", x);
}

/* Orders `s` behind the legacy stream's work; a non-blocking stream is not ordered by itself. */
static void follow_legacy(CUstream s)
{
    CUevent e = event_new();
    MUST(cuEventRecord(e, CU_STREAM_LEGACY));
    MUST(cuStreamWaitEvent(s, e, 0));
    MUST(cuEventDestroy(e));
}

/* The helper that ends a hold must not find a new stream under an old handle. */
HAZARD(reused_handles_refer_to_new_streams_and_events)
{
    CUdeviceptr x = buffer_new(3);
    for (uint32_t i = 0; i < 200; i++) {
        CUstream s = stream_new(i % 3 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT);
        CUevent e = event_new();
        if (i % 3 == 1) /* the round before did not wait */
            follow_legacy(s);
        MUST(launch_mix(x, 3, i, s));
        MUST(cuEventRecord(e, s));
        MUST(cuStreamDestroy(s));
        MUST(cuStreamWaitEvent(CU_STREAM_LEGACY, e, 0));
        MUST(cuEventDestroy(e));
        MUST(launch_mix(x, 5, i, CU_STREAM_LEGACY));
        if (i % 3 == 1)
            MUST(cuCtxSynchronize());
        else if (i % 3 == 2)
            MUST(cuStreamSynchronize(CU_STREAM_LEGACY));
    }
    SAY(cuCtxSynchronize());
    show("x", x);
}

HAZARD(attributes_of_a_held_stream_may_be_read_and_copied)
{
    CUstream s = NULL, other = stream_new(CU_STREAM_NON_BLOCKING);
    CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_YIELD};
    CUdeviceptr x = buffer_new(3);
    CUcontext ctx = NULL;
    unsigned int flags = 0;
    int priority = 7, least = 0, greatest = 0;
    MUST(cuCtxGetStreamPriorityRange(&least, &greatest));
    MUST(cuStreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, greatest));
    warm(s);
    hold(s);
    SAY(launch_mix(x, 5, 7, s));
    SAY(cuStreamGetFlags(s, &flags));
    SAY(cuStreamGetPriority(s, &priority));
    SAY(cuStreamGetCtx(s, &ctx));
    printf("%u %d %d\n", flags, priority == greatest, ctx == context);
    SAY(cuStreamSetAttribute(s, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    SAY(cuStreamCopyAttributes(other, s));
    SAY(cuStreamGetAttribute(other, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    printf("policy %d\n", (int)value.syncPolicy);
    release(s);
    SAY(cuStreamSynchronize(s));
    show("x", x);
}

/* ---- many threads on few streams ------------------------------------------------------------- */

enum { THREADS = 6, EACH = 200 };
static CUstream shared[2];
static CUdeviceptr counters[THREADS];

static void launch_shared(void *user)
{
    int me = (int)(intptr_t)user;
    for (uint32_t i = 0; i < EACH; i++) {
        MUST(launch_mix(counters[me], 3, i, shared[me % 2]));
        if (i % 50 == 49)
            MUST(cuStreamSynchronize(shared[me % 2]));
    }
}

HAZARD(threads_share_streams_that_are_held_now_and_then)
{
    struct thread *t[THREADS];
    for (int i = 0; i < 2; i++) {
        shared[i] = stream_new(CU_STREAM_NON_BLOCKING);
        warm(shared[i]);
    }
    for (int i = 0; i < THREADS; i++)
        counters[i] = buffer_new((uint32_t)i);
    for (int i = 0; i < THREADS; i++)
        t[i] = thread_start(launch_shared, (void *)(intptr_t)i);
    for (int i = 0; i < 6; i++) {
        hold_ms = 3;
        hold(shared[i % 2]);
        nap();
        release(shared[i % 2]);
    }
    for (int i = 0; i < THREADS; i++)
        thread_join(t[i]);
    SAY(cuCtxSynchronize());
    for (int i = 0; i < THREADS; i++)
        show("counter", counters[i]);
}
