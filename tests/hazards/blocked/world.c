/*
 * world.c - see world.h.
 */
#include "tests/hazards/blocked/world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/cutin.h"
#include "tests/hazards/hazard.h"

/* Launches behind each wait. With a cap, best effort has some in flight and the others buffered. */
enum { BEHIND = 3 };

word busy, idle, apart;
static CUstream blocking, elsewhere, captured;
static CUdeviceptr changed, there, copied, word_at, word_there;
static _Atomic uint32_t *gate; /* pinned */
static word recorded, recorded_idle, launched, named;

/* ---- the watch ------------------------------------------------------------------------------- */

static _Atomic(const char *) calling;
static _Atomic uint32_t calls;
static _Atomic bool late;
static _Atomic bool expected; /* the call waits, so a shorter patience is enough */

/* Calls may wait for a hold, or for room under the cap; only a call that hangs meets this limit. On
 * a clock that moves only when no thread can run, reaching it takes no real time. */
static int patience_ms(void)
{
    const char *set = getenv("BLOCKED_PATIENCE_MS");
    return atomic_load(&expected) ? 1000 : set ? atoi(set) : 60000;
}

static void *watch(void *unused)
{
    (void)unused;
    uint32_t seen = 0;
    for (int ms = 0;; ms++, nap()) {
        int most = patience_ms();
        const char *function = atomic_load(&calling);
        if (!function || atomic_load(&calls) != seen) {
            seen = atomic_load(&calls);
            ms = 0;
        } else if (ms == most) {
            atomic_store(&late, true);
            atomic_store(gate, 1);
        } else if (ms == 2 * most) {
            printf("%s never returns\n", function);
            give_up("a call never returns");
        }
    }
    return NULL;
}

void call_begin(const char *function)
{
    atomic_store(&late, false);
    atomic_fetch_add(&calls, 1);
    atomic_store(&calling, function);
}

bool call_end(void)
{
    return atomic_load(&late);
}

/* ---- others ---------------------------------------------------------------------------------- */

static struct thread *other;
static _Atomic bool begun, over;

static void copy(void *unused)
{
    static uint32_t pageable[N];
    (void)unused;
    atomic_store(&begun, true);
    MUST(cuMemcpyDtoHAsync(pageable, copied, BYTES, (CUstream)busy));
}

static void capture(void *unused)
{
    CUgraph made = NULL;
    (void)unused;
    MUST(cuStreamBeginCapture(captured, CU_STREAM_CAPTURE_MODE_GLOBAL));
    atomic_store(&begun, true);
    while (!atomic_load(&over))
        nap();
    CUresult r = cuStreamEndCapture(captured, &made);
    if (r != CUDA_SUCCESS)
        printf("the capture ends with %d\n", (int)r);
}

/* A copy does not wait where `busy` is not blocked. */
static void other_begin(enum company company)
{
    atomic_store(&begun, false);
    atomic_store(&over, false);
    other = thread_start(company == TURN ? copy : capture, NULL);
    UNTIL(atomic_load(&begun));
    if (company == TURN && getenv("SIMGPU_CLOCK"))
        for (int i = 0; i < 3; i++)
            nap(); /* stepped time, in which other threads that can run do so */
    else if (company == TURN)
        thread_waits(other);
}

/* ---- the world ------------------------------------------------------------------------------- */

void world_open(void)
{
    pthread_t watcher;
    busy = W(stream_new(CU_STREAM_NON_BLOCKING));
    idle = W(stream_new(CU_STREAM_NON_BLOCKING));
    blocking = stream_new(CU_STREAM_DEFAULT);
    captured = stream_new(CU_STREAM_NON_BLOCKING);
    changed = buffer_new(1);
    copied = buffer_new(1);
    warm((CUstream)busy);
    warm(blocking);
    gate = (_Atomic uint32_t *)pinned_new(0);
    MUST(cuMemHostGetDevicePointer(&word_at, (void *)(uintptr_t)gate, 0));
    apart = W(context_new());
    elsewhere = stream_new(CU_STREAM_NON_BLOCKING);
    MUST(cuMemAlloc(&there, BYTES));
    MUST(cuMemHostGetDevicePointer(&word_there, (void *)(uintptr_t)gate, 0));
    MUST(cuCtxSetCurrent(context));
    if (pthread_create(&watcher, NULL, watch, NULL) != 0)
        give_up("no thread");
}

