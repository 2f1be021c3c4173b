/*
 * traced.c - records of calls, and timing events (see traced.h).
 *
 * Timing events tell only differences. So each context has an anchor, an event of its own, and
 * device times count from the first anchor. The anchor moves to a later event from time to time,
 * because a difference is a float in milliseconds and grows coarse. The reader of the trace knows
 * that no call begins before the host asked for it, and so learns how far apart the clocks are.
 */
#include "shim/path/traced.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "shim/objects/event.h"

enum {
    TIMINGS = 2048, /* at most under way; further calls are not timed */
    CLOCKS = 16,    /* contexts whose calls are timed */
    EVERY = 16,     /* one call in so many is timed, where the trace is a ring */
    READ = 4,       /* finished timings that one call reads */
    ANCHOR_NS = 1000000000,
};

struct clock {
    const struct shim_context *ctx; /* NULL: free */
    uint64_t generation, base_ns;   /* device time of the anchor */
    uint32_t id;
    CUevent anchor;
};

enum timing_state {
    TIMING_VOID,     /* nothing will come of it */
    TIMING_TAKEN,    /* a thread is making the call, and owns this */
    TIMING_RECORDED, /* to be read */
};

struct timing {
    struct clock *clock; /* of the context of the events; NULL: there are none */
    CUevent start, end;
    struct trace_record record;
    _Atomic enum timing_state state;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct clock clocks[CLOCKS];
static struct timing timings[TIMINGS]; /* a ring, oldest first */
static uint32_t oldest, count;
static _Atomic uint32_t calls;

static void traced_open(void)
{
    const struct config *cfg = config_get();
    bool first = cfg->trace_keep == TRACE_KEEP_FIRST;
    int rc = 0;

    if (cfg->trace[0])
        rc = trace_open(cfg->trace, cfg->trace_records, first, cfg->level);
    if (rc == -EBUSY)
        log_line(LOG_WARN,
                 "no trace: another process writes to CUTIN_TRACE=%.200s; add %%p, which stands "
                 "for the process id",
                 cfg->trace);
    else if (rc == -EEXIST)
        log_line(LOG_WARN,
                 "no trace: CUTIN_TRACE=%.200s is not a regular file with one name that belongs to "
                 "this user; choose another name",
                 cfg->trace);
    else if (rc != 0)
        log_line(LOG_WARN, "no trace: cannot write CUTIN_TRACE=%.200s: %s", cfg->trace,
                 strerror(-rc));
}

/* Opens the trace that CUTIN_TRACE asks for. If that fails there is one warning. */
static int traced_wanted(struct shim_context *none)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, traced_open);
    return 0;
}
CONTEXT_BEGIN(CONTEXT_WANTED, traced_wanted)

/* The clock of a context. A new one's anchor is recorded into `stream`, ahead of what it times. */
static struct clock *clock_of(const struct shim_context *ctx, CUstream stream)
{
    static uint32_t ids;
    struct clock *fresh = NULL;

