/*
 * room.c - a stream that has no room in the driver is full for those who use it, and for nobody
 * else.
 */
#include "tests/hazards/hazard.h"

#include <semaphore.h>

enum { ROOM = 1024 }; /* of a stream in the driver */
static int records;
static volatile uint32_t *word; /* pinned */
static CUdeviceptr word_at, changed;
static CUevent event;
static sem_t over;

/* Up to a launch that just fits, behind a word. The driver lets this thread wait at most. */
static void legacy_filled(void *unused)
{
    MUST(cuStreamWaitValue32(NULL, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < records; i++)
        MUST(cuEventRecord(event, NULL));
    MUST(launch_mix(changed, 5, 7, NULL));
    sem_wait(&over);
}

HAZARD(capture_begins_while_the_legacy_stream_has_no_room)
{
    CUgraph graph = NULL;
    CUstream s = stream_new(CU_STREAM_NON_BLOCKING);
    changed = buffer_new(3);
    warm(NULL);
    event = event_new();
    word = pinned_new(0);
    sem_init(&over, 0, 0);
    MUST(cuMemHostGetDevicePointer(&word_at, (void *)(uintptr_t)word, 0));
    hang_watch("a capture waits for room in the legacy stream");
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