word behind_event(word e)
{
    return recorded = e;
}

word behind_graph(word g)
{
    return launched = g;
}

word in_idle(word e)
{
    return recorded_idle = e;
}

word named_context(word c)
{
    return named = c;
}

void world_enter(enum waits waits)
{
    recorded = recorded_idle = launched = named = 0;
    MUST(cuCtxSetCurrent(waits == CONTEXT ? (CUcontext)apart : context));
    MUST(cuCtxSynchronize());
}

static void block(CUstream s)
{
    MUST(cuStreamWaitValue32(s, word_at, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < BEHIND; i++)
        MUST(launch_mix(changed, 1, 0, s));
}

/* This context has no kernels, so memsets do. */
static void block_apart(void)
{
    MUST(cuCtxSetCurrent((CUcontext)apart));
    MUST(cuStreamWaitValue32(elsewhere, word_there, 1, CU_STREAM_WAIT_VALUE_GEQ));
    for (int i = 0; i < BEHIND; i++)
        MUST(cuMemsetD32Async(there, 1, N, elsewhere));
}

static void block_named(void)
{
    CUdeviceptr at;
    MUST(cuCtxSetCurrent((CUcontext)named));
    MUST(cuMemHostGetDevicePointer(&at, (void *)(uintptr_t)gate, 0));
    MUST(cuStreamWaitValue32(stream_new(CU_STREAM_NON_BLOCKING), at, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

/* Only cutin can tell this. */
static struct cutin_stream_state busy_state(void)
{
    struct cutin_stream_state state = {.size = sizeof(state)};
    MUST(cutin_stream_state((CUstream)busy, &state));
    return state;
}

static bool world_is(const char *what)
{
    const char *is = cutin_version() ? getenv("HAZARD_WORLD") : NULL;
    return is && strcmp(is, what) == 0;
}

/* Checks that the world is the one that HAZARD_WORLD names. */
static void check_buffered(void)
{
    if (world_is("buffered") && busy_state().buffered == 0)
        give_up("nothing is buffered");
}

/* Waits for a hold by the service, since its holds come and go. */
static void check_held(void)
{
    if (world_is("held") || world_is("gates") || world_is("suspend"))
        UNTIL(busy_state().held & CUTIN_HELD_BY_OTHERS);
}

void world_block(enum waits waits, enum company company, bool all)
{
    CUcontext current;
    MUST(cuCtxGetCurrent(&current));
    atomic_store(gate, 0);
    atomic_store(&expected, all);
    MUST(cuCtxSetCurrent(context));
    if (waits != DEVICE || all) {
        block((CUstream)busy);
        check_buffered();
        if (recorded)
            MUST(cuEventRecord((CUevent)recorded, (CUstream)busy));
        if (launched)
            MUST(cuGraphLaunch((CUgraphExec)launched, (CUstream)busy));
        if (waits != BLOCKING || all) {
            block(blocking);
            MUST(launch_mix(changed, 1, 0, NULL));
        }
        if (all)
            block((CUstream)idle);
        if (recorded_idle)
            MUST(cuEventRecord((CUevent)recorded_idle, (CUstream)idle));
        if (named && all)
            block_named();
        if (waits != CONTEXT || all)
            block_apart();
    }
    MUST(cuCtxSetCurrent(current));
    if (waits != DEVICE || all)
        check_held();
    if (company != NOBODY)
        other_begin(company);
}

void world_clear(enum company company)
{
    atomic_store(gate, 1);
    atomic_store(&over, true);
    if (company != NOBODY)
        thread_join(other);
    MUST(cuCtxSetCurrent((CUcontext)apart));
    MUST(cuCtxSynchronize());
    MUST(cuCtxSetCurrent(context));
    MUST(cuCtxSynchronize());
    atomic_store(&calling, NULL);
}