    for (struct clock *k = clocks; k < clocks + CLOCKS; k++) {
        if (k->ctx == ctx && k->generation == ctx->generation)
            return k;
        if (!k->ctx && !fresh)
            fresh = k;
    }
    if (!fresh || REAL(cuEventCreate)(&fresh->anchor, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
        return NULL;
    if (REAL(cuEventRecord)(fresh->anchor, stream) != CUDA_SUCCESS) {
        REAL(cuEventDestroy_v2)(fresh->anchor);
        return NULL;
    }
    *fresh = (struct clock){
        .ctx = ctx, .generation = ctx->generation, .id = ++ids, .anchor = fresh->anchor};
    return fresh;
}

/* False: it is not complete yet. */
static bool timing_read(struct timing *t)
{
    struct clock *k = t->clock;
    float since = 0, took = 0;
    CUresult r = REAL(cuEventElapsedTime)(&took, t->start, t->end);

    if (r == CUDA_SUCCESS)
        r = REAL(cuEventElapsedTime)(&since, k->anchor, t->start);
    if (r == CUDA_ERROR_NOT_READY)
        return false;
    if (r != CUDA_SUCCESS)
        return true; /* the context failed */
    /* A call in another stream that began before the anchor has a negative time; trace_view.c
     * knows. */
    int64_t since_ns = (int64_t)((double)since * 1e6);
    t->record.sample.device_ns = k->base_ns + (uint64_t)since_ns;
    t->record.sample.duration_ns = (uint64_t)(int64_t)((double)took * 1e6);
    trace_put(&t->record);
    if (since_ns > ANCHOR_NS) {
        CUevent anchor = k->anchor;
        k->anchor = t->start;
        t->start = anchor;
        k->base_ns = t->record.sample.device_ns;
    }
    return true;
}

/* Lock held. */
static void read_some(uint32_t most)
{
    while (count && most--) {
        struct timing *t = &timings[oldest];
        enum timing_state state = atomic_load_explicit(&t->state, memory_order_acquire);

        if (state == TIMING_TAKEN || (state == TIMING_RECORDED && t->clock && !timing_read(t)))
            return;
        oldest = (oldest + 1) % TIMINGS;
        count--;
    }
}

#define ACROSS                                                                                     \
    "whoever times a call reads the earlier ones: other threads only try; the end of a context "   \
    "waits"

/* Without the lock it does nothing: waiting could mean waiting for another thread's driver call. */
void traced_read(void)
{
    if (!trace_on() || pthread_mutex_trylock(&lock) != 0)
        return;
    lock_across_driver(&lock, ACROSS);
    read_some(TIMINGS);
    pthread_mutex_unlock(&lock);
}

static void timings_end(struct shim_context *ctx, bool alive)
{
    pthread_mutex_lock(&lock);
    for (struct clock *k = clocks; k < clocks + CLOCKS; k++) {
        if (k->ctx != ctx)
            continue;
        for (int i = 0; i < TIMINGS; i++) { /* the driver destroys the events with the context */
            if (timings[i].clock != k)
                continue;
            timings[i].clock = NULL;
            atomic_store_explicit(&timings[i].state, TIMING_VOID, memory_order_relaxed);
        }
        *k = (struct clock){.ctx = NULL};
    }
    pthread_mutex_unlock(&lock);
}
CONTEXT_END(CONTEXT_ENDED, timings_end)

struct timing *traced_begin(const struct shim_context *ctx, CUstream stream,
                            const struct traced_label *who)
{
    if (capture_any() ||
        (config_get()->trace_keep != TRACE_KEEP_FIRST &&
         atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed) % EVERY != 0) ||
        pthread_mutex_trylock(&lock) != 0)
        return NULL;
    lock_across_driver(&lock, ACROSS);
    read_some(READ);
    /* Takes the next place of the ring, with events. */
    struct timing *t = &timings[(oldest + count) % TIMINGS];
    struct context_scope scope = context_push_other(ctx);
    struct clock *k = count < TIMINGS ? clock_of(ctx, stream) : NULL;
    if (k && t->clock && t->clock != k) { /* it has events of another context */
        REAL(cuEventDestroy_v2)(t->start);
        REAL(cuEventDestroy_v2)(t->end);
        t->clock = NULL;
    }
    if (k && !t->clock && event_pair(&t->start, &t->end))
        t->clock = k;
    context_pop(scope);
    bool taken = k && t->clock;
    if (taken) {
        atomic_store_explicit(&t->state, TIMING_TAKEN, memory_order_relaxed);
        count++;
    }
    pthread_mutex_unlock(&lock);
    if (!taken)
        return NULL;
    t->record = (struct trace_record){.kind = TRACE_SAMPLE,
                                      .ns = trace_clock(),
                                      .level = who->level,
                                      .stream = who->stream,
                                      .name = who->name};
    t->record.sample.op = who->op;
    t->record.sample.context = t->clock->id;
    if (REAL(cuEventRecord)(t->start, stream) == CUDA_SUCCESS) {
        t->record.sample.lead_ns = trace_elapsed_ns(t->record.ns);
        return t;
    }
    atomic_store_explicit(&t->state, TIMING_VOID, memory_order_release);
    return NULL;
}

void traced_end(struct timing *t, CUstream stream, CUresult result)
{
    bool recorded;

    if (!t)
        return;
    recorded = REAL(cuEventRecord)(t->end, stream) == CUDA_SUCCESS && result == CUDA_SUCCESS;
    atomic_store_explicit(&t->state, recorded ? TIMING_RECORDED : TIMING_VOID,
                          memory_order_release);
}

void traced_wait(const char *name, uint64_t from_ns)
{
    struct trace_record r = {.kind = TRACE_SYNC, .ns = from_ns, .name = trace_name(name)};

    r.copy.took_ns = trace_elapsed_ns(from_ns);
    trace_put(&r);
    traced_read();
}
