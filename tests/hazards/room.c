/*
 * room.c - a stream that has no room in the driver is full for the threads that use it, and for no
 * other.
 */
#include "tests/hazards/hazard.h"

#include <semaphore.h>

enum { ROOM = 1024 }; /* commands of a stream in the driver */
static int records;
static CUstream full, other;
static volatile uint32_t *word; /* pinned */
static CUdeviceptr word_at, changed, elsewhere;
static CUevent event;
static sem_t over;

/* Makes what a stream is filled with, and the word that it waits for. */
static void world_new(const char *hangs)
{
    changed = buffer_new(3);
    event = event_new();
    word = pinned_new(0);
    sem_init(&over, 0, 0);
    MUST(cuMemHostGetDevicePointer(&word_at, (void *)(uintptr_t)word, 0));
    /* If the driver refuses memory operations it does so here, before a thread is watched. */
    MUST(cuStreamWaitValue32(NULL, word_at, 0, CU_STREAM_WAIT_VALUE_GEQ));
    hang_watch(hangs);
}

/* Fills the stream behind a word; the last launch just fits. Only the driver may make it wait. */
static void legacy_filled(void *unused)
{
    MUST(cuStreamWaitValue32(NULL, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < records; i++)
        MUST(cuEventRecord(event, NULL));
    MUST(launch_mix(changed, 5, 7, NULL));
    sem_wait(&over);
}

static void captured_beside_legacy(unsigned flags)
{
    CUgraph graph = NULL;
    CUstream s = stream_new(flags);
    warm(NULL);
    world_new("a capture waits for room in the legacy stream");
    for (records = ROOM - 12; records < ROOM; records++) {
        MUST(cuCtxSynchronize());
        word[0] = 0;
        struct thread *t = thread_start(legacy_filled, NULL);
        thread_waits(t);
        MUST(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        MUST(cuStreamEndCapture(s, &graph));
        word[0] = 1;
        sem_post(&over);
        thread_join(t);
    }
    SAY(cuCtxSynchronize());
    show("changed", changed);
}

HAZARD(capture_begins_while_the_legacy_stream_is_full)
{
    captured_beside_legacy(CU_STREAM_NON_BLOCKING);
}

HAZARD(blocking_stream_capture_begins_while_the_legacy_one_is_full)
{
    captured_beside_legacy(CU_STREAM_DEFAULT);
}

static void full_and_other(void)
{
    full = stream_new(CU_STREAM_NON_BLOCKING);
    other = stream_new(CU_STREAM_NON_BLOCKING);
    warm(full);
    warm(other);
}

/* ---- others, while a marker waits for room --------------------------------------------------- */

static void until_opened(void *unused)
{
    (void)unused;
    while (!word[0])
        nap();
}

static void filled(void *unused)
{
    MUST(cuLaunchHostFunc(full, until_opened, NULL));
    for (int i = 0; i < 2; i++) /* the library asks for a marker */
        MUST(launch_mix(changed, 5, 7, full));
    for (int i = 0; i < records; i++)
        MUST(cuEventRecord(event, full));
    for (int i = 0; i < 2; i++)
        MUST(launch_mix(changed, 5, 7, full));
    sem_wait(&over);
}

HAZARD(launch_completes_while_a_marker_waits_for_room)
{
    full_and_other();
    changed = buffer_new(3);
    elsewhere = buffer_new(2);
    event = event_new();
    word = pinned_new(0);
    sem_init(&over, 0, 0);
    hang_watch("a launch waits for room in another stream");
    for (records = ROOM - 12; records < ROOM; records++) {
        MUST(cuCtxSynchronize());
        word[0] = 0;
        struct thread *t = thread_start(filled, NULL);
        thread_waits(t);
        for (int i = 0; i < 8; i++)
            MUST(launch_mix(elsewhere, 3, 4, other));
        MUST(cuStreamSynchronize(other));
        word[0] = 1;
        sem_post(&over);
        thread_join(t);
    }
    SAY(cuCtxSynchronize());
    show("changed", changed);
    show("elsewhere", elsewhere);
}

/* ---- others, while the dispatcher has commands for the full stream -------------------------- */

/* Launches more than the driver has room for. Under cutin the last of it is buffered. */
static void overfilled(void *unused)
{
    const char *depth = getenv("SIMGPU_DEPTH"); /* set if the driver has less room */
    MUST(cuStreamWaitValue32(full, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < (depth ? atoi(depth) : ROOM) - 64; i++)
        MUST(cuEventRecord(event, full));
    hold(full);
    for (int i = 0; i < 128; i++)
        MUST(cuEventRecord(event, full));
    MUST(launch_mix(changed, 5, 7, full));
    sem_wait(&over);
}

static void beside_a_full_stream(void (*act)(void))
{
    elsewhere = buffer_new(2);
    full_and_other();
    world_new("a call waits for room in another stream");
    struct thread *t = thread_start(overfilled, NULL);
    thread_waits(t);
    release(full);
    act();
    word[0] = 1;
    sem_post(&over);
    thread_join(t);
    SAY(cuCtxSynchronize());
    show("changed", changed);
    show("elsewhere", elsewhere);
}

static void other_captured(void)
{
    CUgraph graph = NULL;
    MUST(cuStreamBeginCapture(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    MUST(launch_mix(changed, 1, 0, other));
    SAY(cuStreamEndCapture(other, &graph));
    SAY(cuGraphDestroy(graph));
}

HAZARD(capture_begins_while_another_stream_is_full)
{
    beside_a_full_stream(other_captured);
}

static void other_worked(void)
{
    MUST(launch_mix(elsewhere, 3, 4, other));
    SAY(cuStreamSynchronize(other));
}

HAZARD(launch_completes_while_another_stream_is_full)
{
    beside_a_full_stream(other_worked);
}

static void other_recorded(void)
{
    CUevent e = event_new();
    MUST(cuEventRecord(e, other));
    SAY(cuEventSynchronize(e));
    SAY(cuEventDestroy(e));
}

HAZARD(event_is_recorded_while_another_stream_is_full)
{
    beside_a_full_stream(other_recorded);
}

static void other_allocated(void)
{
    CUdeviceptr x = 0;
    MUST(cuMemAllocAsync(&x, BYTES, other));
    SAY(cuMemFreeAsync(x, other));
    SAY(cuStreamSynchronize(other));
}

HAZARD(memory_is_allocated_and_freed_while_another_stream_is_full)
{
    beside_a_full_stream(other_allocated);
}

static void other_destroyed(void)
{
    MUST(launch_mix(elsewhere, 3, 4, other));
    SAY(cuStreamDestroy(other));
}

HAZARD(stream_is_destroyed_while_another_stream_is_full)
{
    beside_a_full_stream(other_destroyed);
}
